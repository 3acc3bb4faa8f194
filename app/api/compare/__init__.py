"""What the compare page shows, as JSON."""
