"""Measures of the quality of labels and classifiers, and a recommendation when to stop labeling."""
