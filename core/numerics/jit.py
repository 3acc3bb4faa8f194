"""Decorators that compile functions with Numba: without the GIL, with cached code, on the calling thread.

The compiled functions are called kernels. For parallel work, the caller starts threads that each call a
kernel. Numba's own threads are not used, because Numba terminates the process if two threads start parallel
work at once.
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
    """Compile `function` at its first call, with fused multiply-add, and cache the code on disk.

    The cache only checks the modification time and the size of the file that contains `function`. It does not
    notice changes in other files, so a kernel must only call kernels of its own file.
    """
    return cast(Callable[P, R], njit(nogil=True, cache=True, fastmath={"contract"})(function))


def fast_kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile like `kernel`, but let the compiler reorder sums, and assume that all values are finite.

    The last bits of results then depend on the machine.
    """
    return cast(Callable[P, R], njit(nogil=True, cache=True, fastmath=True)(function))


def strict_kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile like `kernel`, but in plain IEEE arithmetic, without fused operations or reordered sums.

    The results have the same bits on every machine.
    """
    return cast(Callable[P, R], njit(nogil=True, cache=True)(function))


def _as_pointer(target: Any, builder: Any, signature: Any, values: Any) -> Any:
    """Generate the code of a Numba intrinsic that turns its first argument, an address, into a pointer."""
    return builder.inttoptr(values[0], target.get_value_type(signature.return_type))


@cast(Callable[[Any], Callable[[Any], Any]], intrinsic)
def float32_at(context: Any, address: types.Integer) -> Any:  # noqa: ARG001
    """Return an integer address as a pointer to float32. Kernels call ``carray(float32_at(address), shape)``.

    With an array of addresses, a kernel can take a variable number of arrays, such as the segments of a pool.
    The caller of the kernel must keep these arrays alive.
    """
    return cast(Any, types).CPointer(types.float32)(address), _as_pointer


@cast(Callable[[Any], Callable[[Any, Any], Any]], intrinsic)
def pointer(context: Any, address: types.Integer, like: types.Array) -> Any:  # noqa: ARG001
    """Return an address as a pointer to values. Their dtype is that of the array `like`; see `float32_at`."""
    return cast(Any, types).CPointer(like.dtype)(address, like), _as_pointer


@cast(Callable[[Any], Callable[[Any, Any, Any], None]], intrinsic)
def prefetch(context: Any, array: types.Array, row: types.Integer, column: types.Integer) -> Any:  # noqa: ARG001
    """Request the cache line of X[i, j] in advance. Kernels call ``prefetch(X, i, j)``.

    The kernel does not wait for the line, and positions beyond the end of the array are harmless. The
    processor prefetches lines by itself, but stops at the end of each memory page. A kernel that does little
    work with each line of a large array is three times as fast if it requests lines some rows in advance.
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
    """Return the number of set bits of an integer, by a processor instruction. Kernels call `ones(word)`."""

    def generate(target: Any, builder: Any, signature: Any, values: Any) -> Any:  # noqa: ARG001
        return builder.ctpop(values[0])

    return word(word), generate
