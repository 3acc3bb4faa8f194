"""`bench select --planes-of`: hyperplanes of another pool's classes."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from closecall.app.cli.main import main
from closecall.app.experiments.bench.rounds import planes_for, planes_of_other
from closecall.core.experiment.corpus import Corpus
from closecall.core.experiment.planes import one_vs_all
from closecall.core.pool.build import build
from closecall.core.pool.pool import Pool
from closecall.core.sources import Source, Vectors
from closecall.core.sources.vocabulary import Vocabulary
from tests.fakes import FakeSource, FakeTexts

WORDS = (None, (), 5, 3)
"""No corpus, all settings, 5 hyperplanes, seed 3."""


def made(root: Path, name: str, source: Source) -> Pool:
    return build(source, root / name)


def labeled_pool(root: Path) -> Pool:
    return made(root, "labeled", FakeSource(300, classes=("a", "b", "c"), held_out=range(0, 300, 9)))


def big_pool(root: Path) -> Pool:
    """Items of unknown class, of another seed than the labeled ones."""
    return made(root, "big", FakeSource(700, classes=(), seed=5, lean=0.5))


def run(pool: Pool, planes_of: Pool, *words: object) -> Result:
    folders = ("--pool", pool.path, "--planes-of", planes_of.path)
    strategy = ("--strategy", "subsample:n_scored=50")
    return CliRunner().invoke(main, ["bench", "select", *map(str, (*folders, *strategy, *words))])


def scan_of(pool: Pool, planes_of: Pool, *words: object) -> dict:
    """The row of the full scan that the command writes."""
    file = pool.path.parent / "rows.json"
    result = run(pool, planes_of, "--json", file, *words)
    assert result.exit_code == 0, result.output
    return next(row for row in json.loads(file.read_text()) if row["strategy"] == "exhaustive")


def nearest(pool: Pool, planes: list) -> np.ndarray:
    """The least |wᵀx + b| of all items, by brute force."""
    X = pool.rows_of(pool.ids).astype(np.float64)
    return np.array([np.abs(plane.hyperplane.scores(X)).min() for plane in planes])


@pytest.mark.parametrize("source", [FakeSource(200, held_out=range(9)), FakeTexts(60, held_out=range(9))])
def test_the_hyperplanes_of_a_copy_are_the_pools_own(tmp_path, source):
    """A pool with the same items gives the same hyperplanes, for the same classes; none excludes an item."""
    pool = made(tmp_path, "pool", source)
    copy = Pool.open(shutil.copytree(pool.path, tmp_path / "copy"))
    own, others = planes_for(pool, *WORDS), planes_of_other(copy, pool, *WORDS)
    assert [p.hyperplane.digest for p in others] == [p.hyperplane.digest for p in own]
    assert [(p.positive, p.setting) for p in others] == [(p.positive, p.setting) for p in own]
    assert [len(p.labeled) for p in others] == [0] * 5


def test_selections_are_those_of_brute_force_over_all_items(tmp_path):
    """The scan of a pool without classes finds the nearest of all its items to each of those hyperplanes."""
    big, labeled = big_pool(tmp_path), labeled_pool(tmp_path)
    least = nearest(big, one_vs_all(labeled, 6))
    row = scan_of(big, labeled, "--queries", 6)
    assert (row["rank_p99"], row["recall_at_1"], row["queries"], row["items"]) == (0, 1, 6, 700)
    assert row["margin_median"] == pytest.approx(np.median(least), rel=1e-6)
    percentiles = np.percentile(least, [5, 25, 50, 75, 95])
    assert list(row["margin_box"].values()) == pytest.approx(percentiles.tolist(), rel=1e-6)


def test_results_name_the_pool_of_the_hyperplanes(tmp_path):
    """Both pools' names are in each row, above the table and in the figure."""
    big, labeled = big_pool(tmp_path), labeled_pool(tmp_path)
    file, boxes = tmp_path / "rows.json", tmp_path / "boxes.svg"
    result = run(big, labeled, "--queries", 3, "--json", file, "--boxes", boxes)
    assert "big, 700 × 8; C=1, unweighted, 5 a class: 3 hyperplanes of labeled, 1 BLAS" in result.output
    assert "big, 700 items, 3 hyperplanes of labeled" in boxes.read_text()
    rows = json.loads(file.read_text())
    assert {(row["data"], row["planes_of"]) for row in rows} == {("big", "labeled")}


