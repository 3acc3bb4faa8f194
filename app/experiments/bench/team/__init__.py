"""Many annotators at once, each on a page that talks to the server as the labeling page in a browser does."""
