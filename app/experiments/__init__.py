"""Benchmarks and comparisons of methods. Labeling does not use this package."""