def test_a_corpus_of_the_other_pool_can_be_taken(tmp_path):
    """--planes brings the other pool's hyperplanes; a file made for a third pool is refused."""
    big, labeled = big_pool(tmp_path), labeled_pool(tmp_path)
    planes = one_vs_all(labeled, 4, C=10)
    Corpus(planes, labeled.digest).save(tmp_path / "planes.npz")
    row = scan_of(big, labeled, "--planes", tmp_path / "planes.npz")
    assert row["setting"] == planes[0].setting
    assert row["margin_median"] == pytest.approx(np.median(nearest(big, planes)), rel=1e-6)
    assert "was made for another pool than" in run(big, big, "--planes", tmp_path / "planes.npz").stderr


def weighted(source: FakeTexts) -> FakeTexts:
    """The same texts and words, with other weights of the words."""
    words = source.vocabulary
    return FakeTexts(
        len(source), vocabulary=Vocabulary(words.words, words.frequencies + 1, words.n_texts + 1)
    )


def gist_numbers(root: Path) -> Vectors:
    """Embeddings with as many numbers as GIST has."""
    np.save(root / "x.npy", np.random.default_rng(0).normal(size=(20, 384)))
    return Vectors(root / "x.npy")


OTHERS = {
    "dimension": lambda _: (FakeSource(60, 8), FakeSource(60, 9)),
    "features": lambda root: (FakeSource(20, None), gist_numbers(root)),
    "vocabulary": lambda _: (FakeTexts(20), weighted(FakeTexts(20))),
    "layout": lambda _: (FakeTexts(20), FakeSource(60, len(FakeTexts(20).vocabulary))),
}
SENTENCES = {
    "dimension": r"big, 8 dense numbers \(embeddings\); .*other has 9 dense numbers \(embeddings\)$",
    "features": r"big, 384 dense numbers \(gist\); .*other has 384 dense numbers \(embeddings\)$",
    "vocabulary": r"big, (\d+) sparse numbers \(words .* (\w+)\); .*other has \1 sparse .* (?!\2)\w{16}\)$",
    "layout": r"big, (\d+) sparse numbers .*; .*other has \1 dense numbers \(embeddings\)$",
}


@pytest.mark.parametrize("difference", OTHERS)
def test_pools_with_other_features_are_refused(tmp_path, difference):
    """A hyperplane means nothing among other features, even if there are as many."""
    sources = OTHERS[difference](tmp_path)
    big, other = (made(tmp_path, *named) for named in zip(("big", "other"), sources, strict=True))
    result = run(big, other)
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1
    assert result.stderr.startswith("Error: --planes-of must be a pool with the features of ")
    assert re.search(SENTENCES[difference], result.stderr)


def test_the_other_pool_needs_classes(tmp_path):
    """Without known classes there is nothing to train on, and the sentence names that pool."""
    big = big_pool(tmp_path)
    result = run(big, made(tmp_path, "unknown", FakeSource(50, classes=())))
    assert result.exit_code == 2
    assert "unknown needs at least two classes" in result.stderr


def test_the_source_need_not_be_there(tmp_path):
    """Which features a pool has is read from the pool, so its files may have moved."""
    pool = made(tmp_path, "pool", gist_numbers(tmp_path))
    (tmp_path / "x.npy").unlink()
    assert Pool.open(pool.path).feature_kind == "embeddings"
