from closecall.core.map.build import PoolMap, Progress, build_map, has_map
from closecall.core.map.lasso import inside
from closecall.core.map.tiles import Cells, MapTiles

__all__ = ["Cells", "MapTiles", "PoolMap", "Progress", "build_map", "has_map", "inside"]
