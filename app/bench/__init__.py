"""Measurements: ``marginalia bench``. What is printed is for people, what ``--json`` gets is for programs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from app.sentences import sentences

_json = click.option(
    "--json",
    "json_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File for the results as JSON.",
)


@click.group()
def bench() -> None:
    """Measure building a pool and selecting from it."""


@bench.command("build")
@_json
@click.option(
    "--items", type=click.IntRange(1), default=100_000, show_default=True, help="Items of the digits."
)
@click.option("--source", "word", help="Another source, as for pool build.  [default: digits:ITEMS]")
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), help="Keep the pool in this new folder."
)
@click.option(
    "--threads", type=click.IntRange(1), help="Threads that compute features.  [default: all cores]"
)
@sentences
def bench_build(
    json_file: Path | None, items: int, word: str | None, out: Path | None, threads: int | None
) -> None:
    """Build a pool and say how fast, with how much memory."""
    from app.bench.build import measure_build
    from app.bench.report import write_json

    result = measure_build(word or f"digits:{items}", out, threads=threads)
    write_json(json_file, result)


@bench.command("planes")
@click.option("--pool", "folder", required=True, type=click.Path(path_type=Path), help="Folder of the pool.")
@click.option(
    "--out", required=True, type=click.Path(dir_okay=False, path_type=Path), help="File to write (.npz)."
)
@click.option(
    "--singles",
    type=click.IntRange(0),
    default=60,
    show_default=True,
    help="Single hyperplanes of each setting.",
)
@click.option(
    "--sessions", type=click.IntRange(0), default=52, show_default=True, help="Sessions to simulate."
)
@click.option(
    "--rounds", type=click.IntRange(1), default=100, show_default=True, help="Hyperplanes of each session."
)
@click.option(
    "--noise",
    type=click.FloatRange(0, 1),
    default=0.05,
    show_default=True,
    help="Share of wrong answers in the sessions that have some.",
)
@click.option(
    "--seed", type=click.IntRange(0), default=0, show_default=True, help="Draws the classes and the labels."
)
@sentences
def bench_planes(
    folder: Path, out: Path, singles: int, sessions: int, rounds: int, noise: float, seed: int
) -> None:
    """Train hyperplanes on a pool of known truth and save them, to compare strategies by.

    Single ones are trained on labels drawn at random, in 19 settings. Sessions are simulated: an SVM of one
    class against the rest is retrained after every answer about the item nearest to it.
    """
    from app.bench.planes import make_corpus
    from core.pool import Pool

    make_corpus(
        Pool.open(folder), out, singles=singles, sessions=sessions, rounds=rounds, noise=noise, seed=seed
    )


@bench.command("select")
@click.option("--pool", "folder", required=True, type=click.Path(path_type=Path), help="Folder of the pool.")
@click.option(
    "--planes",
    "corpus",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Hyperplanes that bench planes made of it.  [default: SVMs in the paper's setting]",
)
@click.option(
    "--setting",
    "settings",
    multiple=True,
    help="Only the hyperplanes of this setting, or all that contain it.",
)
@click.option(
    "--strategy",
    "words",
    multiple=True,
    help="NAME or NAME:param=value,param=value.  [default: all there are, some with several budgets]",
)
@click.option(
    "--items",
    "sizes",
    type=click.IntRange(1),
    multiple=True,
    help="Only so many first items of the pool.  [default: all]",
)
@click.option(
    "--queries",
    type=click.IntRange(1),
    default=40,
    show_default=True,
    help="Hyperplanes of each setting, at most.",
)
@click.option("--threads", type=click.IntRange(1), default=1, show_default=True, help="Threads of BLAS.")
@click.option("--cold", is_flag=True, help="Let sessions remember nothing.")
@click.option(
    "--indexes",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder in which indexes are kept for the next time.",
)
@click.option(
    "--seed", type=click.IntRange(0), default=0, show_default=True, help="Seeds whatever is random."
)
@_json
@click.option(
    "--figure",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File for time against rank, .svg or .png.",
)
@sentences
def bench_select(
    folder: Path,
    corpus: Path | None,
    settings: tuple[str, ...],
    words: tuple[str, ...],
    sizes: tuple[int, ...],
    queries: int,
    threads: int,
    cold: bool,
    indexes: Path | None,
    seed: int,
    json_file: Path | None,
    figure: Path | None,
) -> None:
    """Compare query strategies on one pool, side by side: time, rank and |wᵀx| of what they select.

    Each is compared with the random subsample that takes as long, too. Repeat --setting, --strategy and
    --items to measure several.
    """
    from app.bench.contenders import default_words
    from app.bench.figure import check_figure, draw
    from app.bench.report import LEGEND, show_selection, write_json
    from app.bench.rounds import planes_for
    from app.bench.select import Plan, measure_selection
    from core.pool import Pool

    check_figure(figure)
    pool = Pool.open(folder)
    planes = planes_for(pool, corpus, settings, queries, seed)
    plan = Plan(
        words=words or default_words(),
        sizes=sizes or [len(pool)],
        queries=queries,
        threads=threads,
        cold=cold,
        indexes=indexes,
        seed=seed,
    )
    rows = []

    def done(found: list[dict[str, Any]]) -> None:
        rows.extend(found)
        show_selection(found)
        write_json(json_file, rows)

    measure_selection(pool, planes, plan, done)
    click.echo(f"\n{LEGEND}")
    if figure is not None:
        draw(rows, figure)


@bench.command("sessions")
@click.option("--pool", "folder", required=True, type=click.Path(path_type=Path), help="Folder of the pool.")
@click.option(
    "--planes",
    "corpus",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="Sessions that bench planes simulated on it.",
)
@click.option(
    "--sessions",
    "n_sessions",
    type=click.IntRange(1),
    default=20,
    show_default=True,
    help="Sessions at once.",
)
@click.option(
    "--rounds", type=click.IntRange(1), default=100, show_default=True, help="Selections of each session."
)
@click.option(
    "--pace",
    type=click.FloatRange(0, min_open=True),
    default=0.7,
    show_default=True,
    help="Seconds from one answer to the next.",
)
@click.option(
    "--memory",
    "modes",
    type=click.Choice(["auto", "on", "off"]),
    multiple=True,
    default=["auto"],
    show_default=True,
    help="Whether sessions remember: where selecting is slow, always, or never; repeat it to compare.",
)
@click.option(
    "--setting",
    "settings",
    multiple=True,
    help="Only the hyperplanes of this setting, or all that contain it.",
)
@click.option(
    "--strategy",
    "word",
    default="margin-index",
    show_default=True,
    help="NAME or NAME:param=value,param=value.",
)
@click.option(
    "--indexes",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder in which indexes are kept for the next time.",
)
@click.option(
    "--seed", type=click.IntRange(0), default=0, show_default=True, help="Seeds whatever is random."
)
@_json
@sentences
def bench_sessions(
    folder: Path,
    corpus: Path,
    n_sessions: int,
    rounds: int,
    pace: float,
    modes: tuple[Any, ...],
    settings: tuple[str, ...],
    word: str,
    indexes: Path | None,
    seed: int,
    json_file: Path | None,
) -> None:
    """Replay many sessions side by side at a person's pace, and say how long each selection takes.

    Sessions remember earlier hyperplanes as on the page: one pass over the pool in the background for all.
    """
    from app.bench.report import show_sessions, write_json
    from app.bench.rounds import planes_for
    from app.bench.sessions import Plan, measure_sessions
    from core.pool import Pool

    pool = Pool.open(folder)
    planes = planes_for(pool, corpus, settings, 0, seed)
    rows: list[dict[str, Any]] = []

    def done(row: dict[str, Any]) -> None:
        rows.append(row)
        show_sessions(row)
        write_json(json_file, rows)

    plan = Plan(
        word=word,
        modes=modes,
        n_sessions=n_sessions,
        n_rounds=rounds,
        pace=pace,
        indexes=indexes,
        seed=seed,
    )
    measure_sessions(pool, planes, plan, done)


@bench.command("positives")
@click.option("--pool", "folder", required=True, type=click.Path(path_type=Path), help="Folder of the pool.")
@click.option(
    "--strategy",
    "words",
    multiple=True,
    help="NAME or NAME:param=value,param=value.  [default: random, margin-index, likely-positive, mixtures]",
)
@click.option(
    "--searches",
    type=click.IntRange(1),
    default=20,
    show_default=True,
    help="Searches, each for another class while there are any.",
)
@click.option(
    "--wanted", type=click.IntRange(1), default=50, show_default=True, help="Positives to be found."
)
@click.option(
    "--most",
    type=click.IntRange(1),
    default=3_000,
    show_default=True,
    help="Answers after which a search is given up.",
)
@click.option(
    "--batch", type=click.IntRange(1), default=1, show_default=True, help="Answers to one hyperplane."
)
@click.option(
    "--share",
    type=click.FloatRange(0, 1, min_open=True),
    default=0.01,
    show_default=True,
    help="Only classes that make up at most this share of the pool.",
)
@click.option(
    "--seed", type=click.IntRange(0), default=0, show_default=True, help="Draws classes and first items."
)
@_json
@sentences
def bench_positives(
    folder: Path,
    words: tuple[str, ...],
    searches: int,
    wanted: int,
    most: int,
    batch: int,
    share: float,
    seed: int,
    json_file: Path | None,
) -> None:
    """Count the labels it takes to find positives of rare classes, by query strategy.

    The annotator is simulated, and each search begins with one item of the class and five others.
    """
    from app.bench.positives import DEFAULT_WORDS, Plan, measure_positives, show_positives
    from app.bench.report import write_json
    from core.pool import Pool

    rows: list[dict[str, Any]] = []

    def done(row: dict[str, Any]) -> None:
        rows.append(row)
        write_json(json_file, rows)

    plan = Plan(
        words=words or DEFAULT_WORDS,
        searches=searches,
        wanted=wanted,
        most=most,
        batch=batch,
        most_share=share,
        seed=seed,
    )
    measure_positives(Pool.open(folder), plan, done)
    show_positives(rows, plan)


@bench.command("ui")
@click.option("--pool", "folder", required=True, type=click.Path(path_type=Path), help="Folder of the pool.")
@click.option("--positive", help="The class that is asked for.  [default: the pool's first]")
@click.option(
    "--answers",
    "n_answers",
    type=click.IntRange(1),
    default=200,
    show_default=True,
    help="Answers of each mode.",
)
@click.option(
    "--pace",
    type=click.FloatRange(0),
    default=0.7,
    show_default=True,
    help="Seconds that the person looks at an image.",
)
@click.option("--labels", "n_labels", type=click.IntRange(0), default=0, help="Labels that are there before.")
@click.option(
    "--mode",
    "modes",
    type=click.Choice(["paced", "burst", "fallback"]),
    multiple=True,
    help="Only this one; repeat it for several.",
)
@click.option("--strategy", help="What chooses.  [default: the page's]")
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), help="Keep the projects in this folder."
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Seeds the labels before.")
@_json
@sentences
def bench_ui(
    folder: Path,
    positive: str | None,
    n_answers: int,
    pace: float,
    n_labels: int,
    modes: tuple[Any, ...],
    strategy: str | None,
    out: Path | None,
    seed: int,
    json_file: Path | None,
) -> None:
    """Label in a real browser: from a key press to the next image on the screen, and what was stored."""
    from app.bench.report import show_ui, write_json
    from app.bench.ui import MODES, Plan, measure_ui
    from core.pool import Pool

    rows: list[dict[str, Any]] = []

    def done(row: dict[str, Any]) -> None:
        rows.append(row)
        show_ui(row)
        write_json(json_file, rows)

    plan = Plan(
        positive=positive,
        modes=modes or MODES,
        n_answers=n_answers,
        pace=pace,
        n_labels=n_labels,
        strategy=strategy,
        seed=seed,
    )
    measure_ui(Pool.open(folder), plan, out, done)


@bench.command("audit")
@click.option("--pool", "folder", required=True, type=click.Path(path_type=Path), help="Folder of the pool.")
@click.option(
    "--prevalence",
    "prevalences",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    multiple=True,
    default=[0.1, 0.005],
    show_default=True,
    help="Share of the items that are a yes; repeat it for several.",
)
@click.option(
    "--sessions", type=click.IntRange(1), default=200, show_default=True, help="Sessions to simulate."
)
@click.option(
    "--items", type=click.IntRange(100), default=20_000, show_default=True, help="Items of each session."
)
@click.option("--labels", type=click.IntRange(6), default=200, show_default=True, help="Answers that train.")
@click.option(
    "--audited", type=click.IntRange(1), default=200, show_default=True, help="Answers for the audit."
)
@click.option(
    "--seed", type=click.IntRange(0), default=0, show_default=True, help="Draws items, classes and audits."
)
@_json
@sentences
def bench_audit(
    folder: Path,
    prevalences: tuple[float, ...],
    sessions: int,
    items: int,
    labels: int,
    audited: int,
    seed: int,
    json_file: Path | None,
) -> None:
    """Audit simulated sessions while they learn, and count the intervals that hold the truth.

    Each session is about items and a class of its own; the annotator is simulated.
    """
    from app.bench.audit import Plan, measure_audits, show_audits
    from app.bench.report import write_json
    from core.pool import Pool

    rows: list[dict[str, Any]] = []

    def done(found: list[dict[str, Any]]) -> None:
        rows.extend(found)
        show_audits(found)
        write_json(json_file, rows)

    plan = Plan(
        prevalences=prevalences,
        n_sessions=sessions,
        n_items=items,
        n_labels=labels,
        n_audited=audited,
        seed=seed,
    )
    measure_audits(Pool.open(folder), plan, done)


@bench.command("stopping")
@click.option(
    "--pool",
    "folders",
    required=True,
    type=click.Path(path_type=Path),
    multiple=True,
    help="Folder of a pool; repeat it for several.",
)
@click.option(
    "--sessions",
    type=click.IntRange(1),
    default=10,
    show_default=True,
    help="Sessions to simulate on each pool, each for another class while there are any.",
)
@click.option(
    "--items", type=click.IntRange(100), default=20_000, show_default=True, help="Items of each session."
)
@click.option(
    "--labels", type=click.IntRange(6), default=3_000, show_default=True, help="Answers of each session."
)
@click.option(
    "--batch", type=click.IntRange(1), default=5, show_default=True, help="Answers to one hyperplane."
)
@click.option(
    "--enough",
    type=click.FloatRange(0, 1),
    help="Agreement at which the advice is to stop.  [default: as on the page]",
)
@click.option(
    "--seed", type=click.IntRange(0), default=0, show_default=True, help="Draws items, classes and labels."
)
@_json
@sentences
def bench_stopping(
    folders: tuple[Path, ...],
    sessions: int,
    items: int,
    labels: int,
    batch: int,
    enough: float | None,
    seed: int,
    json_file: Path | None,
) -> None:
    """Go on labeling after the advice to stop, and say what following it would have cost and saved.

    The annotator is simulated; the cost is in points of AUROC on items that were never asked about.
    """
    from app.bench.report import write_json
    from app.bench.stopping import Plan, measure_stopping, show_stopping
    from core.pool import Pool
    from core.stopping import ENOUGH

    plan = Plan(
        n_sessions=sessions,
        n_items=items,
        n_labels=labels,
        batch=batch,
        enough=ENOUGH if enough is None else enough,
        seed=seed,
    )
    rows: list[dict[str, Any]] = []
    for folder in folders:
        rows.append(measure_stopping(Pool.open(folder), plan))
        show_stopping(rows[-1])
        write_json(json_file, rows)
