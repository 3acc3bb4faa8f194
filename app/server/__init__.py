"""Serves the pages over HTTP."""
