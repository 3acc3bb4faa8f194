"""The blind comparison of two strategies."""
