"""What is measured of labels and classifiers, and when to stop."""
