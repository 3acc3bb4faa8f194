"""Labeling sessions and their views."""
