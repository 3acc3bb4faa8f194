"""Similarity-hash families and search structures compared on one pool: ``closecall compare similar``."""
