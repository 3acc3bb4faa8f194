"""Files that survive a kill, a power cut and a full disk."""
