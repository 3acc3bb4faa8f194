from __future__ import annotations

import json
import re
import sys

import numpy as np
import pytest
from click.testing import CliRunner

from closecall.app.cli.main import main
from closecall.core.pool.build import build
from tests.fakes import FakeSource, FakeTexts
from tests.unit.app.experiments.histograms import ten_classes


@pytest.fixture(scope="module")
def pool(tmp_path_factory):
    return build(ten_classes(1500, 100), tmp_path_factory.mktemp("bench") / "pool", threads=1)


def run(*words: object):
    return CliRunner().invoke(main, ["bench", "similar", *map(str, words)])


@pytest.mark.thorough
def test_each_form_gets_a_row(pool, tmp_path):
    """For each kernel, draw and centring; the table has their means and what is gained over the first."""
    file = tmp_path / "similar.json"
    result = run(
        *("--pool", pool.path, "--json", file, "--kernel", "chi2", "--kernel", "cosine", "--draws", 2),
        *("--queries", 30, "--share", 0.01, "--landmarks", 100, "--bits", 64),
    )
    assert result.exit_code == 0, result.output
    rows = json.loads(file.read_text())
    assert len(rows) == 2 * 2 * 2 * 7
    for row in rows:
        assert (row["figure"], row["data"], row["items"]) == ("kernelized", "pool", len(pool))
        assert (row["queries"], row["landmarks"], row["bits"]) == (30, 100, 64)
        assert row["R"] == pytest.approx(0.01 * len(pool))
        assert 0 <= row["recall"] <= 1
        assert (row["rank"] is None) == (row["form"] in ("plain", "nystrom"))
        assert (row["scale"] is None) == (row["form"] not in ("transformed", "both"))
    assert {row["seed"] for row in rows} == {0, 1}
    low = [row["recall"] for row in rows if (row["kernel"], row["centred"], row["form"]) == LOW]
    plain = [row["recall"] for row in rows if (row["kernel"], row["centred"], row["form"]) == PLAIN]
    gain = 100 * (np.array(low) - plain)
    lines = result.output.splitlines()
    line = next(line for line in lines if line.split()[:4] == ["chi2", "mean", "low", "rank"])
    assert f"{100 * np.mean(low):.1f} ± {np.std(100 * np.array(low), ddof=1):.1f}" in line
    assert f"{gain.mean():.1f} ± {gain.std(ddof=1):.1f}" in line


def test_neighbours_by_either_metric_get_rows(pool, tmp_path):
    """Each by scan and by hashing, for each draw; the table has their means."""
    file = tmp_path / "neighbours.json"
    result = run(
        *("--what", "neighbours", "--pool", pool.path, "--json", file, "--draws", 2, "--queries", 40),
        *("--labels", 60, "--nearest", 3, "--searched", 0.2, "--bits", 64),
    )
    assert result.exit_code == 0, result.output
    rows = json.loads(file.read_text())
    assert [(row["seed"], row["metric"], row["search"]) for row in rows] == [
        (seed, metric, search)
        for seed in (0, 1)
        for metric in ("original", "learned")
        for search in ("scan", "tables")
    ]
    for row in rows:
        assert (row["figure"], row["data"], row["items"]) == ("neighbours", "pool", len(pool))
        assert (row["queries"], row["k"], row["labels"], row["bits"]) == (40, 3, 60, 64)
        assert row["searched"] == (1.0 if row["search"] == "scan" else pytest.approx(0.2))
        assert (row["gamma"] is None) == (row["metric"] == "original")
        assert row["accuracy"] > 0.5
    hashed = 100 * np.array([row["accuracy"] for row in rows[3::4]])
    line = next(line for line in result.output.splitlines() if line.split()[:2] == ["learned", "hashing,"])
    assert f"{hashed.mean():.1f} ± {hashed.std(ddof=1):.1f}" in line
    assert "20 %" in line


