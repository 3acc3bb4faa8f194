"""Benchmarks and comparisons; labeling needs none of them."""
