"""Hyperplanes: trained, scored, and judged without one label."""
