"""The program around `core` and `storage`: pages, commands, sessions, and the engine that they share.

Importing this package before numpy limits BLAS to one thread, unless the environment sets another number.
More threads would not help: sessions share the cores, the program has its own thread pools, and memory limits
selection more than arithmetic does.
"""

import os

for _name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
