"""Compiles everything that Numba compiles, so that no first click waits for it: ``python -m core.warmup``.

A module with kernels is listed here and has a function ``warm_up``, which calls each of them once with the
types that will be used. Numba keeps the machine code on disk; where it is there already, this takes a second.
"""

from __future__ import annotations

from importlib import import_module

MODULES = ("core.svm",)


def main() -> None:
    """Warm up every module."""
    for name in MODULES:
        import_module(name).warm_up()


if __name__ == "__main__":
    main()
