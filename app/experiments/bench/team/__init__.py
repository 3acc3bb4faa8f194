"""Many annotators at once, each with a page of its own that speaks as the labeling page in a browser does."""
