"""Inner loops of the search structures, compiled by Numba; they release the GIL and start no threads.

No kernel calls a kernel of another file: Numba caches by file, so it would go on to use compiled code whose
callee has changed.
"""
