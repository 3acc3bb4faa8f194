"""Replay a project's log and report disagreements."""
