"""From the labels in the log to a hyperplane, and from there to the next item."""