def test_codes_of_families_get_rows(pool, tmp_path):
    """For each form, length and draw what is found among so many; the tables have their means."""
    file = tmp_path / "survey.json"
    result = run(
        *("--what", "survey", "--pool", pool.path, "--json", file, "--draws", 2, "--queries", 30),
        *("--family", "lsh", "--family", "spectral", "--wanted", 20, "--bits", 40),
    )
    assert result.exit_code == 0, result.output
    rows = json.loads(file.read_text())
    assert [(row["seed"], row["family"], row["form"], row["bits"]) for row in rows] == [
        (seed, family, form, bits)
        for seed in (0, 1)
        for family, form in (("lsh", ""), ("spectral", "original"), ("spectral", "trimmed"))
        for bits in (8, 16, 32, 40)
    ]
    for row in rows:
        assert (row["figure"], row["data"], row["items"]) == ("survey", "pool", len(pool))
        assert (row["queries"], row["neighbours"]) == (30, 20)
        assert row["retrieved"] == [20, 50, 100, 200, 500, 1000, len(pool)]
        assert (np.diff(row["found"]) >= 0).all()
        assert row["found"][-1] == pytest.approx(1)
    lines = result.output.splitlines()
    by_bits, by_items = (next(i for i, line in enumerate(lines) if f" {head} " in line) for head in (16, 50))
    for start, columns in ((by_bits, (8, 16, 32, 40)), (by_items, (20, 50, 100, 200, 500, 1000))):
        assert lines[start].split() == ["family", *(f"{n:,}" for n in columns)]
        line = next(line for line in lines[start:] if line.startswith("Spectral, trimmed"))
        for n in columns:
            bits, place = (n, 4) if start == by_bits else (32, columns.index(n))
            found = [
                100 * row["found"][place] for row in rows if (row["form"], row["bits"]) == ("trimmed", bits)
            ]
            assert f"{np.mean(found):.1f} ± {np.std(found, ddof=1):.1f}" in line


def test_precision_gets_a_row_for_each_form_and_length(pool, tmp_path):
    """For each draw; the tables have their means, and say which family doesn't apply."""
    file = tmp_path / "precision.json"
    result = run(
        *("--what", "precision", "--pool", pool.path, "--json", file, "--draws", 2, "--queries", 40),
        *("--labels", 100, "--landmarks", 100, "--retrieved", 20, "--bits", 16, "--bits", 8),
        *("--family", "lsh", "--family", "ksh"),
    )
    assert result.exit_code == 0, result.output
    rows = json.loads(file.read_text())
    assert [(row["seed"], row["family"], row["bits"]) for row in rows] == [
        (seed, family, bits) for seed in (0, 1) for family in ("lsh", "ksh") for bits in (8, 16)
    ]
    for row in rows:
        assert (row["figure"], row["data"], row["items"]) == ("precision", "pool", len(pool))
        assert (row["queries"], row["labels"], row["retrieved"]) == (40, 100, [20])
        assert 0 < row["average_precision"] <= 1
    ksh = 100 * np.array([row["precision"][0] for row in rows if (row["family"], row["bits"]) == ("ksh", 16)])
    line = next(line for line in result.output.splitlines() if line.startswith("KSH"))
    assert line.endswith(f"{ksh.mean():.1f} ± {ksh.std(ddof=1):.1f}")
    assert "precision of the first 20" in result.output
    assert "mean average precision" in result.output


def test_structures_are_timed_beside_the_exact_scan(pool, tmp_path):
    """At each size and effort; where all rows are candidates, all of the nearest are found."""
    file = tmp_path / "speed.json"
    result = run(
        *("--what", "speed", "--pool", pool.path, "--json", file, "--draws", 1, "--queries", 8),
        *("--bits", 64, "--items", 500, "--items", 1000),
    )
    assert result.exit_code == 0, result.output
    rows = json.loads(file.read_text())
    assert {row["items"] for row in rows} == {500, 1000}
    assert {(row["structure"], row["bits"]) for row in rows} == {
        *((name, 64) for name in ("scan", "table", "tables", "orders")),
        *((name, 30) for name in ("scan", "ball")),
    }
    for row in rows:
        assert row["candidates"] <= row["items"]
        assert 0 <= row["recall"] <= 1
        assert min(row["lookup_ms"], row["ms"], row["exact_ms"]) > 0
        assert row["bytes"] >= row["bits"] / 8
        if row["candidates"] == row["items"] and row["structure"] in ("scan", "ball"):
            assert row["recall"] == 1
    for name in ("scan", "table", "tables", "orders", "ball"):
        bits = 30 if name == "ball" else 64
        own = [row for row in rows if (row["structure"], row["bits"]) == (name, bits)]
        recalls = {row["candidates"]: row["recall"] for row in own}
        assert recalls[100] <= recalls[1000]
    assert result.output.count("the exact scan takes") == 2
    for words, message in [
        (("--items", 5000), "from 10 to the 1,500"),
        (("--family", "ksh"), "families that need no labels, ksh needs some"),
        (("--family", "lsh", "--family", "rbm"), "one family is measured for speed, got lsh, rbm"),
    ]:
        wrong = run("--what", "speed", "--pool", pool.path, "--queries", 8, *words)
        assert wrong.exit_code == 2
        assert message in wrong.output


