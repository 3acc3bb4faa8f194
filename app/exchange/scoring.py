"""Score any images with an exported classifier: ``python score.py IMAGE …``, or `score_images`.

The features are computed as for the images of the pool, by the same extractor or model, and the score is
wᵀx + b, as in the output of ``closecall predict``.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from closecall.core.errors import InputError
from closecall.core.features import EXTRACTORS
from closecall.core.linear.hyperplane import Hyperplane, unit_rows
from closecall.core.numerics.rows import Rows
from closecall.core.onnx.loading import load_model
from closecall.core.onnx.model import ImageModel
from closecall.core.onnx.preprocessing import Preprocessing
from closecall.core.onnx.runtime import CPU
from closecall.core.sources import Source
from closecall.core.sources.base import Extractor, UnreadableImageError
from closecall.core.sources.embedded import Embedded
from closecall.core.sources.images import RENDITION, grey_of, read_image, read_resized
from closecall.storage.tabular import Column, Row, write_table

WEIGHTS, MANIFEST, SCRIPT = "weights.npz", "model.json", "score.py"
COEF, INTERCEPT = "coef", "intercept"
"""Names of the arrays in `WEIGHTS`."""

EXIT_PIPE = 141
"""Exit code of a program that SIGPIPE ends, as a shell reports it."""

SCORES = (Column("image"), Column("score", "number"), Column("predicted"))
"""Columns of the table that `main` prints."""

PROGRAM = '''"""Score images with the classifier in this folder, and print a table in CSV.

    python score.py IMAGE ...

Run it with the Python in which Closecall is installed. It computes the features and the score wx + b of each
image, as `closecall predict` does for the images of the pool; the prediction is yes if the score is positive.
"""

import sys
from pathlib import Path

from closecall.app.exchange.scoring import main

if __name__ == "__main__":
    sys.exit(main(Path(__file__).parent, sys.argv[1:]))
'''
"""Content of `SCRIPT`."""

Features = Callable[[Path], Rows]


@dataclass(frozen=True)
class Score:
    """Score of an image, or the reason why the image has no score."""

    image: Path
    score: float | None
    problem: str = ""


def features_of(source: Source) -> dict[str, Any] | None:
    """Return, as JSON, how features of new images are computed, or None if they can't be computed."""
    if isinstance(source, Embedded):
        spec = source.spec()
        names = ("model", "digest", "output", "preprocessing", "provider")
        return {"model": {name: spec[name] for name in names if name in spec}}
    return {"extractor": source.extractor} if source.n_features is None else None


def score_images(folder: Path, images: Iterable[Path], model: Path | None = None) -> Iterator[Score]:
    """Yield the score of each image under the classifier in `folder`.

    `model` is the file of the model that computes the features. It is only needed if the file was moved after
    the export.

    Raises
    ------
    InputError
        If the folder has no classifier, or its features can't be computed from images.
    """
    plane, features = _loaded(folder, model)
    for image in images:
        try:
            yield Score(image, float(plane.scores(features(image))[0]))
        except UnreadableImageError as error:
            is_absent = isinstance(error.__cause__, FileNotFoundError)
            yield Score(image, None, "there is no such file" if is_absent else str(error))


def main(folder: Path, arguments: Sequence[str]) -> int:
    """Score the images that `arguments` name; return the exit code, 1 if an image could not be scored.

    If the program that reads the table ends early, as ``head`` does, return `EXIT_PIPE`, without a message.
    """
    parser = argparse.ArgumentParser(prog=SCRIPT, description="Score images with this folder's classifier.")
    parser.add_argument("images", nargs="+", type=Path, metavar="IMAGE")
    parser.add_argument("--model", type=Path, help="the image model, if it has been moved")
    given = parser.parse_args(arguments)
    problems = 0

    def rows() -> Iterator[Row]:
        nonlocal problems
        for its in score_images(folder, given.images, given.model):
            if its.score is None:
                problems += 1
                print(f"{its.image} can't be scored: {its.problem}", file=sys.stderr)
            else:
                yield str(its.image), its.score, "yes" if its.score > 0 else "no"

    try:
        write_table(SCORES, rows(), sys.stdout, "csv")
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes stdout at its end
        return EXIT_PIPE
    except InputError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    return 1 if problems else 0


def _loaded(folder: Path, model: Path | None) -> tuple[Hyperplane, Features]:
    """Return the classifier in the folder, and the function that computes features."""
    try:
        described = json.loads((folder / MANIFEST).read_text("utf-8"))["features"]
        with np.load(folder / WEIGHTS, allow_pickle=False) as weights:
            plane = Hyperplane(weights[COEF], float(weights[INTERCEPT]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{folder} has no classifier that can be read: {error}") from None
    if described.get("extractor") in EXTRACTORS:
        return plane, _extracted(described["extractor"])
    if "model" in described:
        return plane, _embedded(described["model"], model)
    raise InputError(f"{folder} is a classifier of {described.get('name')}, which images don't have")


def _extracted(name: Extractor) -> Features:
    extractor = EXTRACTORS[name]
    return lambda image: extractor.transform(grey_of(read_image(image, RENDITION))[None])


def _embedded(spec: dict[str, Any], file: Path | None) -> Features:
    loaded: ImageModel = load_model(
        Path(spec["model"]) if file is None else file,
        output=spec["output"]["name"],
        preprocessing=Preprocessing.from_spec(spec["preprocessing"]),
        provider=spec.get("provider", CPU),
    )
    if loaded.digest != spec["digest"]:
        raise InputError(f"{loaded.file} is another model than that of the pool")

    def features(image: Path) -> Rows:
        vector = loaded.features_of_resized(read_resized(image, loaded.resizing))
        if not np.isfinite(vector).all() or not vector.any():
            raise UnreadableImageError("the model finds no features in it")
        return unit_rows(vector[None])

    return features
