"""Faults at every commit: before it, after it, and with its reply lost; each kind of write, in each view."""
