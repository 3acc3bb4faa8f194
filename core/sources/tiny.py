"""The binary file of the 80 Million Tiny Images [1]_, for users who have it: color images of 32×32 pixels.

The data set was withdrawn by its authors, and this module does not download it. An image takes 3,072 bytes:
its red, green and blue planes, each stored column by column. The classes of the images are unknown.

References
----------
.. [1] A. Torralba, R. Fergus, W. T. Freeman: 80 Million Tiny Images: A Large Data Set for Nonparametric
       Object and Scene Recognition, PAMI 2008.
"""

from __future__ import annotations

import hashlib
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from closecall.core.errors import InputError
from closecall.core.sources.base import GREY_SIZE, Items, Problem, Source
from closecall.core.sources.images import luminance

_PLANES = (3, GREY_SIZE, GREY_SIZE)
_RECORD = 3 * GREY_SIZE * GREY_SIZE


class TinyImages(Source):
    """Source of the first `n_items` images of the file.

    Parameters
    ----------
    path : Path
        tiny_images.bin, or a part of it.
    n_items : int or None
        Number of images. None means all images in the file.

    Raises
    ------
    InputError
        If the file does not exist, ends in the middle of an image, or has fewer than `n_items` images.
    """

    kind: ClassVar[str] = "tiny"
    title = "Tiny Images"

    def __init__(self, path: Path, n_items: int | None = None) -> None:
        self.path = path.absolute()
        try:
            size = self.path.stat().st_size
        except OSError as error:
            raise InputError(f"there is no file {self.path}") from error
        if size == 0 or size % _RECORD:
            raise InputError(
                f"{self.path} has {size:,} bytes, not a multiple of {_RECORD:,}: it is incomplete"
            )
        n_there = size // _RECORD
        if n_items is not None and not 1 <= n_items <= n_there:
            raise InputError(f"n_items must be from 1 to {n_there:,} for {self.path}, got {n_items:,}")
        shape = (n_items or n_there, *_PLANES)
        self._images = np.memmap(self.path, dtype=np.uint8, mode="r", shape=shape)

    def __len__(self) -> int:
        return len(self._images)

    def spec(self) -> dict[str, Any]:
        """Return the path of the file, and a digest of some of its images."""
        return {"kind": self.kind, "path": str(self.path), "items": len(self), "digest": self._digest}

    @cached_property
    def _digest(self) -> str:
        places = np.linspace(0, len(self) - 1, min(len(self), 64)).astype(np.int64)
        return hashlib.blake2b(self._images[places].tobytes(), digest_size=8).hexdigest()

    @classmethod
    def from_spec(cls, spec: dict[str, Any], folder: Path | None) -> Self:  # noqa: ARG003
        """See `Source.from_spec`."""
        source = cls(Path(spec["path"]), spec["items"])
        if source._digest != spec["digest"]:
            raise InputError(f"{source.path} no longer has the images that the pool was built from")
        return source

    def name(self, item: int) -> str:
        """Return a name such as "tiny 17"."""
        (item,) = self.check_items(np.array([item]))
        return f"tiny {item}"

    def image(self, item: int, size: int) -> Image.Image:
        """Return the image, 32×32 pixels or smaller if `size` is smaller."""
        (item,) = self.check_items(np.array([item]))
        image = Image.fromarray(np.ascontiguousarray(self._images[item].T))
        image.thumbnail((size, size), Image.Resampling.LANCZOS)
        return image

    def resolution(self, item: int) -> tuple[int, int]:
        """See `Source.resolution`."""
        return self.whole_image(item).size

    def grey(self, items: Items) -> tuple[NDArray[np.float32], list[Problem]]:
        """See `Source.grey`."""
        return luminance(self._images[self.check_items(items)].swapaxes(2, 3)), []
