"""Indexes over a project's pool, built and extended in the background."""
