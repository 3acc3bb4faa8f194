"""Many annotators at once, each with a page that talks to the server like the labeling page in a browser."""
