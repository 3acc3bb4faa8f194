"""The comparison of hash families and search structures for similar items: ``closecall compare similar``."""
