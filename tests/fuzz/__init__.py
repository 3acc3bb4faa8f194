import closecall.app  # noqa: F401  # BLAS on one thread, as in the program; on many, cases cost half as much again
