"""The program around `core` and `storage`: pages, commands, sessions, and the engine that they share.

If this package is imported before numpy, BLAS uses one thread, unless the environment sets another number.
More threads would not make the program faster: several sessions share the cores, the program has its own
thread pools, and a selection spends most of its time on reading memory.
"""

import os

for _name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
