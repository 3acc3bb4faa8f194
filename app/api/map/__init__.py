"""The content of the page Map: `live` follows a question's answers, `version` is the map at one time."""

from closecall.app.api.map.live import LiveMap, find_map, is_mapped

__all__ = ["LiveMap", "find_map", "is_mapped"]
