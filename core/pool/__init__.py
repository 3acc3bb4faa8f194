"""Pools on disk: build, publish, read, and search by name."""
