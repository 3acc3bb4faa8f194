"""A saved set of hyperplanes, which gives strategies measured at different times the same queries."""

from __future__ import annotations

import io
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from closecall.core.errors import InputError
from closecall.core.experiment.planes import SINGLE_SETTINGS, Plane, Progress, single_planes
from closecall.core.experiment.simulation import sessions
from closecall.core.files.durable import disk_trouble, replace_file
from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.pool.pool import Pool
from closecall.core.selection import QueryStrategy

FORMAT = 1
_DAMAGE = (OSError, ValueError, KeyError, EOFError, RuntimeError, BadZipFile)
_CURE = "make it again with closecall bench planes"


@dataclass(frozen=True, eq=False)
class Corpus:
    """Hyperplanes for one pool.

    Parameters
    ----------
    planes : list of Plane
        Hyperplanes trained on random labels (`single_planes`), ordered by setting, followed by the
        hyperplanes of simulated sessions (`sessions`), ordered by session and round.
    pool_digest : str
        `Pool.digest` of the pool that the hyperplanes were trained on.
    """

    planes: list[Plane]
    pool_digest: str

    @classmethod
    def make(
        cls,
        pool: Pool,
        n_singles: int = 60,
        n_sessions: int = 52,
        n_rounds: int = 100,
        *,
        strategy: QueryStrategy | None = None,
        n_before: int = 0,
        noise: float = 0.05,
        seed: int = 0,
        progress: Progress | None = None,
    ) -> Self:
        """Train `n_singles` hyperplanes for each of `SINGLE_SETTINGS`, and the hyperplanes of sessions.

        See `single_planes` and `sessions` for the parameters.
        """
        n_single = n_singles * len(SINGLE_SETTINGS)
        n = n_single + n_sessions * n_rounds

        def after(before: int) -> Progress | None:
            return progress and (lambda done, _: progress(before + done, n))

        singles = single_planes(pool, n_singles, seed=seed, progress=after(0))
        in_sessions = sessions(
            pool,
            n_sessions,
            n_rounds,
            strategy=strategy,
            n_before=n_before,
            noise=noise,
            seed=seed,
            progress=after(n_single),
        )
        return cls([*singles, *in_sessions], pool.digest)

    @property
    def settings(self) -> list[str]:
        """All values of `Plane.setting`, without repetitions, in the order of their first occurrence."""
        return list(dict.fromkeys(plane.setting for plane in self.planes))

    def of(self, setting: str) -> list[Plane]:
        """Return the hyperplanes of one setting, ordered by session and round.

        Raises
        ------
        InputError
            If the corpus has no hyperplanes of this setting.
        """
        found = [plane for plane in self.planes if plane.setting == setting]
        if not found:
            raise InputError(f"setting must be one of {'; '.join(self.settings)}, got {setting!r}")
        return sorted(found, key=lambda plane: (plane.session, plane.round))

    def save(self, path: Path | str) -> None:
        """Write the corpus to the file `path` (.npz) atomically.

        Raises
        ------
        InputError
            If the file cannot be written.
        """
        planes, settings = self.planes, self.settings
        arrays = {
            "format": np.array(FORMAT),
            "pool": np.array(self.pool_digest),
            "settings": np.array(settings, dtype=np.str_),
            "setting": _whole(settings.index(plane.setting) for plane in planes),
            "positive": _whole(plane.positive for plane in planes),
            "session": _whole(plane.session for plane in planes),
            "round": _whole(plane.round for plane in planes),
            "n_labeled": _whole(len(plane.labeled) for plane in planes),
            "labeled": np.concatenate([np.empty(0, np.int64), *(plane.labeled for plane in planes)]),
            "normal": np.array([plane.hyperplane.normal for plane in planes]),
            "bias": np.array([plane.hyperplane.bias for plane in planes]),
        }
        file = io.BytesIO()
        np.savez(file, allow_pickle=False, **arrays)
        with disk_trouble(Path(path)):
            replace_file(Path(path), file.getvalue())

    @classmethod
    def load(cls, path: Path | str, pool: Pool) -> Self:
        """Load the corpus from the file `path` and verify its checksums.

        The corpus must have been made for `pool`.

        Raises
        ------
        InputError
            If the file does not exist, is damaged, has a newer format, or was made for another pool.
        """
        path = Path(path)
        if not path.is_file():
            raise InputError(f"there is no corpus of hyperplanes at {path}: {_CURE}")
        try:
            # Reading a member of the archive to its end verifies its CRC-32.
            with np.load(path, allow_pickle=False) as file:
                arrays: dict[str, Any] = dict(file)
            if arrays["format"] > FORMAT:
                raise InputError(
                    f"{path} has format {arrays['format']}, and {FORMAT} is the newest known: {_CURE}"
                )
            corpus = cls(_planes(arrays), str(arrays["pool"]))
        except _DAMAGE as error:
            raise InputError(f"{path} is damaged: {_CURE}") from error
        if corpus.pool_digest != pool.digest:
            raise InputError(f"{path} was made for another pool than {pool.path}: {_CURE}")
        return corpus


def _planes(arrays: dict[str, Any]) -> list[Plane]:
    names = arrays["settings"].tolist()
    labeled = np.split(arrays["labeled"], np.cumsum(arrays["n_labeled"]))[:-1]
    columns = (arrays[name].tolist() for name in ("bias", "positive", "setting", "session", "round"))
    return [
        Plane(Hyperplane(normal, bias), ids, positive, names[setting], session, number)
        for normal, ids, bias, positive, setting, session, number in zip(
            arrays["normal"], labeled, *columns, strict=True
        )
    ]


def _whole(numbers: Iterable[int]) -> NDArray[np.int64]:
    return np.fromiter(numbers, dtype=np.int64)
