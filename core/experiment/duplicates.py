"""Choice of the angle within which two images count as near-duplicates; recall and precision of this rule.

The angle is measured between the feature vectors of the two images. There are two types of pairs:

- Frames are images of an object on a turntable. Two frames are near-duplicates if they show the same kind of
  object, turned around the same axis, and if the numbers of the frames differ by at most a given k. No
  other frames are near-duplicates, even if their numbers differ by k + 1.
- An altered copy of a photograph is a near-duplicate of its original, and of no other photograph.

The images are divided into two halves, which share no kind (`halves`). The angle is chosen on one half, and
recall and precision are reported on the other half. The smallest angle with a recall of at least `RECALL` and
a precision of at least `PRECISION` is chosen. If no angle has both, the angle with the largest recall among
the angles with at least this precision is chosen. If no angle has this precision, the angle with the largest
F1 score is chosen.

Instead of pairs within an angle, pairs of frames in one group can be rated (`group_rates`). Groups are larger
than a few frames, so a pair in one group is correct if both frames are of one turn.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from closecall.core.duplicates.bursts import in_sequence
from closecall.core.duplicates.groups import Groups
from closecall.core.errors import InputError
from closecall.core.features import of_image
from closecall.core.sources import Source
from closecall.core.sources.images import RENDITION, read_image

Floats64 = NDArray[np.float64]
Bools = NDArray[np.bool_]

PRECISION, RECALL = 0.99, 0.975
"""Minimum precision and recall on the half on which the angle is chosen.

The recall on the other half should then be at least 0.95.
"""

FRAME = r"(?P<kind>.*)/(?:(?P<axis>[^/_\d][^/_]*)_)?(?P<frame>\d+)[^/]*"
"""Regular expression for names of frames as in the data set Fruits-360.

