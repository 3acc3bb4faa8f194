"""Compiled code, BLAS threads, random numbers, rows and blocks."""
