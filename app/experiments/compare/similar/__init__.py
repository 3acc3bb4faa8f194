"""Comparison of similarity-hash families and search structures on one pool: ``closecall compare similar``."""
