"""What an annotator has open: labeling sessions and their views."""
