"""The content of the page Map: the map as a question's answers change it, and its state at one time."""

from closecall.app.api.map.live import LiveMap, find_map, is_mapped

__all__ = ["LiveMap", "find_map", "is_mapped"]