@pytest.mark.thorough
def test_faiss_is_timed_beside_our_structures(pool, tmp_path):
    """By its own number of how far to look; its scan finds all, as the others do that look far."""
    file = tmp_path / "speed.json"
    peers = ("faiss-flat", "faiss-ivf", "faiss-hnsw")
    result = run(
        *("--what", "speed", "--pool", pool.path, "--json", file, "--draws", 2, "--queries", 4, "--bits", 32),
        *(word for peer in peers for word in ("--peer", peer)),
    )
    assert result.exit_code == 0, result.output
    rows = [row for row in json.loads(file.read_text()) if row["structure"] in peers]
    assert {(row["structure"], row["draw"]) for row in rows} == {
        (name, draw) for name in peers for draw in (0, 1)
    }
    for name in peers:
        recalls = [row["recall"] for row in rows if row["structure"] == name and row["draw"] == 0]
        assert recalls[-1] == 1
        assert recalls[0] <= recalls[-1]
    assert {row["effort"] for row in rows if row["structure"] == "faiss-flat"} == {0}
    for row in rows:
        assert min(row["ms"], row["build_seconds"]) > 0
        assert row["bytes"] >= 4 * pool.n_features
    assert "nprobe 128" in result.output
    assert "efSearch 1000" in result.output


def test_peers_that_cannot_be_had_are_refused_in_a_sentence(pool, tmp_path, monkeypatch):
    """An unknown one, one for other rows, and a library that isn't installed."""
    speed = ("--what", "speed", "--queries", 8)
    texts = build(FakeTexts(400, held_out=range(0, 400, 5)), tmp_path / "texts", threads=1)
    for words, message in [
        (("--pool", pool.path, "--peer", "annoy"), "one of faiss-flat, faiss-ivf, faiss-hnsw, got 'annoy'"),
        (("--pool", texts.path, "--peer", "faiss-ivf"), "faiss-ivf needs dense rows"),
        (("--pool", pool.path, "--peer", "faiss-ivf", "--family", "klsh"), "klsh looks for something else"),
    ]:
        wrong = run(*speed, *words)
        assert wrong.exit_code == 2
        assert message in wrong.output
    monkeypatch.setitem(sys.modules, "faiss", None)
    wrong = run(*speed, "--pool", pool.path, "--peer", "faiss-flat")
    assert wrong.exit_code == 2
    assert 'pip install "closecall[peers]"' in wrong.output


def test_sets_have_no_compact_codes_to_look_up(tmp_path):
    """All structures but the ball are timed of functions with several bits."""
    texts = build(FakeTexts(400, held_out=range(0, 400, 5)), tmp_path / "texts", threads=1)
    file = tmp_path / "speed.json"
    speed = ("--what", "speed", "--pool", texts.path, "--json", file, "--draws", 1, "--queries", 8)
    result = run(*speed, "--family", "min-hash", "--bits", 32)
    assert result.exit_code == 0, result.output
    rows = json.loads(file.read_text())
    assert {row["structure"] for row in rows} == {"scan", "table", "tables", "orders"}


def test_texts_get_rows_of_overlaps(tmp_path):
    """Of sets and of weighted sets, by scan and through each structure that is asked for."""
    made = build(FakeTexts(400, held_out=range(0, 400, 5)), tmp_path / "texts", threads=1)
    file = tmp_path / "neighbours.json"
    result = run(
        *("--what", "neighbours", "--pool", made.path, "--json", file, "--draws", 1, "--queries", 20),
        *("--labels", 30, "--nearest", 3, "--searched", 0.2),
        *("--structure", "scan", "--structure", "table", "--structure", "tables"),
    )
    assert result.exit_code == 0, result.output
    rows = json.loads(file.read_text())
    assert [(row["metric"], row["search"]) for row in rows] == [
        (metric, search)
        for metric in ("original", "learned", "overlap", "weighted overlap")
        for search in ("scan", "hamming", "table", "tables")
    ]
    row = rows[9]
    line = next(line for line in result.output.splitlines() if line.split()[:2] == ["overlap", "hashing,"])
    assert f"{100 * row['recall']:.1f}" in line
    assert f"{100 * row['accuracy']:.1f}" in line
    assert line.split()[-4] == f"{row['bytes']:.0f}"


