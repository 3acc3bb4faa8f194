"""Benchmarks and comparisons: nothing here is needed in order to label."""
