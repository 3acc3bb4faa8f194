"""Frames of videos, sampled at a given rate.

Items are the frames that are shown at multiples of 1 / rate seconds. A frame that is shown at several such
times is only one item. An item is named after its video and the time since the first frame:
"clips/fox.mp4 at 0h01m23.500s".

Each video is divided into stretches. A stretch begins with the first item that is decoded from a keyframe.
It has at least 10 items, except at the end of the video. Stretches are ordered by a hash, so every prefix of
the list is almost a random sample. Inside a stretch, frames are ordered by time, so a build decodes each
frame about once.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from closecall.core.errors import InputError
from closecall.core.onnx.resizing import Resizing
from closecall.core.sources import classes
from closecall.core.sources.base import WHOLE, Items, Source, UnreadableImageError
from closecall.core.sources.classes import Truth
from closecall.core.sources.images import fitted
from closecall.core.sources.listing import VIDEO_EXTENSIONS
from closecall.core.sources.packed.base import PackedImages
from closecall.core.sources.packed.packing import Contents, Packing
from closecall.core.sources.packed.shards import Shards
from closecall.core.sources.packed.video_reader import (
    REASONS,
    UnusableVideoError,
    VideoReaders,
    read_timeline,
)
from closecall.core.sources.unpacking import unpacked

LEAST_PER_SECOND, MOST_PER_SECOND = 0.001, 1000
"""Limits of the rate in frames per second. Names of frames have times in milliseconds, so 1,000 is the most.
"""

_CUT = -1
_STRETCH = 10
_NEAR = 64
"""Number of items before and after a requested frame that may be kept if they are decoded on the way."""


class Videos(PackedImages):
    """Source of frames of one or more videos.

    The class of a frame is the folder of its video, as for an image in a folder. Either all frames of a video
    are held out or none. See `PackedImages` for the files.

    Parameters
    ----------
    path : Path
        A video, a folder of videos, or a pattern (`core.sources.packed.shards`).
    rate : float
        Number of frames per second, from 0.001 to 1,000. A rate above the video's own takes every frame.
    use_classes : bool
        Whether to use names of folders as classes.
    packing : Packing, optional
        The frames that the source had when it was first made. By default, the frames that it has now.

    Raises
    ------
    InputError
        If the rate is outside its limits, if there is no video, if no video has frames, or if PyAV is not
        installed.
    """

    kind: ClassVar[str] = "video"
    is_slow: bool = True
    suffixes: ClassVar[tuple[str, ...]] = tuple(sorted(VIDEO_EXTENSIONS))
    missing: ClassVar[dict[int, str]] = {_CUT: "the video is damaged or incomplete from here on", **REASONS}

    def __init__(
        self, path: Path, rate: float = 1, *, use_classes: bool = True, packing: Packing | None = None
    ) -> None:
        if not LEAST_PER_SECOND <= rate <= MOST_PER_SECOND:
            raise InputError(
                f"rate must be from {LEAST_PER_SECOND} to {MOST_PER_SECOND:,} frames a second, got {rate:g}"
            )
        self.rate = float(rate)
        self._readers = VideoReaders()
        options = {"rate": self.rate, "use_classes": use_classes}
        super().__init__(path, options, use_folders=use_classes, packing=packing)
        self.title = f"Frames of {self.path.name or self.path}"
        sizes = self.packing.ranges[:, 2]
        if (sizes < 0).all():
            raise InputError(f"{self.path} can't be used: {self.missing[int(sizes[0])]}")

    @classmethod
    def _restored(cls, spec: dict[str, Any], packing: Packing | None) -> Self:
        return cls(Path(spec["path"]), spec["rate"], use_classes=spec["use_classes"], packing=packing)

    def _contents(self, shard: Path) -> Contents:
        """Return the frames of a video."""
        rate = Fraction(str(self.rate)).limit_denominator(10_000)
        return Contents.load(
            unpacked(shard, lambda folder: _frames(shard, rate).save(folder), what=f"frames at {rate}")
        )

    def _prefixes(self, shards: Shards) -> list[str]:
        return list(shards.names)

    def _stretches(self, contents: Contents) -> list[str]:
        """Return, for each frame, the name of the first frame of its stretch."""
        keyframes = contents.ranges[:, 0] - np.maximum(contents.ranges[:, 1], 0)
        firsts = [0]
        for place in range(1, len(keyframes)):
            begins = place - firsts[-1] >= _STRETCH and keyframes[place] != keyframes[place - 1]
            firsts.append(place if begins else firsts[-1])
        return [contents.names[first] for first in firsts]

    def _classes(
        self,
        shards: Shards,
        contents: list[Contents],  # noqa: ARG002
        names: list[str],
        *,
        use_folders: bool,
    ) -> Truth:
        if not use_folders:
            return classes.unknown(len(names))
        return classes.of(shards.root, [name.replace("/", os.sep) for name in names])

    def _held_out(self, paths: tuple[str, ...], truth: NDArray[np.int16], shards: list[str]) -> Items:
        return classes.held_out(paths, truth, groups=shards)

    def encoded(self, item: int) -> bytes:
        """Return the frame as a PNG file; see `Source.encoded`."""
        (item,) = self.check_items(np.array([item]))
        held = io.BytesIO()
        try:
            self._read(item, WHOLE).save(held, "PNG", compress_level=1)
        except UnreadableImageError as error:
            raise InputError(f"{self.name(item)} in {self.path} can't be copied: {error}") from error
        return held.getvalue()

    def resolution(self, item: int) -> tuple[int, int]:
        """See `Source.resolution`. The frame is decoded, because frames may be rotated or stretched."""
        return self.whole_image(item).size

    def halved_image(self, item: int, times: int) -> Image.Image | None:
        """See `Source.halved_image`."""
        return Source.halved_image(self, item, times)

    def resized_image(self, item: int, resizing: Callable[[int, int], Resizing]) -> Image.Image:
        """See `Source.resized_image`."""
        return Source.resized_image(self, item, resizing)

    def _read(self, item: int, size: int) -> Image.Image:
        shard, shown, lead = self.packing.ranges[item].tolist()
        if lead < 0:
            raise UnreadableImageError(self.missing[lead])
        file = Path(self.packing.shards[shard])
        return fitted(self._readers.image(file, shown - lead, shown, self._beside(item)), size)

    def _beside(self, item: int) -> set[int]:
        """Return the times of the frames near `item` that are decoded from the same keyframe."""
        near = self.packing.ranges[max(0, item - _NEAR) : item + _NEAR]
        shard, shown, lead = self.packing.ranges[item]
        same = (near[:, 0] == shard) & (near[:, 1] - near[:, 2] == shown - lead)
        return set(near[same, 1].tolist())


def _frames(file: Path, rate: Fraction) -> Contents:
    """Return the frames of a video. If the video can't be used, return one item with the reason's code."""
    try:
        timeline = read_timeline(file)
    except UnusableVideoError as error:
        return Contents([""], np.array([[0, error.code]]), [])
    since = np.append(timeline.shown, timeline.end) - timeline.shown[0]
    ticks, halves = timeline.time_base * rate, timeline.time_base * 2000
    next_tick = -(-since * ticks.numerator // ticks.denominator)
    millis = (since * halves.numerator // halves.denominator + 1) // 2
    (chosen,) = np.nonzero((np.diff(next_tick) > 0) & (np.diff(millis, prepend=-1)[:-1] > 0))
    names = [f" at {_clock(time)}" for time in millis[chosen].tolist()]
    ranges = np.column_stack([timeline.shown, timeline.shown - timeline.keyframes])[chosen]
    if timeline.is_cut:
        names.append(f" after {_clock(int(millis[-1]))}")
        ranges = np.concatenate([ranges, [[0, _CUT]]])
    return Contents(names, ranges, [])


def _clock(millis: int) -> str:
    """Return a time such as "0h01m23.500s", which may be part of a file's name on any system."""
    seconds, millis = divmod(millis, 1000)
    minutes, seconds = divmod(seconds, 60)
    return f"{minutes // 60}h{minutes % 60:02}m{seconds:02}.{millis:03}s"
