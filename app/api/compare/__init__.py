"""The Compare page as JSON."""
