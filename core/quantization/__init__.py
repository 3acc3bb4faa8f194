"""Rows as bytes: principal directions, clusters and quantized coordinates."""
