from __future__ import annotations

from typing import Any

import pytest

from closecall.app.pages.pool_sources import CHOICES, source_word
from closecall.core.errors import InputError


@pytest.mark.parametrize(
    ("choice", "paths", "options", "word"),
    [
        ("folder", {"folder": " /data/leaves "}, {}, "/data/leaves"),
        ("folder", {"folder": "/data/leaves"}, {"times": 20}, "enlarged:20:/data/leaves"),
        ("folder", {"folder": "/leaves"}, {"times": 2, "model": "/m"}, "onnx:/m:enlarged:2:/leaves"),
        ("tar", {"path": "/s/*.tar"}, {"times": 2, "model": "/m#a"}, "onnx:/m#a:enlarged:2:tar:/s/*.tar"),
        ("images", {"file": "/p.parquet,img"}, {"times": 3}, "enlarged:3:images:/p.parquet,img"),
        ("video", {"path": "2:/v"}, {"times": 2, "model": "/m"}, "onnx:/m:enlarged:2:video:2:/v"),
        ("digits", {}, {"items": 50_000, "times": 3}, "digits:50000"),
        ("vectors", {"file": "/v.npy"}, {"model": "/m"}, "vectors:/v.npy"),
        ("cifar10", {"path": "/data/c.tar.gz"}, {}, "cifar10:/data/c.tar.gz"),
        ("texts", {"path": "/data/letters.csv"}, {}, "texts:/data/letters.csv"),
        ("newsgroups", {"path": "/data/news"}, {}, "newsgroups:/data/news"),
        ("vectors", {"file": "/v.fvecs"}, {}, "vectors:/v.fvecs"),
        ("points", {"file": "/p.npz,/c.txt"}, {}, "points:/p.npz,/c.txt"),
        ("arrays", {"features": "/e.npy", "images": "/i"}, {}, "arrays:/e.npy,/i"),
    ],
)
def test_the_form_speaks_the_command_lines_words(
    choice: str, paths: dict[str, str], options: dict[str, Any], word: str
) -> None:
    """What is chosen on the start page is a SOURCE word."""
    assert source_word(choice, paths, **options) == word


@pytest.mark.parametrize("choice", [name for name, offered in CHOICES.items() if offered.fields])
def test_an_empty_field_is_named(choice: str) -> None:
    """The sentence says which field, and what could stand there."""
    field = CHOICES[choice].fields[0]
    said = f"^Enter (an? )?{field.label.lower()}, such as {field.placeholder}$"
    with pytest.raises(InputError, match=said):
        source_word(choice, {field.name: "  "})


def test_examples_are_offered_where_they_can_be_compared() -> None:
    """Not where the features are the user's own, nor for texts."""
    without = [name for name, offered in CHOICES.items() if not offered.takes_examples]
    assert without == ["arrays", "vectors", "points", "texts", "newsgroups"]
