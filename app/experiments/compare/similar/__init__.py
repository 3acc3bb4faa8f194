"""The command ``closecall compare similar``: it compares hash families and structures for similarity search.

Figures of "the survey" are those of K. Grauman, R. Fergus, "Learning binary hash codes for large-scale image
search", 2013.
"""