A name is KIND/r2_FRAME_100.jpg for the axis "r2", and KIND/FRAME_100.jpg for the first axis.
"""


@dataclass(frozen=True, eq=False)
class Pairs:
    """Pairs of items: their angles, and whether they are near-duplicates.

    Parameters
    ----------
    angles : array of shape (n_pairs,), float64
        Angle between the two items of each pair, in radians.
    near : array of shape (n_pairs,), bool
        Whether the two items are near-duplicates.
    """

    angles: Floats64
    near: Bools

    def joined(self, others: Pairs) -> Pairs:
        """Return the pairs of this object, followed by the pairs of `others`."""
        return Pairs(np.concatenate([self.angles, others.angles]), np.concatenate([self.near, others.near]))

    def where(self, which: Bools) -> Pairs:
        """Return the pairs selected by the mask `which`, of shape (n_pairs,)."""
        return Pairs(self.angles[which], self.near[which])


class Rates(NamedTuple):
    """Recall and precision of a rule that finds pairs, such as the pairs within an angle.

    Parameters
    ----------
    n_near : int
        Number of pairs that are near-duplicates.
    n_found : int
        Number of pairs found.
    n_right : int
        Number of near-duplicates among the pairs found.
    n_correct : int
        Number of pairs found that count as correct. This is `n_right`, except in `group_rates`.
    """

    n_near: int
    n_found: int
    n_right: int
    n_correct: int

    @property
    def recall(self) -> float:
        """Share of the near-duplicates that are found; NaN if there are no near-duplicates."""
        return self.n_right / self.n_near if self.n_near else float("nan")

    @property
    def precision(self) -> float:
        """Share of correct pairs among the pairs found; NaN if no pair is found."""
        return self.n_correct / self.n_found if self.n_found else float("nan")


def rates(pairs: Pairs, angle: float) -> Rates:
    """Compute recall and precision of the rule that pairs within `angle` radians are near-duplicates."""
    found = pairs.angles <= angle
    n_right = int((found & pairs.near).sum())
    return Rates(int(pairs.near.sum()), int(found.sum()), n_right, n_right)


def choose_angle(pairs: Pairs) -> float:
    """Choose the angle, in radians, by the rule in the docstring of this module.

    Raises
    ------
    InputError
        If no pair is a near-duplicate.
    """
    n_near = int(pairs.near.sum())
    if not n_near:
        raise InputError("no pair is a near-duplicate: the angle can't be chosen")
    order = np.argsort(pairs.angles, kind="stable")
    angles, right = pairs.angles[order], np.cumsum(pairs.near[order])
    whole = np.append(np.diff(angles) > 0, True)  # the last of all pairs with the same angle
    angles, right, found = angles[whole], right[whole], np.arange(1, len(order) + 1)[whole]
    return best_angle(angles, right / n_near, right / found)


def best_angle(angles: Floats64, recall: Floats64, precision: Floats64) -> float:
    """Choose one of the ascending `angles` by the rule in this module's docstring.

    `recall` and `precision`, of the same shape, have the rates at each angle. Precision is NaN at an angle
    at which no pair is found.
    """
    precise = precision >= PRECISION
    enough = precise & (recall >= RECALL)
    if enough.any():
        return float(angles[np.argmax(enough)])
    if precise.any():
        return float(angles[np.argmax(np.where(precise, recall, -1))])
    both = precision + recall
    f1 = np.divide(2 * precision * recall, both, out=np.zeros_like(both), where=both > 0)
    return float(angles[np.argmax(f1)])


class Frames(NamedTuple):
    """Frames: images of objects on a turntable.

    Parameters
    ----------
    kinds, axes, numbers : array of shape (n_frames,)
        Kind of object, axis of the turntable, and number of each frame.
    """

    kinds: NDArray[np.str_]
    axes: NDArray[np.str_]
    numbers: NDArray[np.int64]

    @classmethod
    def of(cls, names: Sequence[str], pattern: str = FRAME) -> Frames:
        """Read the frames from their names, by a regular expression with groups "kind", "axis" and "frame".

        Raises
        ------
        InputError
            If the pattern is not a regular expression or lacks a group, or if a name does not match it.
        """
        try:
            compiled = re.compile(pattern)
        except re.error as error:
            raise InputError(f"the pattern {pattern!r} is not a regular expression: {error}") from error
        if missing := {"kind", "axis", "frame"} - compiled.groupindex.keys():
            raise InputError(f"the pattern {pattern!r} needs a group (?P<{min(missing)}>…)")
        found = [compiled.fullmatch(name) for name in names]
        for name, match in zip(names, found, strict=True):
            if match is None or not match["frame"].isdecimal():
                raise InputError(f"{name} does not match the pattern {pattern!r}")
        matches = [match for match in found if match is not None]
        return cls(
            np.array([match["kind"] for match in matches]),
            np.array([match["axis"] or "" for match in matches]),
            np.array([int(match["frame"]) for match in matches], dtype=np.int64),
        )

    @property
    def turns(self) -> NDArray[np.int64]:
        """For each frame, a number that identifies its kind and axis; shape (n_frames,)."""
        both = np.char.add(np.char.add(self.kinds, "\n"), self.axes)
        return np.asarray(np.unique(both, return_inverse=True)[1], dtype=np.int64)

    def take(self, places: NDArray[np.int64]) -> Frames:
        """Return the frames at the given positions."""
        return Frames(self.kinds[places], self.axes[places], self.numbers[places])


def halves(kinds: NDArray[np.generic]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Split the items into halves that share no kind, and return the positions of the items in each half.

    The kinds, sorted by name, alternate between the halves.

    Raises
    ------
    InputError
        If there is only one kind.
    """
    names = np.unique(kinds)
    if len(names) < 2:
        raise InputError(
            f"at least two kinds are needed, to choose the angle on half of them; got {len(names)}"
        )
    chosen = np.isin(kinds, names[::2])
    return np.flatnonzero(chosen), np.flatnonzero(~chosen)


class FramePairs(NamedTuple):
    """All pairs that can be formed from a set of frames.

    Parameters
    ----------
    pairs : Pairs
    same_turn : array of shape (n_pairs,), bool
        Whether both frames have the same kind and axis.
    following : array of shape (n_pairs,), bool
        Whether both frames are in the same folder, at most k places apart in the order of their names; see
        `frame_pairs` for k.
    """

    pairs: Pairs
    same_turn: Bools
    following: Bools

    @property
    def clear(self) -> Bools:
        """For each pair, whether the two frames are near-duplicates, or differ in kind or axis.

        The remaining pairs are unclear: two frames of one object that are too far apart to count as
        near-duplicates.
        """
        return self.pairs.near | ~self.same_turn


