"""Simulated annotators and races of strategies."""
