"""What people touch. The first import says how many threads BLAS may use; numpy reads it when it loads.

One a call: labeling sessions share the cores, threads come from the program's own pools, and what a
selection does is bound by memory, not by arithmetic.
"""

import os

for _name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
