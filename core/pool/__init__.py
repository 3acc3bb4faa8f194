"""Pools on disk: built, published, read, searched by name."""