def frame_pairs(X: NDArray[np.floating], names: Sequence[str], frames: Frames, k: int) -> FramePairs:
    """Return all pairs of frames.

    Parameters
    ----------
    X : array of shape (n_frames, n_features)
        Unit rows.
    names : sequence of str
        Name of each frame.
    frames : Frames
        Kind, axis and number of each frame.
    k : int
        Frames of the same kind and axis are near-duplicates if their numbers differ by at most k.
    """
    upper = np.triu_indices(len(X), 1)
    same = same_pairs(frames.turns, upper)
    near = same & (np.abs(frames.numbers[:, None] - frames.numbers)[upper] <= k)
    order, breaks = in_sequence(names, np.full(len(names), np.nan), 0.0)
    places, folders = np.empty(len(names), np.int64), np.empty(len(names), np.int64)
    places[order], folders[order] = np.arange(len(names)), np.cumsum(breaks)
    following = same_pairs(folders, upper) & (np.abs(places[:, None] - places)[upper] <= k)
    return FramePairs(Pairs(angles_between(X, X)[upper], near), same, following)


def group_rates(pairs: FramePairs, groups: Groups) -> Rates:
    """Compute recall and precision of the rule that two frames in one group are near-duplicates.

    A pair in one group is correct if both frames have the same kind and axis.
    """
    together = same_pairs(groups.leaders, np.triu_indices(len(groups), 1))
    near = pairs.pairs.near
    n_right, n_correct = int((together & near).sum()), int((together & pairs.same_turn).sum())
    return Rates(int(near.sum()), int(together.sum()), n_right, n_correct)


def same_pairs(
    values: NDArray[np.generic], upper: tuple[NDArray[np.int64], NDArray[np.int64]]
) -> NDArray[np.bool_]:
    """Return, for each pair of items, whether both items have the same value in `values`.

    `upper` has two arrays: the positions of the first items of the pairs, and the positions of the second
    items.
    """
    return np.asarray((values[:, None] == values)[upper])


def angles_between(X: NDArray[np.floating], Y: NDArray[np.floating]) -> Floats64:
    """Return the angle between each row of X and each row of Y, in radians, of shape (len(X), len(Y)).

    The rows have unit norm.
    """
    squares = 2 - 2 * (X.astype(np.float64) @ Y.astype(np.float64).T)
    return np.asarray(2 * np.arcsin(np.sqrt(np.clip(squares, 0, 4)) / 2))


def _recompressed(image: Image.Image) -> bytes:
    return _as_jpeg(image, 40)


def _halved(image: Image.Image) -> bytes:
    half = (max(1, image.width // 2), max(1, image.height // 2))
    return _as_jpeg(image.resize(half, Image.Resampling.LANCZOS), 90)


def _cropped(image: Image.Image) -> bytes:
    dx, dy = round(image.width * 0.025), round(image.height * 0.025)
    return _as_jpeg(image.crop((dx, dy, image.width - dx, image.height - dy)), 90)


def _as_jpeg(image: Image.Image, quality: int) -> bytes:
    stream = io.BytesIO()
    image.save(stream, "JPEG", quality=quality)
    return stream.getvalue()


COPIES: dict[str, Callable[[Image.Image], bytes]] = {
    "recompressed": _recompressed,
    "resized": _halved,
    "cropped": _cropped,
}
"""Ways to alter a photograph: as JPEG of quality 40, at half its size, or with 2.5 % cut off on each side."""


def copies(source: Source, items: NDArray[np.int64], way: str) -> NDArray[np.float32]:
    """Return the features of altered copies of the items, of shape (n_items, n_features).

    Parameters
    ----------
    source : Source
        Source of the photographs.
    items : array of shape (n_items,), int64
        Ids of the photographs.
    way : str
        A key of `COPIES`.

    Raises
    ------
    InputError
        If an item cannot be read, or if the source cannot compute features from images that are not in the
        source.
    """
    if not source.describes_images:
        raise InputError(f"{source.title} has features of its own: copies can't be described")
    size = RENDITION if source.n_features is None else 0
    rows = []
    for item in items.tolist():
        altered = io.BytesIO(COPIES[way](source.whole_image(item)))
        rows.append(of_image(_read(altered, size), source))
    return np.array(rows)


def _read(file: io.BytesIO, size: int) -> Image.Image:
    if size:
        return read_image(file, size)
    with Image.open(file) as image:
        return image.copy()


def copy_pairs(X: NDArray[np.floating], Y: NDArray[np.floating]) -> Pairs:
    """Return all pairs of an original (a row of X) and a copy (a row of Y).

    Row i of Y is a copy of row i of X, and a near-duplicate of no other row of X.
    """
    return Pairs(angles_between(X, Y).ravel(), np.eye(len(X), dtype=np.bool_).ravel())
