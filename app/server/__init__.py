"""Serve the pages over HTTP."""
