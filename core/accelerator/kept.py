"""The rows of a pool in the memory of a device, which finds the rows that may be the n best.

The device computes wᵀx + b of every row in float32, and takes all rows whose key may be among the n smallest
within the error bound of `core.selection.nearest`. This bound holds for any order of summation, so it holds
on the device, too. If the device has float64, it computes the keys of these rows again, and few rows remain.
The caller scores the remaining rows exactly, as it does without a device. The result is therefore the same,
ties included.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from closecall.core.accelerator.device import Device, first_line
from closecall.core.accelerator.parts import BytePart, FloatPart, Ints, Part, of_each
from closecall.core.files.sizes import bytes_in_words
from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.quantization.byte_rows import ByteRows
from closecall.core.selection.nearest import float32_error, rounding_error, within_reach

log = logging.getLogger(__name__)

PART_BYTES = 1 << 28
"""Size in bytes up to which float32 and float16 rows of several segments are joined."""

BLOCK_VALUES = 1 << 26
"""Number of values that are scored at a time. Values that are not float32 are converted first."""

TOGETHER = 4
"""Maximum number of hyperplanes in one pass over the rows."""

ROOM_A_ROW, ROOM = 24, 1 << 29
"""Memory that scans need: bytes per row, and further bytes."""


class KeptRows:
    """The first rows of a pool in the memory of a device. Thread-safe; scans take turns.

    While rows are missing, as on a device with too little memory, there are no results, and the processors
    must do the work. If the device fails, all rows are dropped for good.

    Parameters
    ----------
    device : Device

    Attributes
    ----------
    problem : str or None
        A sentence that says why rows are missing.
    """

    def __init__(self, device: Device) -> None:
        self.device = device
        self.problem: str | None = None
        self._parts: tuple[Part, ...] = ()
        self._is_usable = True
        self._lock = threading.RLock()
        self._growing = threading.Lock()

    @property
    def n_rows(self) -> int:
        """Number of rows in the device's memory."""
        parts = self._parts
        return parts[-1].end if parts else 0

    def holds(self, n_rows: int) -> bool:
        """Return whether the first `n_rows` rows of the pool are in the device's memory."""
        return 0 < n_rows <= self.n_rows

    def keep_up(self, segments: Sequence[tuple[int, Any]], go_on: Callable[[], None] = lambda: None) -> None:
        """Send the rows to the device that it doesn't have yet; scans go on meanwhile.

        Parameters
        ----------
        segments : sequence of (int, array of shape (n, n_features), float32 or float16, or ByteRows)
            The pool's segments in order, each with the number of its first row.
        go_on : callable
            Called regularly. An exception that it raises stops the work; a later call continues it.
        """
        with self._growing:
            new = [(first, X) for first, X in segments if first + len(X) > self.n_rows]
            if not self._is_usable or not new:
                return
            try:
                if self._has_room(new):
                    for first, X in new:
                        self._send(first, X, go_on)
            except RuntimeError as error:
                self._fail(error)

    def release(self) -> None:
        """Drop all rows, for example because the pool is closed; there are no results any more."""
        with self._lock:
            self._parts, self._is_usable = (), False

    def near(
        self,
        planes: Sequence[Hyperplane],
        key: np.ufunc,
        ns: Sequence[int],
        excluded: Sequence[Ints],
        n_rows: int,
    ) -> list[Ints] | None:
        """For each hyperplane, return the rows whose exact key may be among the n smallest, ascending.

        Parameters
        ----------
        planes : sequence of Hyperplane
            Hyperplanes whose scores don't overflow in float32; see `core.selection.nearest.balanced`.
        key : ufunc
            Function of wᵀx + b: `np.abs` or `np.negative`.
        ns : sequence of int
            The number n for each hyperplane.
        excluded : sequence of arrays of int64, ascending
            For each hyperplane, the rows to leave out.
        n_rows : int
            Only the first `n_rows` rows are searched.

        Returns
        -------
        list of arrays of int64, or None
            None if not all these rows are in the device's memory.
        """
        with self._lock:
            if not self.holds(n_rows):
                return None
            try:
                found: list[Ints] = []
                for first in range(0, len(planes), TOGETHER):
                    some = slice(first, first + TOGETHER)
                    found += self._near(planes[some], key, ns[some], excluded[some], n_rows)
            except RuntimeError as error:
                self._fail(error)
                return None
            return found

    def score_blocks(
        self, planes: Sequence[Hyperplane], n_rows: int
    ) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """Yield wᵀx + b of the first `n_rows` rows, as (first row, array of shape (n_planes, m)), in order.

        The iterator ends early at rows that are not in the device's memory.
        """
        done = 0
        while done < n_rows:
            with self._lock:
                part = next((part for part in self._parts if part.first_row == done), None)
                if part is None:
                    return
                try:
                    scores = self._scores(planes, [part]).cpu().numpy()
                except RuntimeError as error:
                    self._fail(error)
                    return
            yield done, part.in_order_of_rows(scores)[:, : n_rows - done]
            done = part.end

    def _near(
        self,
        planes: Sequence[Hyperplane],
        key: np.ufunc,
        ns: Sequence[int],
        excluded: Sequence[Ints],
        n_rows: int,
    ) -> Iterator[Ints]:
        parts = [part for part in self._parts if part.first_row < n_rows]
        beyond = np.arange(n_rows, parts[-1].end)
        for plane, n, own, keys in zip(planes, ns, excluded, self._scores(planes, parts), strict=True):
            getattr(torch, key.__name__)(keys, out=keys)  # NumPy and PyTorch have the same names
            for part, rows in of_each(parts, np.concatenate([own, beyond])):
                keys[self._sent(part.first_row + part.places(rows))] = torch.inf
            reach = np.float32(_nth_smallest(keys, n) + 2 * float32_error(plane))
            is_near = (keys <= float(np.nextafter(reach, np.float32(np.inf)))) & torch.isfinite(keys)
            yield self._decided(torch.nonzero(is_near)[:, 0].cpu().numpy(), parts, plane, key, n)

    def _decided(self, places: Ints, parts: Sequence[Part], plane: Hyperplane, key: np.ufunc, n: int) -> Ints:
        """Return the rows at these places. If there are more than n, float64 rules out most of the others."""
        found = list(of_each(parts, places))
        rows = np.concatenate([places[:0], *(part.first_row + part.rows(own) for part, own in found)])
        if len(rows) > n and self.device.has_float64:
            weights = parts[0].weights([plane], np.float64)
            scores = torch.cat([part.scores(weights, self._sent(own))[:, 0] for part, own in found])
            rows = rows[within_reach(key(scores.cpu().numpy()), n, rounding_error(plane))]
        return np.sort(rows)

    def _scores(self, planes: Sequence[Hyperplane], parts: Sequence[Part]) -> Tensor:
        """Return wᵀx + b at the places of consecutive parts, of shape (n_planes, n_places), float32."""
        start, weights = parts[0].first_row, parts[0].weights(planes, np.float32)
        shape = len(planes), parts[-1].end - start
        out = torch.empty(shape, dtype=torch.float32, device=self.device.name)
        step = max(1, BLOCK_VALUES // len(planes[0].normal))
        for part in parts:
            for first in range(part.first_row, part.end, step):
                end = min(first + step, part.end)
                scores = part.scores(weights, slice(first - part.first_row, end - part.first_row))
                out[:, first - start : end - start] = scores.T
        return out

    def _has_room(self, new: Sequence[tuple[int, Any]]) -> bool:
        """Return whether the device has memory for the new rows; if not, say so in `problem`."""
        free = self.device.free_bytes()
        needed = sum(_bytes_of(X) for _, X in new) + ROOM_A_ROW * (new[-1][0] + len(new[-1][1])) + ROOM
        if free is None or needed <= free:
            self.problem = None
            return True
        if self.problem is None:
            self._tell(
                f"The pool needs {bytes_in_words(needed)} of memory on {self.device.label}, where "
                f"{bytes_in_words(free)} are free"
            )
        return False

    def _send(self, first: int, X: Any, go_on: Callable[[], None]) -> None:
        """Send the rows of the segment that starts at the row `first`."""
        while self._is_usable and (start := self.n_rows) < first + len(X):
            go_on()
            if isinstance(X, ByteRows):
                self._put(BytePart.of(first, X, self.device.name))
                continue
            most = max(1, PART_BYTES // (X.shape[1] * X.itemsize))
            last = self._parts[-1] if self._parts else None
            if isinstance(last, FloatPart) and len(last.X) < most:
                rows = self._sent(np.array(X[start - first :][: most - len(last.X)]))
                self._put(FloatPart(last.first_row, torch.cat([last.X, rows])), instead=1)
            else:
                self._put(FloatPart(start, self._sent(np.array(X[start - first :][:most]))))

    def _put(self, part: Part, instead: int = 0) -> None:
        """Add a part, instead of the last parts whose number is given."""
        with self._lock:
            if self._is_usable:
                self._parts = (*self._parts[: len(self._parts) - instead], part)

    def _sent(self, array: NDArray[Any]) -> Tensor:
        return torch.from_numpy(array).to(self.device.name)

    def _fail(self, error: RuntimeError) -> None:
        """Drop all rows for good, because the device failed."""
        self.release()
        is_short = isinstance(error, torch.OutOfMemoryError)
        self._tell(
            f"{self.device.label} {'ran out of memory' if is_short else f'failed ({first_line(error)})'}"
        )

    def _tell(self, reason: str) -> None:
        self.problem = f"{reason}: the processors scan the pool instead"
        log.warning("%s", self.problem)


def _nth_smallest(keys: Tensor, n: int) -> float:
    """Return the n-th smallest key; infinity if there are only n keys or fewer."""
    return torch.topk(keys, n, largest=False, sorted=False).values.max().item() if n < len(keys) else np.inf


def _bytes_of(X: Any) -> int:
    return int(X.codes.nbytes + X.fine.nbytes if isinstance(X, ByteRows) else X.nbytes)
