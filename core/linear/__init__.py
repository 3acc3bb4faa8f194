"""Hyperplanes: training, scoring, and leave-one-out scores."""
