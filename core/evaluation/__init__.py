"""Measures of labels and classifiers, and advice when to stop."""
