"""The command ``closecall compare similar``: it compares hash families and structures for similarity search.

"The survey" is K. Grauman, R. Fergus, "Learning binary hash codes for large-scale image search", 2013.
"""
