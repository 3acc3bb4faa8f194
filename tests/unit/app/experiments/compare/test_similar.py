from __future__ import annotations

import json
import re

import click
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from closecall.app.cli.main import main
from closecall.app.experiments.compare.command import compare
from closecall.app.experiments.compare.similar.looks import look_of, outline
from closecall.app.experiments.compare.similar.names import lane_label
from closecall.app.experiments.compare.similar.plan import SimilarityPlan
from closecall.app.experiments.compare.similar.results import TIMES, Lane, SimilarityResults
from closecall.core.errors import InputError
from closecall.core.experiment.families import forms_of
from closecall.core.hashing import FAMILIES
from closecall.core.pool.build import build
from closecall.core.pool.pool import Pool
from tests.fakes import FakeSource
from tests.families import learning_little
from tests.scale import scaled
from tests.unit.app.experiments.histograms import ten_classes

# They share a comparison of all families.
pytestmark = [pytest.mark.xdist_group("compare similar"), pytest.mark.thorough]

WORDS = ("--bits", 32, "--bits", 16, "--draws", 2, "--queries", 15, "--landmarks", 60, "--share", 0.004)
WORDS += ("--neighbours", 20, "--seed", 5)
FEW = ("lsh", "metric-lsh", "klsh", "kpca-lsh", "nystrom-lsh", "min-hash")
FAMILIES_TRIED = scaled(quick=tuple(word for name in FEW for word in ("--family", name)), all=())
"""All, if none is named."""


@pytest.fixture(scope="module", autouse=True)
def little():
    with learning_little():
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return build(ten_classes(900, 100), tmp_path_factory.mktemp("similar") / "pool", threads=1).path


def command(folder, out, *words):
    return [str(word) for word in ("compare", "similar", "--pool", folder, "--out", out, *WORDS, *words)]


def run(*words):
    result = CliRunner().invoke(main, command(*words))
    assert result.exit_code == 0, result.output
    return result.output


def refused(*words):
    result = CliRunner().invoke(main, command(*words))
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.output
    return result.output.replace("\n", " ")


def table(out):
    """All results but the times."""
    everything = pq.read_table(out / "results.parquet")
    return everything.filter(
        pc.invert(pc.is_in(everything["measure"], value_set=pc.cast(list(TIMES), "string")))
    )


@pytest.fixture(scope="module")
def finished(folder, tmp_path_factory):
    """A comparison that ran to its end."""
    out = tmp_path_factory.mktemp("finished") / "out"
    with pytest.MonkeyPatch.context() as patch:
        if scaled(quick=True, all=False):
            undraw(patch)
        run(folder, out, *FAMILIES_TRIED)
    return out


def undraw(patch):
    """Neither figures nor report, where a test is about results alone: they take most of the time."""
    patch.setattr("closecall.app.experiments.compare.similar.comparison.draw_figures", lambda *_: {})
    patch.setattr(
        "closecall.app.experiments.compare.similar.comparison.write_report", lambda *_: "not written"
    )


@pytest.fixture
def undrawn(monkeypatch):
    """See `undraw`."""
    undraw(monkeypatch)


@pytest.mark.thorough
@pytest.mark.slow
def test_every_family_has_its_rows(folder, finished):
    """For each draw and length of code, but one of sets; shares are shares."""
    rows = table(finished).to_pylist()
    assert {row["family"] for row in rows} == set(FAMILIES) - {"min-hash"}
    assert {(row["draw"], row["bits"]) for row in rows} == {(0, 16), (0, 32), (1, 16), (1, 32)}
    shares = [
        row["value"] for row in rows if row["measure"] in ("nearest", "neighbours", "recall", "searched")
    ]
    assert 0 <= min(shares) <= max(shares) <= 1
    assert {row["structure"] for row in rows} == {None, "scan", "table", "tables", "orders"}
    assert {row["bits"] for row in rows if row["structure"]} == {32}


@pytest.mark.thorough
@pytest.mark.slow
def test_the_same_words_give_the_same_table(folder, finished, tmp_path, undrawn):
    """In another folder, and where a part of it was there already; only times differ."""
    out, names = tmp_path / "out", ("lsh", "metric-lsh", "klsh", "spectral")
    words = [word for name in names for word in ("--family", name)]
    run(folder, out, *words)
    everything = table(finished)
    same = everything.filter(pc.is_in(everything["family"], value_set=pa.array(names)))
    assert table(out).equals(same)
    (out / "units" / "metric-lsh-draw-01.parquet").unlink()
    (out / "results.parquet").unlink()
    before = {path: path.stat().st_mtime_ns for path in out.glob("units/*")}
    assert "7 of 8 are done already" in run(folder, out, *words)
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert table(out).equals(same)