LOW, PLAIN = ("chi2", True, "low_rank"), ("chi2", True, "plain")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--kernel", "hellinger"), "kernel must be one of cosine, chi2, intersection"),
        (("--queries", 10_000), "20,000 held-out items are needed as queries"),
        (("--what", "neighbours", "--queries", 10_000), "20,000 held-out items of known class are needed"),
        (("--what", "neighbours", "--queries", 5, "--searched", 0), "0.0 is not in the range 0<x<=1"),
        (("--what", "survey", "--family", "theirs"), "a family is one of lsh"),
        (("--what", "survey", "--queries", 10_000), "20,000 held-out items are needed as queries"),
        (("--what", "survey", "--wanted", 10_000), "10000 neighbours are to be found, and the pool"),
        (("--what", "precision", "--family", "theirs"), "a family is one of lsh, "),
        (("--what", "precision", "--queries", 5, "--labels", 5_000), "5,000 labels are to be learned from"),
        (("--what", "precision", "--queries", 10_000), "20,000 held-out items of known class are needed"),
        (("--bits", 8, "--bits", 16), "one number of bits is measured for kernels, got 8, 16"),
        (("--wanted", 9), "--wanted is for --what survey and rectangles, not for kernels"),
        (
            ("--what", "speed", "--kernel", "chi2"),
            "--kernel is for --what kernels, sweeps, coverage, survey and precision",
        ),
        (("--landmarks", 99), "99 is not in the range x>=100"),
        (("--landmarks", 5_000, "--queries", 5), "needs at least as many rows as landmarks, 5000"),
    ],
)
def test_bad_input_is_one_sentence(pool, words, message):
    """And exit code 2, never a traceback."""
    result = run("--pool", pool.path, *words)
    assert result.exit_code == 2
    assert message in result.output.replace("\n", " ")
    assert "Traceback" not in result.output


@pytest.fixture
def centred(tmp_path):
    """A pool with negative features."""
    source = FakeSource(900, 8, classes=("a", "b"), held_out=range(0, 900, 9))
    return build(source, tmp_path / "centred")


@pytest.mark.parametrize(
    "what",
    [
        ("kernels",),
        ("sweeps", "--rank", 8, "--scale", 3, "--sampled", 5),
        ("coverage", "--epsilon", 2),
        ("survey", "--family", "klsh"),
        ("precision", "--family", "klsh", "--labels", 50),
    ],
)
def test_the_default_kernel_suits_centred_features(centred, tmp_path, what):
    """It is the cosine, as for `compare similar`."""
    file = tmp_path / "rows.json"
    few = ("--queries", 10, "--draws", 1, "--landmarks", 100, "--bits", 16, "--json", file)
    result = run("--what", *what, "--pool", centred.path, *few)
    assert result.exit_code == 0, result.output
    assert re.search(r"\b1 draw\b", result.output)
    assert "1 draws" not in result.output
    rows = json.loads(file.read_text())
    assert {row.get("kernel", row.get("yardstick")) for row in rows} == {"cosine"}


def test_centred_features_are_refused(centred):
    """A kernel on histograms says what it needs."""
    result = run("--pool", centred.path, "--queries", 5, "--landmarks", 100, "--kernel", "chi2")
    assert result.exit_code == 2
    assert "the kernel chi2 compares histograms, and row" in result.output
    few = ("--queries", 5, "--draws", 1, "--bits", 16, "--kernel", "chi2")
    survey = ("--what", "survey", "--pool", centred.path, *few)
    result = run(*survey, "--family", "lsh", "--family", "klsh")
    assert result.exit_code == 0, result.output
    assert "klsh does not apply: the kernel chi2 compares histograms" in result.output
    result = run(*survey, "--family", "klsh")
    assert result.exit_code == 2
    assert "no family applies to the pool" in result.output
