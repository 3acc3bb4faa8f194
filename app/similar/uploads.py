"""Images that somebody uploaded to look for what is like them, kept in the project by their digest."""

from __future__ import annotations

import hashlib
import io
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from app.examples import read_upload, why_none
from core.durable import replace_file
from core.errors import InputError
from core.pool import Pool

FOLDER = "uploads"
"""Beside the project's labels; what the log says was looked for is there."""


class Uploads:
    """The uploads of one project: each a bounded PNG and its features.

    Parameters
    ----------
    folder : Path
        The project's folder.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder / FOLDER

    def add(self, raw: bytes, name: str, pool: Pool | None) -> str:
        """Keep an uploaded image; returns its digest, the same for the same image.

        Raises
        ------
        InputError
            If it is no image that can be read, or the pool's items can't be compared with images.
        """
        if problem := why_none(pool, "Uploads"):
            raise InputError(problem)
        image, feature = read_upload(raw, f"“{name}”", pool)
        digest = hashlib.blake2b(image, digest_size=16).hexdigest()
        if not self._image(digest).is_file():
            features = io.BytesIO()
            np.save(features, feature, allow_pickle=False)
            try:
                self._folder.mkdir(exist_ok=True)
                replace_file(self._features(digest), features.getvalue())
                replace_file(self._image(digest), image)
            except OSError as error:
                raise InputError(f"“{name}” can't be kept in {self._folder}: {error.strerror}") from error
        return digest

    def image(self, digest: str) -> bytes:
        """The PNG.

        Raises
        ------
        InputError
            If it isn't kept.
        """
        return self._read(self._image(digest))

    def feature(self, digest: str, pool: Pool) -> NDArray[np.float32]:
        """Its features, of shape (n_features,).

        Raises
        ------
        InputError
            If it isn't kept, or belongs to a pool of other features.
        """
        raw = self._read(self._features(digest))
        try:
            feature = np.load(io.BytesIO(raw), allow_pickle=False)
        except ValueError as error:
            raise InputError(f"{self._features(digest)} is damaged: {error}") from error
        if feature.shape != (pool.n_features,) or pool.is_sparse:
            raise InputError(
                f"The upload {digest} has {feature.size} features, the items of this pool {pool.n_features}"
            )
        return np.asarray(feature, dtype=np.float32)

    def _image(self, digest: str) -> Path:
        return self._folder / f"{digest}.png"

    def _features(self, digest: str) -> Path:
        return self._folder / f"{digest}.npy"

    def _read(self, path: Path) -> bytes:
        try:
            return path.read_bytes()
        except OSError as error:
            raise InputError(
                f"The upload {path.stem} isn't kept in {self._folder}: upload it again"
            ) from error
