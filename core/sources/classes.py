"""True classes from folder names, and the choice of held-out images.

**Class.** The class of an image is the name of its innermost folder that is not structural. Structural
folders are, for example, `images` and the splits `train` and `test` (see `folders_of_order`). If a top folder
NAME contains a list NAME_annotations.txt of file names and classes, as the folder `val` of Tiny ImageNet
does, this list gives the classes of the images in the folder. If there is a file `words.txt`, its names
replace WordNet ids. If all images have the same class, they count as images without classes.

**Held out.** If there is a split `train`, the held-out images are those of the split `test` with a known
class or, if there are none, those of the split `val` with a known class. If there is no split `train`, or
there are no such images, a tenth of the images with a known class, at most 10,000, are chosen by a hash of
their paths. If images come in groups, such as the frames of a video, a tenth of the groups is chosen.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from closecall.core.numerics.randomness import hashed, seed_for
from closecall.core.sources.base import Items

MAX_HELD_OUT = 10_000

_TRAIN = ("train", "training")
_TEST = ("test", "testing")
_VALIDATION = ("val", "valid", "validation")
_SPLITS = {name: kind for kind, names in enumerate((_TRAIN, _TEST, _VALIDATION)) for name in names}
SPLIT_NAMES = frozenset(_SPLITS)
"""Names of the splits of data sets, as names of folders or as words in names of files."""

_CONTAINERS = frozenset(("images", "image", "imgs", "img", "jpegimages", "data"))
_MOST_CLASSES = np.iinfo(np.int16).max

Truth = tuple[tuple[str, ...], NDArray[np.int16]]


def path_hash(path: str) -> tuple[bytes, str]:
    """Return a sort key that puts paths in an arbitrary order, which is the same on every machine."""
    return hashlib.blake2b(os.fsencode(path.replace(os.sep, "/")), digest_size=16).digest(), path


def unknown(n: int) -> Truth:
    """Return the truth of n images without classes."""
    return (), np.full(n, -1, dtype=np.int16)


def digest_of(truth: Truth) -> str:
    """Return sixteen hexadecimal digits that change if the class of an image or a class name changes."""
    digest = hashlib.blake2b(json.dumps(truth[0]).encode(), digest_size=8)
    digest.update(np.ascontiguousarray(truth[1]).tobytes())
    return digest.hexdigest()


def some_of_known(truth: NDArray[np.int16]) -> Items:
    """Return the items to hold out, ascending: a tenth of the items with a known class, at most 10,000.

    The items are chosen by a hash of their numbers.
    """
    known = np.flatnonzero(truth >= 0)
    order = np.argsort(hashed(seed_for("held-out vectors", 0), known, 1)[:, 0], kind="stable")
    return np.sort(known[order[: min(MAX_HELD_OUT, len(known) // 10)]]).astype(np.int64)


def of(root: Path, paths: Sequence[str]) -> Truth:
    """Return the class names, sorted, and, for each image, the index of its class, or −1 if unknown."""
    annotated, order = _annotations(root, paths), folders_of_order(paths)
    by_folder: dict[str, str | None] = {}
    keys: list[str | None] = []
    for path in paths:
        folder, _, file = path.rpartition(os.sep)
        if folder not in by_folder:
            by_folder[folder] = _folder_class(folder, order)
        top = path.split(os.sep, 1)[0]
        keys.append(annotated[top].get(file) if top in annotated else by_folder[folder])
    found = {key for key in keys if key is not None}
    if not 2 <= len(found) <= _MOST_CLASSES:
        return unknown(len(paths))
    name_of = _names(root, found)
    names = tuple(sorted(name_of.values(), key=lambda name: (name.casefold(), name)))
    index = {name: i for i, name in enumerate(names)}
    places = {key: index[name] for key, name in name_of.items()}
    truth = np.array([-1 if key is None else places[key] for key in keys], dtype=np.int16)
    return names, truth


def of_labels(labels: list[str], most: int) -> Truth:
    """Return the class names, sorted, and, for each image, the index of its class, or −1 if unknown.

    `labels` has the class of each image, or "" if unknown. If all classes are numbers, they are sorted as
    numbers. If there are fewer than 2 or more than `most` different classes, all images count as images
    without classes.
    """
    labels = [label.replace("\0", "_") for label in labels]
    found = {label for label in labels if label}
    if not 2 <= len(found) <= most:
        return unknown(len(labels))
    if all(label.isdecimal() and len(label) < 20 for label in found):
        names = sorted(found, key=lambda label: (int(label), label))
    else:
        names = sorted(found, key=lambda label: (label.casefold(), label))
    index = {name: i for i, name in enumerate(names)}
    return tuple(names), np.array([index.get(label, -1) for label in labels], dtype=np.int16)


def held_out(
    paths: Sequence[str],
    truth: NDArray[np.int16],
    splits: Sequence[str] = (),
    groups: Sequence[str] = (),
) -> Items:
    """Return the positions, ascending, of the images to hold out.

    Parameters
    ----------
    paths : sequence of str
        Relative paths, with the system's separators.
    truth : array of shape (n_images,), int16
        Index of the class of each image, −1 where unknown.
    splits : sequence of str
        Split of each image, such as "train", if it is known from something other than folders, otherwise "".
        If fewer than two different splits occur, the splits are taken from the folders instead.
    groups : sequence of str
        Group of each image. The images of a group must be from one folder and of one class. Either all or
        none of them are held out. By default, each image is a group of its own.
    """
    if len({_SPLITS.get(split) for split in set(splits)} - {None}) > 1:
        tops = np.array(splits)
    else:
        order = folders_of_order(paths)
        tops = np.array(
            [top.lower() if (top := path.partition(os.sep)[0]) in order else "" for path in paths]
        )
    if np.isin(tops, _TRAIN).any():
        for split in (_TEST, _VALIDATION):
            chosen = np.flatnonzero(np.isin(tops, split) & (truth >= 0))
            if len(chosen):
                return chosen
    members: dict[str, list[int]] = {}
    for place in np.flatnonzero(truth >= 0).tolist():
        members.setdefault((groups or paths)[place], []).append(place)
    held: list[int] = []
    for group in sorted(members, key=path_hash)[: len(members) // 10]:
        if len(held) + len(members[group]) <= MAX_HELD_OUT:
            held += members[group]
    return np.sort(np.array(held, dtype=np.int64))


def folders_of_order(paths: Iterable[str]) -> frozenset[str]:
    """Return the structural folders, whose names are not classes of the images in them.

    The name of a folder is not enough to decide: "train" may be a split or a vehicle. Folders with the names
    of splits (such as "train") or containers (such as "images") are structural in these cases:

    - All sibling folders have such names, for example ``train`` and ``test``, or ``images`` alone.
    - Splits of two kinds, such as training and test, are siblings, and contain only folders: for example,
      ``train/cat`` and ``test/cat`` beside ``unlabeled``. Containers beside these splits are structural, too.
    - A container occurs in the folders of several classes, for example ``cat/images`` and ``dog/images``.

    Parameters
    ----------
    paths : iterable of str
        Relative paths of the images, with the system's separators.
    """
    direct = {_parent(path) for path in paths}
    sisters: dict[str, set[str]] = {}
    for path in direct:
        folder = path
        while folder and folder not in sisters.get(_parent(folder), ()):
            sisters.setdefault(_parent(folder), set()).add(folder)
            folder = _parent(folder)
    order: set[str] = set()
    for beside in sisters.values():
        splits = {folder for folder in beside if _name(folder) in _SPLITS}
        containers = {folder for folder in beside if _name(folder) in _CONTAINERS}
        if beside == splits | containers:
            order |= beside
        elif len({_SPLITS[_name(folder)] for folder in splits - direct}) > 1:
            order |= (splits - direct) | containers
    return frozenset(order | _found_again(sisters, order))


def _found_again(sisters: dict[str, set[str]], order: Collection[str]) -> set[str]:
    """Return the containers whose names occur in the folders of several classes."""
    places: dict[str, dict[str, str | None]] = {}
    for parent, beside in sisters.items():
        for folder in beside:
            if _name(folder) in _CONTAINERS:
                places.setdefault(_name(folder), {})[folder] = _folder_class(parent, order)
    return {folder for found in places.values() if len(set(found.values())) > 1 for folder in found}


def _folder_class(folder: str, order: Collection[str]) -> str | None:
    """Return the name of the first folder, from `folder` upwards, that is not structural, or None."""
    while folder in order:
        folder = _parent(folder)
    return folder.rpartition(os.sep)[2] or None


def _parent(path: str) -> str:
    return path.rpartition(os.sep)[0]


def _name(folder: str) -> str:
    return folder.rpartition(os.sep)[2].lower()


def _annotations(root: Path, paths: Iterable[str]) -> dict[str, dict[str, str]]:
    """For each top folder that has an annotation list, return the classes by file name."""
    lists = {}
    for top in {path.split(os.sep, 1)[0] for path in paths if os.sep in path}:
        file = root / top / f"{top}_annotations.txt"
        if os.path.isfile(file):  # noqa: PTH113 (unlike `Path.is_file`, it accepts names that are too long)
            rows = (line.split("\t") for line in _lines(file))
            lists[top] = {row[0]: row[1] for row in rows if len(row) > 1}
    return lists


def _names(root: Path, keys: set[str]) -> dict[str, str]:
    """Return the display name of each class.

    The name of a WordNet id is the first word that `words.txt` lists for it, or all its words if two classes
    have the same first word.
    """
    glossary = {}
    if (root / "words.txt").is_file():
        rows = (line.partition("\t") for line in _lines(root / "words.txt"))
        glossary = {key: words.strip() for key, _, words in rows if key in keys and words.strip()}
    first = {key: glossary[key].split(",")[0].strip() if key in glossary else _shown(key) for key in keys}
    shared = Counter(first.values())
    full = {key: glossary.get(key, key) if shared[name] > 1 else name for key, name in first.items()}
    shared = Counter(full.values())
    return {key: f"{name} ({_shown(key)})" if shared[name] > 1 else name for key, name in full.items()}


def _lines(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8", errors="replace").splitlines()


def _shown(name: str) -> str:
    """Return the name of a file or folder as text, replacing bytes that are not UTF-8."""
    return os.fsencode(name).decode("utf-8", errors="replace")