@pytest.mark.slow
def test_results_are_means_over_draws(folder, finished):
    """As the table has them, in the order in which they were asked for."""
    results = SimilarityResults.read(SimilarityPlan.read(finished), Pool.open(folder), finished)
    assert [lane.family for lane in results.lanes] == sorted(
        (lane.family for lane in results.lanes), key=list(FAMILIES).index
    )
    lane, rows = Lane("klsh", "low rank"), table(finished).to_pylist()
    own = [row for row in rows if (row["family"], row["form"]) == lane and row["bits"] == 32]
    first = results.plan.retrieved(len(results.pool))[0]
    bits, recall = results.by_bits(lane, "nearest", first)
    assert bits.tolist() == [16, 32]
    by_hand = [row["value"] for row in own if row["measure"] == "nearest" and row["retrieved"] == first]
    assert recall[1] == pytest.approx(np.mean(by_hand))
    k, found = results.by_retrieved(lane, "neighbours", bits=32)
    assert k.tolist() == results.plan.retrieved(len(results.pool))
    assert (np.diff(found) >= 0).all()
    assert found[-1] == pytest.approx(1)


@pytest.mark.slow
def test_the_manifest_says_how_it_was_made(folder, finished):
    """Words, pool, versions, and what each family is held to."""
    manifest = json.loads((finished / "manifest.json").read_text("utf-8"))
    assert manifest["plan"]["seed"] == 5
    assert manifest["plan"]["bits"] == [16, 32]
    assert manifest["pool"]["digest"] == Pool.open(folder).digest
    assert manifest["versions"]["numpy"] == np.__version__
    assert manifest["yardsticks"]["klsh low rank"] == "chi2"
    assert list(manifest["refused"]) == ["min-hash"]
    assert "min-hash compares the sets" in manifest["refused"]["min-hash"]


@pytest.mark.thorough
@pytest.mark.slow
def test_figures_and_report_are_there(finished):
    """The report needs nothing beside it, names every family, and refers to no id that it hasn't."""
    for name in ("bits", "retrieved", "angle", "precision", "structures", "times"):
        assert (finished / f"{name}.svg").stat().st_size > 1000
        assert (finished / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    page = (finished / "report.html").read_text("utf-8")
    assert re.findall(r'(?:src|href|url)=?["(](?!data:|#)[^")]*', page) == []
    for label in (
        "LSH",
        "Metric LSH",
        "KLSH, low rank, transformed",
        "KPCA+LSH",
        "Nyström",
        "one table",
        "bucket tables",
    ):
        assert label in page
    assert re.search("for [0-9]+\N{NO-BREAK SPACE}% of the queries", page)
    assert not re.search("[0-9] %", page)
    rows = table(finished).to_pylist()
    gammas: dict[str, set[float]] = {}
    for row in rows:
        if row["measure"] == "gamma":
            gammas.setdefault(row["family"], set()).add(row["value"])
    assert gammas.keys() == {row["family"] for row in rows} & {"metric-lsh", "ksh-learned"}
    for own in gammas.values():
        assert f"<small>γ {' and '.join(f'{gamma:g}' for gamma in sorted(own))}</small>" in page
    ids = re.findall(r' id="([^"]*)"', page)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'(?:href="#|url\(#)([^")]*)', page)) <= set(ids)


@pytest.mark.thorough
@pytest.mark.slow
def test_lines_are_told_apart_without_colour(folder, finished):
    """By mark and dash; the legend of a figure has the order of the families, and colours follow the page."""
    results = SimilarityResults.read(SimilarityPlan.read(finished), Pool.open(folder), finished)
    lanes = [*results.lanes, Lane("min-hash", "sets"), Lane("min-hash", "weighted")]
    looks = [look_of(lane) for lane in lanes]
    assert len({(look.mark, look.hollow, look.dash) for look in looks}) == len(looks)
    labels = [lane_label(lane) for lane in results.lanes]
    for name in ("bits", "retrieved", "structures"):
        said = re.findall(r">([^<>]+)</text>", (finished / f"{name}.svg").read_text("utf-8"))
        assert [word for word in said if word in labels] == labels
    page = (finished / "report.html").read_text("utf-8")
    drawn = page[page.index("<figure>") :]
    assert "stroke: var(--" in drawn
    assert re.findall(r"(?:stroke|fill): ?#", drawn) == []


def test_families_have_marks_of_their_own():
    """Whatever their colour; a mark's outline fits into a table's line."""
    looks = [look_of(Lane(name, "")) for name in FAMILIES]
    assert len({(look.mark, look.hollow) for look in looks}) == len(FAMILIES)
    for look in looks:
        numbers = [float(number) for number in re.findall(r"-?\d+\.\d", outline(look.mark))]
        assert max(map(abs, numbers)) == 6


