"""Replays a project's log and reports what does not hold."""
