"""The user's own embeddings with the images that they describe: row i belongs to image i."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from closecall.core.errors import InputError
from closecall.core.numerics.rows import Rows
from closecall.core.sources.base import Items, Problem, Source, changed
from closecall.core.sources.embeddings import Embeddings
from closecall.core.sources.folder import Folder


class Arrays(Source):
    """Source of images that come with the user's own embeddings.

    Parameters
    ----------
    features : Path
        A .npy, .parquet, .fvecs or .bvecs file; see `core.sources.embeddings.Embeddings`.
    images : Path
        A folder or a text file. The images of a folder are taken in the order of
        `sorted(Path(folder).rglob("*"))`. A text file has one path per line. Paths are relative to the text
        file's folder, and must be inside this folder.
    use_classes : bool
        Whether to use folder names as classes, and to hold out a part of the images for testing.

    Raises
    ------
    InputError
        If a file is missing or unsuitable, if the number of rows differs from the number of images, or if a
        row is all zeros or not finite.
    """

    kind: ClassVar[str] = "arrays"

    def __init__(self, features: Path, images: Path, *, use_classes: bool = True) -> None:
        embeddings = Embeddings(features)
        if images.is_file():
            shown = Folder.from_list(images, use_classes=use_classes)
        else:
            shown = Folder(images, use_classes=use_classes, by_path=True)
        self._join(embeddings, shown)
        if len(embeddings) != len(shown):
            raise InputError(
                f"{embeddings.path} has {len(embeddings):,} rows and {images} has {len(shown):,} images: "
                f"one row per image is needed"
            )
        embeddings.check()

    def _join(self, embeddings: Embeddings, images: Folder) -> None:
        self.embeddings = embeddings
        self.images = images
        self.n_features = embeddings.n_features
        self.classes = images.classes
        self.title = f"{images.title}, with {embeddings.path.name}"

    def __len__(self) -> int:
        return len(self.images)

    def spec(self) -> dict[str, Any]:
        """Return the paths of the embeddings and the images, with digests."""
        return {
            "kind": self.kind,
            "features": str(self.embeddings.path),
            "digest": self.embeddings.digest,
            "images": self.images.spec(),
        }

    @classmethod
    def from_spec(cls, spec: dict[str, Any], folder: Path | None) -> Self:
        """See `Source.from_spec`. Rows were checked when the source was made, and are not read again."""
        embeddings = Embeddings(Path(spec["features"]))
        if embeddings.digest != spec["digest"]:
            raise changed(embeddings.path)
        source = cls.__new__(cls)
        source._join(embeddings, Folder.from_spec(spec["images"], folder))
        return source

    @classmethod
    def feature_kind(cls, spec: dict[str, Any], folder: Path | None) -> str:  # noqa: ARG003
        """Return "embeddings". The model that computed the embeddings is not known."""
        return "embeddings"

    def save(self, folder: Path) -> None:
        """Save the list of images."""
        self.images.save(folder)

    def without_folder_classes(self) -> Source:
        """See `Source.without_folder_classes`. The rows are not checked again."""
        images = self.images.without_folder_classes()
        if images is self.images:
            return self
        source = type(self).__new__(type(self))
        source._join(self.embeddings, images)
        return source

    def name(self, item: int) -> str:
        """Return the image's path."""
        return self.images.name(item)

    def names(self, items: Items) -> list[str]:
        """Return the images' paths."""
        return self.images.names(items)

    def image(self, item: int, size: int) -> Image.Image:
        """See `Folder.image`."""
        return self.images.image(item, size)

    def resolution(self, item: int) -> tuple[int, int] | None:
        """See `Source.resolution`."""
        return self.images.resolution(item)

    def whole_image(self, item: int) -> Image.Image:
        """See `Source.whole_image`."""
        return self.images.whole_image(item)

    def halved_image(self, item: int, times: int) -> Image.Image | None:
        """See `Source.halved_image`."""
        return self.images.halved_image(item, times)

    def original(self, item: int) -> Path:
        """See `Folder.original`."""
        return self.images.original(item)

    def grey(self, items: Items) -> tuple[NDArray[np.float32], list[Problem]]:
        """See `Folder.grey`."""
        return self.images.grey(items)

    def features(self, items: Items) -> Rows:
        """Return the user's embeddings of these items as float32, not normalized."""
        return self.embeddings.rows(self.check_items(items))

    def truth(self, items: Items) -> NDArray[np.int16]:
        """See `Source.truth`."""
        return self.images.truth(items)

    def held_out(self) -> Items:
        """See `Source.held_out`; `core.sources.classes` chooses the images."""
        return self.images.held_out()
