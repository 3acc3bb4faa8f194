"""Inner loops of the search structures, compiled by Numba; they release the GIL and start no threads.

No kernel calls a kernel of another file. Numba caches compiled code by file, so it would not notice that the
kernel in the other file has changed.
"""
