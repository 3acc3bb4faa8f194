"""Similarity-hash families and search structures compared on one pool: ``marginalia compare similar``."""
