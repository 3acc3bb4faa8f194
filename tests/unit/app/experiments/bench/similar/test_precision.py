"""Precision by class with few labels: which family sees which labels, and that they help."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from closecall.app.experiments.bench.similar import Precision
from closecall.app.experiments.compare.similar.names import lessons
from closecall.core.errors import InputError
from closecall.core.experiment.families import Draw, forms_of, lesson_of
from closecall.core.experiment.queries import Items, held_out_queries
from closecall.core.experiment.similarity import Truths
from closecall.core.experiment.slack import MAX_PASSES, validated_metric
from closecall.core.hashing import FAMILIES, RandomHyperplaneLSH, SupervisedKernelHash
from closecall.core.metric import ITML, Constraints
from closecall.core.metric.validation import GAMMAS
from closecall.core.pool.build import build
from tests.fakes import FakeSource
from tests.scale import thorough
from tests.unit.app.experiments.histograms import ten_classes

WORDS = {"n_labels": 100, "n_sample": 700, "kernel": "chi2", "n_landmarks": 60, "seed": 2}


def figure(bits: tuple[int, ...] = (8,), **changed) -> Precision:
    words = {
        "draws": 1,
        "queries": 20,
        "families": (),
        "kernels": ("chi2",),
        "landmarks": 60,
        "retrieved": (10, 500),
        "labels": (100,),
        "sample": 700,
    }
    return Precision(bits=bits, **{**words, **changed})


def rows_of(pool, queries, draw, *families, **words) -> list[dict]:
    asked, truths = figure(**words), Truths(pool, queries, 0, 0)
    rows = [row for name in families for row in asked.measure_family(name, draw, truths)]
    assert asked.refused == {}
    return rows


@pytest.fixture(scope="module")
def histograms(tmp_path_factory):
    return build(ten_classes(1200, 100), tmp_path_factory.mktemp("precision") / "pool", threads=1)


@pytest.fixture(scope="module")
def asked(histograms) -> tuple[Items, Items]:
    return held_out_queries(histograms, 60, 20, known=True)


def test_so_few_classes_are_known(histograms, asked):
    """Those of the drawn rows, rightly, and of no other; another seed draws others."""
    draw = Draw.of(histograms, asked[1].X, **WORDS)
    assert draw.sample.shape[0] == 700
    known = draw.truth >= 0
    assert known.sum() == 100
    rows = {row.tobytes(): place for place, row in enumerate(histograms.rows(np.arange(len(histograms))))}
    places = [rows[row.tobytes()] for row in draw.sample]
    assert np.array_equal(draw.truth[known], histograms.truth(histograms.ids[places])[known])
    other = Draw.of(histograms, asked[1].X, **{**WORDS, "seed": 3})
    assert not np.array_equal(other.truth, draw.truth)


def test_precision_is_counted_by_hand(histograms, asked):
    """Of LSH fitted to the same rows, with all rows of the pool sorted by their codes."""
    queries, choosing = asked
    draw = Draw.of(histograms, choosing.X, **WORDS)
    (row,) = rows_of(histograms, queries, draw, "lsh", bits=(300,), retrieved=(5, 40))
    family = RandomHyperplaneLSH(n_functions=300, random_state=2).fit(draw.sample)
    points = family.hash_points(histograms.rows(np.arange(len(histograms)))).unpacked().astype(int)
    classes, shares, averages = histograms.truth(histograms.ids), [], []
    rng = np.random.default_rng(0)
    for code, own in zip(family.hash_queries(queries.X).unpacked(), queries.truth, strict=True):
        distances = np.abs(points - code).sum(axis=1)
        alike = classes[np.lexsort((rng.random(len(points)), distances))] == own
        shares.append([alike[:k].mean() for k in (5, 40)])
        averages.append((alike.cumsum() / np.arange(1, len(alike) + 1))[alike].mean())
    assert (row["family"], row["form"], row["bits"], row["seed"]) == ("lsh", "", 300, 2)
    assert row["precision"] == pytest.approx(np.mean(shares, axis=0), abs=0.01)
    assert row["average_precision"] == pytest.approx(np.mean(averages), abs=0.003)


def test_the_legend_says_which_labels_were_used(histograms, capsys):
    """Of each supervised family: all of them, or the pairs that it draws."""
    asked = figure(families=("lsh", "metric-lsh", "ksh"), labels=(60,))
    rows = [row for some in asked.measure(histograms) for row in some]
    asked.conclude(rows)
    told = " ".join(capsys.readouterr().out.split())
    assert "Labels used: Metric LSH: at most 2,000 pairs of all 60; KSH: all 60." in told
    assert {row["family"]: row["learned_from"] for row in rows}["lsh"] is None
    learned = {name: lesson_of(name, 500, 10, sparse=True) for name in FAMILIES}
    assert lessons(learned) == (
        "Labels used: Metric LSH: at most 2,000 pairs of 400; KSH: all 500; KSH, learned kernel: all 500, "
        "and for its kernel at most 2,000 pairs of 400; Boosting, by class: at most 20,000 pairs of all 500; "
        "RBM, by class: all 500."
    )
    assert lessons({"lsh": None}) == ""


def test_the_slack_of_a_metric_is_chosen_on_its_own_labels(histograms, asked):
    """By cross-validation, whose score is the share of right votes; nothing else is looked at."""
    draw = Draw.of(histograms, asked[1].X, **WORDS)
    known = draw.truth >= 0
    found = validated_metric(draw.sample[known], draw.truth[known], n_pairs=1000, seed=draw.seed)
    assert found.scores.keys() == set(GAMMAS)
    assert all(0 < score <= 1 for score in found.scores.values())
    assert found.gamma == max(found.scores, key=found.scores.get)
    pairs = Constraints.from_labels(draw.sample, draw.truth, n_pairs=2000, random_state=draw.seed)
    learning = ITML(gamma=found.gamma, max_passes=MAX_PASSES, random_state=draw.seed)
    expected = learning.fit(draw.sample, pairs).metric_
    X = draw.sample[:20]
    assert np.array_equal(draw.learned.metric.inner(X, X), expected.inner(X, X))


@pytest.mark.thorough
@pytest.mark.slow
def test_labels_make_codes_more_precise(histograms, asked):
    """Supervised hashing, by either kernel, over random hyperplanes and kernelized LSH, at each length."""
    queries, choosing = asked
    draw = Draw.of(histograms, choosing.X, **{**WORDS, "n_labels": 300})
    names = ["lsh", "klsh", "ksh", "ksh-learned"]
    rows = rows_of(histograms, queries, draw, *names, bits=(8, 24), retrieved=(20,))
    for bits in (8, 24):
        of = {(r["family"], r["form"]): r["average_precision"] for r in rows if r["bits"] == bits}
        best = max(value for (name, _), value in of.items() if not name.startswith("ksh"))
        assert of["ksh", ""] > best
        assert of["ksh-learned", ""] > best


@pytest.mark.parametrize("name", ["ksh", thorough("ksh-learned")])
def test_supervised_codes_learn_from_all_labels_that_are_asked_for(histograms, asked, name):
    """More than the families take by default, and no more than others get."""
    draw = Draw.of(histograms, asked[1].X, **{**WORDS, "n_labels": 1100, "n_sample": 1200})
    assert forms_of(name, draw)[""](8).n_labels == 1100
    few = draw.taught(400)
    assert forms_of(name, few)[""](8).n_labels == np.count_nonzero(few.truth >= 0) == 400
    assert (draw.truth[few.truth >= 0] == few.truth[few.truth >= 0]).all()


def test_unlabelled_families_see_no_label(histograms, asked):
    """Their figures are the same however many are known."""
    queries, choosing = asked
    few, many = (
        rows_of(
            histograms,
            queries,
            Draw.of(histograms, choosing.X, **{**WORDS, "n_labels": n}),
            "lsh",
            bits=(16,),
        )
        for n in (50, 400)
    )
    changing = {"labels", "choosing_seconds", "fit_seconds"}
    told = [[{n: row[n] for n in row.keys() - changing} for row in rows] for rows in (few, many)]
    assert told[0] == told[1]


def test_no_more_anchors_than_landmarks(histograms, asked):
    """Supervised hashing takes part with as few as kernelized LSH has."""
    draw = Draw.of(histograms, asked[1].X, **WORDS)
    for name in ("ksh", "ksh-learned"):
        made = forms_of(name, draw)[""](6)
        assert isinstance(made, SupervisedKernelHash)
        assert (made.n_anchors, made.n_functions, made.random_state) == (60, 6, 2)
        unknown = replace(draw, truth=np.full_like(draw.truth, -1))
        with pytest.raises(InputError, match=f"^{name} learns from labels of at least two classes, got 0$"):
            forms_of(name, unknown)


def test_bad_input_is_one_sentence(histograms, asked, tmp_path):
    """Too few rows of known class, too many to retrieve, and families none of which applies."""
    with pytest.raises(InputError, match="800 labels are to be learned from, and the classes of 700 are"):
        Draw.of(histograms, asked[1].X, **{**WORDS, "n_labels": 800})
    with pytest.raises(InputError, match=r"from 1 to [\d,]+ rows can be retrieved, got 10, 10,000"):
        list(figure(retrieved=(10, 10_000)).measure(histograms))
    with pytest.raises(InputError, match="a family is one of lsh"):
        figure(families=("theirs",))
    source = FakeSource(400, 8, classes=("a", "b"), held_out=range(0, 400, 7))
    signed = build(source, tmp_path / "pool", threads=1)
    small = {"queries": 10, "sample": 200, "retrieved": (9,)}
    with pytest.raises(InputError, match=r"no family applies to the pool .*: the kernel chi2 compares"):
        list(figure(families=("klsh",), **small).measure(signed))
    both = figure(families=("klsh", "ksh"), **small)
    rows = [row for found in both.measure(signed) for row in found]
    assert list(both.refused) == ["klsh"]
    assert {row["family"] for row in rows} == {"ksh"}
