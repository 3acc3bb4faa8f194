"""Labels until a target: ``closecall compare until``."""
