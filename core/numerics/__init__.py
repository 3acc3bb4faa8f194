"""Compiled code, threads of linear algebra, random numbers, rows and blocks."""