def test_all_families_of_a_draw_get_the_same_labels(folder, tmp_path, monkeypatch):
    """At most as many as asked for, and other ones in each draw; KSH uses all of them."""
    taught = ("metric-lsh", "ksh", "ksh-learned", "boosted", "rbm")
    seen: dict[int, dict[str, bytes]] = {}

    def spied(name, draw):
        known = np.flatnonzero(draw.truth >= 0)
        assert draw.lesson(name).labels == len(known) == 120
        if name == "ksh":
            assert forms_of(name, draw)[""](8).n_labels == 120
        seen.setdefault(draw.seed, {})[name] = known.tobytes() + draw.truth.tobytes() + draw.sample.tobytes()
        raise InputError("nothing is to be measured here")

    monkeypatch.setattr("closecall.core.experiment.similarity.forms_of", spied)
    words = [word for name in taught for word in ("--family", name)]
    refused(folder, tmp_path / "out", *words, "--labels", 120)
    assert {seed: set(own) for seed, own in seen.items()} == {5: set(taught), 6: set(taught)}
    labels = [set(own.values()) for own in seen.values()]
    assert [len(own) for own in labels] == [1, 1]
    assert labels[0] != labels[1]


@pytest.mark.slow
def test_other_words_for_the_same_folder_are_refused(folder, finished):
    """The sentence says what differs."""
    assert "seed 5, not 6" in refused(folder, finished, *FAMILIES_TRIED, "--seed", 6)
    assert "bits 16, 32, not 16, 32, 64" in refused(folder, finished, *FAMILIES_TRIED, "--bits", 64)


@pytest.mark.slow
def test_families_that_do_not_apply_are_told(tmp_path, monkeypatch):
    """The others are compared all the same; where none applies, that is the sentence."""
    monkeypatch.setattr("closecall.app.experiments.compare.similar.comparison.draw_figures", lambda *_: {})
    source = FakeSource(900, 8, classes=("a", "b"), held_out=range(0, 900, 9))
    made = build(source, tmp_path / "pool").path
    words = ("--family", "lsh", "--family", "klsh", "--draws", 1, "--kernel", "chi2")
    run(made, tmp_path / "out", *words)
    page = (tmp_path / "out" / "report.html").read_text("utf-8")
    assert "Families that do not apply here" in page
    assert "the kernel chi2 compares histograms" in page
    said = refused(made, tmp_path / "none", "--family", "klsh", "--kernel", "chi2")
    assert "no family applies to the pool" in said
    assert "compares histograms" in said
    run(made, tmp_path / "usual", "--family", "klsh", "--draws", 1)
    assert SimilarityPlan.read(tmp_path / "usual").kernel == "cosine"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--family", "theirs"), "a family is one of lsh"),
        (("--kernel", "hellinger"), "kernel must be one of cosine, chi2, intersection"),
        (("--queries", 10_000), "20,000 held-out items are needed as queries"),
        (("--neighbours", 5_000), "5000 neighbours are to be found, and the pool"),
        (("--bits", 0), "0 is not in the range 1<=x<=4096"),
        (("--neighbours", 9), "9 is not in the range x>=10"),
    ],
)
def test_bad_input_is_one_sentence(folder, tmp_path, words, message):
    """Before anything is measured."""
    assert message in refused(folder, tmp_path / "out", *words)
    assert not (tmp_path / "out" / "comparison.json").exists()


def test_a_folder_of_another_comparison_is_refused(folder, tmp_path):
    """One of strategies holds other words."""
    (tmp_path / "comparison.json").write_text('{"classes": [0], "runs": 1}')
    assert "is damaged, or of another version: choose another folder" in refused(folder, tmp_path)


def test_compare_has_its_own_options_and_other_commands():
    """Either explains itself, and names the other's words in no way."""
    said = CliRunner().invoke(main, ["compare", "--help"]).output
    assert "--strategy" in said
    assert re.search(r"Commands:\s+similar +Compare hash families.*\n +features  Compare the accuracy", said)
    said = CliRunner().invoke(main, ["compare", "similar", "--help"]).output
    assert "Usage: main compare similar [OPTIONS]" in said
    assert "--family" in said
    assert "--strategy" not in said
    for other in compare.others.values():
        assert other.help
        assert all(option.help for option in other.params if isinstance(option, click.Option))
    missing = CliRunner().invoke(main, ["compare", "similar"])
    assert missing.exit_code == 2
    assert "Missing option '--out'" in missing.output
