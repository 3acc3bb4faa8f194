"""Images uploaded as queries of Find similar. Each is stored in the project's folder under its digest.

    uploads/DIGEST.png         the image, of limited size
    uploads/DIGEST.npy         its features under the project's first description
    uploads/NAME/DIGEST.npy    its features under the description NAME (`app.projects.descriptions`)

The features under the first description are computed from the full-size image, when it is uploaded.
Missing features are computed from the stored image, when they are needed.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from closecall.app.projects.uploaded_images import (
    KEPT_SIZE,
    describing_source,
    features_of_kept,
    read_upload,
)
from closecall.core.errors import InputError
from closecall.core.files.durable import TEMPORARY, replace_file
from closecall.core.pool.pool import Pool
from closecall.core.sources.images import read_image
from closecall.storage.carried import DIGEST, MAX_BYTES, Upload, digest_of

FOLDER = "uploads"
"""Name of the folder for uploads, within the project's folder. Queries in the log refer to the uploads."""


class Uploads:
    """The uploads of a project. Each consists of a PNG of limited size and its features.

    Parameters
    ----------
    folder : Path
        The project's folder.
    description : str
        Name of the description that gives the features; "" is the first.
    """

    def __init__(self, folder: Path, description: str = "") -> None:
        self._folder = folder / FOLDER
        self._description = description

    def add(self, raw: bytes, name: str, pool: Pool | None) -> str:
        """Store an uploaded image, and return its digest. Equal images have equal digests.

        Raises
        ------
        InputError
            If `raw` is not an image or can't be stored, or if the pool's items can't be compared with images.
        """
        image, feature = read_upload(raw, f"“{name}”", describing_source(pool, "Uploads"))
        digest = digest_of(image)
        if not self._image(digest).is_file():
            # Only the features of the first description are in backups. The others can be computed again.
            self._keep(digest, image, None if self._description else feature, f"“{name}”")
        return digest

    def image(self, digest: str) -> bytes:
        """Return the PNG of an upload.

        Raises
        ------
        InputError
            If there is no such upload.
        """
        return self._read(self._image(digest))

    def feature(self, digest: str, pool: Pool) -> NDArray[np.float32]:
        """Return the features of an upload, of shape (n_features,). `pool` has the description's features.

        Raises
        ------
        InputError
            If there is no such upload, if it is damaged, if it was made for a pool with other features, or if
            its features are missing and can't be computed.
        """
        if not self._features(digest).is_file():
            self._describe(digest, pool)
        raw = self._read(self._features(digest))
        try:
            feature = np.load(io.BytesIO(raw), allow_pickle=False)
        except ValueError as error:
            raise InputError(f"{self._features(digest)} is damaged: {error}") from error
        if feature.shape != (pool.n_features,) or pool.holds_texts:
            raise InputError(
                f"The upload {digest} has {feature.size} features, the items of this pool {pool.n_features}"
            )
        return np.asarray(feature, dtype=np.float32)

    def _describe(self, digest: str, pool: Pool) -> None:
        """Compute and store the missing features of an upload."""
        feature = features_of_kept(self.image(digest), describing_source(pool, "Uploads"))
        if feature is None:
            raise InputError(f"The upload {digest} has no features here: choose another image")
        self._keep(digest, None, feature, f"The upload {digest}")

    def all(self) -> Iterator[tuple[str, Upload | None]]:
        """Yield every upload's digest with the upload, or with None if the upload is damaged.

        An upload's features are those under the project's first description (`app.projects.descriptions`), or
        an empty bytes object if they are missing.
        """
        for path in sorted(self._folder.glob("*.png")):
            if DIGEST.fullmatch(path.stem):
                yield path.stem, self._whole(path.stem)

    @contextmanager
    def taken_in(self, uploads: Iterable[Upload], whence: object) -> Iterator[int]:
        """Add a backup's uploads, and remove them again if the ``with`` block fails.

        Uploads that are already stored and intact are not replaced.

        Parameters
        ----------
        uploads : iterable of Upload
            The backup's uploads, which are read one at a time.
        whence : object
            Name of the backup in messages.

        Yields
        ------
        int
            Number of uploads in the backup.

        Raises
        ------
        InputError
            If an upload is not a suitable image, if its features are invalid, or if it can't be stored.
            Errors raised by `uploads` and by the block are passed on.
        """
        was_there, new, number = self._folder.exists(), [], 0
        try:
            for upload in uploads:
                feature = _checked(upload, whence)
                known = self._whole(upload.digest)
                if known is None or (upload.feature and not known.feature):
                    paths = (self._image(upload.digest), self._features(upload.digest))
                    new += [path for path in paths if not path.exists()]
                    self._keep(
                        upload.digest, upload.image, feature, f"The upload {upload.digest} of {whence}"
                    )
                number += 1
            yield number
        except BaseException:
            for path in new:
                path.unlink(missing_ok=True)
                path.with_name(path.name + TEMPORARY).unlink(missing_ok=True)
            if not was_there:
                with suppress(OSError):
                    self._folder.rmdir()
            raise

    def _keep(self, digest: str, image: bytes | None, feature: NDArray[np.float32] | None, what: str) -> None:
        """Store an upload's features, then its image, which completes the upload. Either may be None."""
        try:
            if feature is not None:
                features = io.BytesIO()
                np.save(features, feature, allow_pickle=False)
                self._features(digest).parent.mkdir(parents=True, exist_ok=True)
                replace_file(self._features(digest), features.getvalue())
            if image is not None:
                self._folder.mkdir(exist_ok=True)
                replace_file(self._image(digest), image)
        except OSError as error:
            raise InputError(f"{what} can't be kept in {self._folder}: {error.strerror}") from error

    def _whole(self, digest: str) -> Upload | None:
        """Return the upload if it exists and matches its digest, otherwise None."""
        image, features = self._image(digest), self._features(digest)
        has_features = features.is_file()
        try:
            if image.stat().st_size > MAX_BYTES or (has_features and features.stat().st_size > MAX_BYTES):
                return None
            feature = np.load(features, allow_pickle=False) if has_features else np.empty(0, np.float32)
            upload = Upload(digest, image.read_bytes(), np.asarray(feature, dtype="<f4").tobytes())
        except (OSError, ValueError, EOFError, TypeError):
            return None
        return upload if feature.ndim == 1 and digest_of(upload.image) == digest else None

    def _image(self, digest: str) -> Path:
        return self._folder / f"{digest}.png"

    def _features(self, digest: str) -> Path:
        return self._folder / self._description / f"{digest}.npy"

    def _read(self, path: Path) -> bytes:
        try:
            return path.read_bytes()
        except OSError as error:
            raise InputError(
                f"The upload {path.stem} isn't kept in {self._folder}: upload it again"
            ) from error


def _checked(upload: Upload, whence: object) -> NDArray[np.float32] | None:
    """Check a backup's upload, and return its features, of shape (n_features,); None if it has none.

    Raises
    ------
    InputError
        If `Uploads.add` could not have stored such an upload.
    """
    what = f"The upload {upload.digest} of {whence} can't be used"
    try:
        read_image(io.BytesIO(upload.image), KEPT_SIZE)
    except InputError as error:
        raise InputError(f"{what}: {error}") from error
    with Image.open(io.BytesIO(upload.image)) as image:
        if image.format != "PNG" or max(image.size) > KEPT_SIZE:
            raise InputError(
                f"{what}: it must be a PNG of at most {KEPT_SIZE} pixels a side, got {image.format} of "
                f"{image.width:,} × {image.height:,}"
            )
    if not upload.feature:
        return None
    if len(upload.feature) % 4:
        raise InputError(f"{what}: {len(upload.feature):,} bytes are not features of four bytes each")
    feature = np.frombuffer(upload.feature, dtype="<f4").astype(np.float32)
    if not np.isfinite(feature).all():
        raise InputError(f"{what}: its features must be finite")
    return feature
