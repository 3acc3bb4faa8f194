"""The user interface. The first import limits BLAS to one thread, before numpy reads the setting.

Labeling sessions share the cores, the program has its own thread pools, and selection is limited by memory
rather than by arithmetic.
"""

import os

for _name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
