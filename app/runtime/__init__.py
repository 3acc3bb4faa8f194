"""Threads, child processes and the event log."""
