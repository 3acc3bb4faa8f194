"""Numba, as this project uses it: the GIL released, compiled code kept on disk, never threads of its own.

Threads come from the caller, one kernel call each (Numba's own work queue ends the process on concurrent
calls).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

from llvmlite import ir
from numba import njit
from numba.core import cgutils, types
from numba.extending import intrinsic

from closecall.core.numerics.kernel_cache import use_writable_folder

use_writable_folder()  # Numba asks for the folder when a kernel is defined

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


@cast(Callable[[Any], Callable[[Any], Any]], intrinsic)
def float32_at(context: Any, address: types.Integer) -> Any:  # noqa: ARG001
    """In a kernel, ``carray(float32_at(address), shape)``: the float32 array whose data begin at an address.

    For arrays of which there are any number, as a pool has segments. The caller keeps them alive.
    """

    def generate(target: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.inttoptr(values[0], target.get_value_type(signature.return_type))

    return cast(Any, types).CPointer(types.float32)(address), generate


@cast(Callable[[Any], Callable[[Any, Any, Any], None]], intrinsic)
def prefetch(context: Any, array: types.Array, row: types.Integer, column: types.Integer) -> Any:  # noqa: ARG001
    """In a kernel, ``prefetch(X, i, j)``: ask for the line of X[i, j] to be brought into the cache.

    Nothing waits for it, and places beyond the end do no harm. Where a kernel does little with each line of
    a large array, the processor's own look-ahead stops at every page; asking some rows early makes it three
    times as fast.
    """

    def generate(target: Any, builder: Any, signature: Any, values: Any) -> Any:
        struct = target.make_array(signature.args[0])(target, builder, values[0])
        place = builder.bitcast(struct.data, ir.IntType(8).as_pointer())
        strides = cast(Any, cgutils).unpack_tuple(builder, struct.strides, 2)
        for index, kind, stride in zip(values[1:], signature.args[1:], strides, strict=True):
            steps = target.cast(builder, index, kind, types.intp)
            place = builder.gep(place, [builder.mul(steps, stride)])
        number = ir.IntType(32)
        kinds = [place.type, number, number, number]
        function = builder.module.declare_intrinsic(
            "llvm.prefetch", [place.type], ir.FunctionType(ir.VoidType(), kinds)
        )
        to_read, to_stay, data = (ir.Constant(number, value) for value in (0, 3, 1))
        builder.call(function, [place, to_read, to_stay, data])
        return target.get_dummy_value()

    return types.void(array, row, column), generate


@cast(Callable[[Any], Callable[[Any], Any]], intrinsic)
def ones(context: Any, word: types.Integer) -> Any:  # noqa: ARG001
    """In a kernel, ``ones(word)``: how many bits of a whole number are set, by the processor's own count."""

    def generate(target: Any, builder: Any, signature: Any, values: Any) -> Any:  # noqa: ARG001
        return builder.ctpop(values[0])

    return word(word), generate
