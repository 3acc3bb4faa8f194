"""Formatting of labels, texts, images and numbers for display."""
