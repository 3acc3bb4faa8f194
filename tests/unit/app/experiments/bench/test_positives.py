from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner

from closecall.app.cli.main import main
from closecall.core.experiment.positives import classes_to_search, search_positives
from closecall.core.experiment.similar import FindSimilar
from closecall.core.pool.build import build
from tests.fakes import FakeSource


@pytest.fixture(scope="module")
def pool(tmp_path_factory):
    source = FakeSource(
        1500, 8, classes=("rare", "frequent", "scarce"), priors=(0.03, 0.94, 0.03), separation=2.0, lean=1.0
    )
    return build(source, tmp_path_factory.mktemp("bench") / "pool")


def run(*words: object):
    return CliRunner().invoke(main, ["bench", "positives", *map(str, words)])


def measure(pool, tmp_path, *words: object) -> tuple[list[dict], str]:
    file = tmp_path / "positives.json"
    result = run("--pool", pool.path, "--json", file, "--share", 0.1, "--searches", 4, "--wanted", 12, *words)
    assert result.exit_code == 0, result.output
    return json.loads(file.read_text()), result.output


def test_each_strategy_gets_a_row(pool, tmp_path):
    """With what it needed, an interval around it, and how many times fewer that is than at random."""
    words = ["random", "likely-positive", "mixture:margin=0,likely=0.5,random=0.5"]
    given = [f"--strategy={word}" for word in words]
    rows, output = measure(pool, tmp_path, *given, "--most", 200, "--batch", 3)
    assert [row["strategy"] for row in rows] == words
    for row in rows:
        assert (row["data"], row["items"], row["dim"]) == ("pool", 1500, 8)
        assert (row["searches"], row["classes"], row["wanted"], row["batch"]) == (4, 2, 12, 3)
        assert row["prevalence"] == pytest.approx(0.03, abs=0.01)
        assert row["labels_needed_low"] <= row["labels_needed"] <= row["labels_needed_high"]
        assert row["labels_needed"] == pytest.approx(np.exp(np.mean(np.log(row["labels_needed_each"]))))
        assert row["labels_needed_median"] == np.median(row["labels_needed_each"])
        assert row["fewer_than_random_low"] <= row["fewer_than_random"] <= row["fewer_than_random_high"]
        assert list(row["found_after"]) == ["50", "100", "200"]
        assert 0 <= row["reached"] <= 1
    random, likely, _ = rows
    assert random["reached"] == 1
    assert likely["fewer_than_random"] > 2
    lines = output.splitlines()
    begins = [
        line.split()[0]
        for line in lines[lines.index(next(x for x in lines if "searches for 12" in x)) :]
        if line
    ]
    assert begins[2:5] == sorted(words, key=lambda word: rows[words.index(word)]["labels_needed"])


def test_by_default_mixtures_are_compared_with_their_parts(pool, tmp_path):
    """All three parts alone, each two of them, and all together."""
    rows, _ = measure(pool, tmp_path, "--most", 20, "--batch", 10)
    words = [row["strategy"] for row in rows]
    assert words[:3] == ["random", "margin-index", "likely-positive"]
    assert len(words) == 7
    assert all(word.startswith("mixture") for word in words[3:])


def test_find_similar_stands_beside_the_strategies(pool, tmp_path):
    """By either metric, as a search by hand has it, from the same first items."""
    words = ["random", "similar", "similar:metric=learned,page=12"]
    rows, output = measure(pool, tmp_path, *(f"--strategy={word}" for word in words), "--most", 200)
    assert [row["strategy"] for row in rows] == words
    positives = classes_to_search(pool, 4, 12, 0.1, seed=0)
    for row, way in zip(
        rows[1:], (FindSimilar(pool), FindSimilar(pool, metric="learned", page=12)), strict=True
    ):
        found = search_positives(pool, way, positives, wanted=12, most=200)
        assert row["labels_needed_each"] == [search.labels_needed(12) for search in found]
        assert row["fewer_than_random"] > 1
    assert all(word in output for word in words)


def test_the_same_seed_gives_the_same_figures(pool, tmp_path):
    """And another one begins with other items."""
    words = ("--strategy", "mixture", "--most", 60, "--batch", 4)
    first, again = (measure(pool, tmp_path, *words)[0][0]["labels_needed_each"] for _ in range(2))
    other = measure(pool, tmp_path, *words, "--seed", 1)[0][0]["labels_needed_each"]
    assert first == again != other


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--share", 1, "--wanted", 5, "--strategy", "psychic"), "strategy must be one of random"),
        (("--share", 1, "--wanted", 5, "--strategy", "mixture:likely=1"), "the shares of a mixture must be"),
        (("--share", 1, "--wanted", 5, "--strategy", "similar:metric=best"), "must be original or learned"),
        (
            ("--share", 1, "--wanted", 5, "--strategy", "similar:hue=1"),
            "the parameters metric, page, gamma",
        ),
        (("--share", 0.001, "--wanted", 5), "makes up at most 0.1 % of it"),
        (("--wanted", 1800), "needs at least two classes with 1801 items"),
    ],
)
def test_what_cannot_be_measured_is_refused(pool, words, sentence):
    """One sentence that names what was given."""
    result = run("--pool", pool.path, *words)
    assert result.exit_code == 2
    assert sentence in result.stderr
    assert result.stderr.count("\n") == 1
