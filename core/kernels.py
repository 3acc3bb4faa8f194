"""Numba, as this project uses it: the GIL released, compiled code kept on disk, never threads of its own.

Threads come from the caller, one kernel call each (Numba's own work queue ends the process on concurrent
calls).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

from numba import njit

P = ParamSpec("P")
R = TypeVar("R")


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile `function` at its first call, with fused multiply-add, and keep the code for later runs.

    The cache knows the time of the file that `function` is in, and of no other: a kernel must call only
    kernels of its own file.
    """
    return cast(Callable[P, R], njit(nogil=True, cache=True, fastmath={"contract"})(function))


def fast_kernel(function: Callable[P, R]) -> Callable[P, R]:
    """As `kernel`, and free to reassociate sums: the last bits depend on the machine."""
    return cast(Callable[P, R], njit(nogil=True, cache=True, fastmath=True)(function))


def strict_kernel(function: Callable[P, R]) -> Callable[P, R]:
    """As `kernel`, in plain IEEE arithmetic, nothing fused or reassociated: every machine agrees."""
    return cast(Callable[P, R], njit(nogil=True, cache=True)(function))
