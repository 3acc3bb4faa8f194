"""The command ``closecall compare``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from closecall.app.experiments.bench.commands.options import json_option
from closecall.app.experiments.compare.similar.command import compare_similar
from closecall.app.runtime.interruption import RESUMES, if_stopped

QUICK = {"runs": 2, "iterations": 200, "classes": 10}
"""Default sizes with --quick. The number of classes is a maximum."""

FULL = {"runs": 5, "iterations": 300}
"""Default sizes without --quick, as in the H-Hash paper."""


class WithOthers(click.Command):
    """A command that has both its own options and subcommands.

    If the first argument is the name of a subcommand, that subcommand runs instead of the command.

    Parameters
    ----------
    others : sequence of click.Command
        The subcommands. All other parameters are those of `click.Command`.
    """

    def __init__(self, *args: Any, others: Sequence[click.Command] = (), **words: Any) -> None:
        super().__init__(*args, **words)
        self.others = {str(other.name): other for other in others}

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """See `click.Command.make_context`; returns the context of the subcommand if there is one."""
        if args and args[0] in self.others:
            return self.others[args[0]].make_context(f"{info_name} {args[0]}", args[1:], parent, **extra)
        return super().make_context(info_name, args, parent, **extra)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """See `click.Command.format_options`; lists the subcommands after the options."""
        super().format_options(ctx, formatter)
        with formatter.section("Commands"):
            formatter.write_dl([(name, other.get_short_help_str(60)) for name, other in self.others.items()])


@click.command("features")
@click.argument("outs", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--after",
    "numbers",
    multiple=True,
    type=click.IntRange(1),
    help="Number of labels after which the accuracy is compared; may be repeated.  [default: 50, 100, 300]",
)
@json_option
def compare_features(outs: tuple[Path, ...], numbers: tuple[int, ...], json_file: Path | None) -> None:
    """Compare the accuracy on different features of the same images.

    OUTS are folders of finished comparisons, made with the same classes, runs and seed on pools of the same
    images. Their races begin with the same labels, and differences are taken race by race.
    """
    from closecall.app.experiments.compare.accuracy import AFTER
    from closecall.app.experiments.compare.features import compare_features as compare_them

    if len(outs) < 2:
        raise click.UsageError("give the folders of at least two comparisons")
    compare_them(outs, numbers or AFTER, json_file)


@click.command("until")
@click.argument("outs", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--base", default="random", show_default=True, help="Strategy or peer that the others are compared with."
)
@click.option(
    "--label-seconds",
    type=click.FloatRange(0, min_open=True),
    help="Count seconds of selection (processor time) and labeling instead of labels, with this assumed "
    "time per label.",
)
@json_option
def compare_until(
    outs: tuple[Path, ...], base: str, label_seconds: float | None, json_file: Path | None
) -> None:
    """Count the labels that strategies need until targets are reached.

    OUTS are folders of finished comparisons. Targets are shares of the accuracy under full supervision, a
    recall, and a number of positives. A race that ends before a target counts as censored.
    """
    from closecall.app.experiments.compare.until.report import labels_until

    labels_until(outs, base, label_seconds, json_file)


@click.command("compare", cls=WithOthers, others=[compare_similar, compare_features, compare_until])
@click.option(
    "--pool",
    "folder",
    type=click.Path(path_type=Path),
    help="Folder of the pool, its truth known.  [default: 50,000 digits, drawn on demand]",
)
@click.option(
    "--out",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of the results; an interrupted comparison is continued.",
)
@click.option("--quick", is_flag=True, help="2 runs of 200 iterations, of 10 classes at most.")
@click.option("--classes", multiple=True, help="Only these classes, by name.  [default: all]")
@click.option("--runs", type=click.IntRange(1), help="Repetitions of each class.  [default: 5]")
@click.option(
    "--iterations", type=click.IntRange(1), help="Labels that each strategy chooses.  [default: 300]"
)
@click.option(
    "--strategy",
    "strategies",
    multiple=True,
    help="NAME or NAME:param=value,param=value.  [default: the paper's as published and weighted, baselines, "
    "margin-index and auto]",
)
@click.option(
    "--peer",
    "peers",
    multiple=True,
    help="Uncertainty sampling of another library: scikit-activeml, small-text or modal (the extra peers).",
)
@click.option("--first", type=click.IntRange(1), default=5, show_default=True, help="First labels per class.")
@click.option(
    "--C",
    "C",
    type=click.FloatRange(0, min_open=True),
    default=10.0,
    show_default=True,
    help="Cost of a margin violation of 1 in the SVM; by default, as on the pages.",
)
@click.option(
    "--class-weight",
    type=click.Choice(["none", "balanced"]),
    default="none",
    show_default=True,
    help="Whether the yes and the no labels have the same total weight.",
)
@click.option(
    "--noise",
    type=click.FloatRange(0, 1),
    default=0.0,
    show_default=True,
    help="Probability of a wrong answer; the same for an item in every lane.",
)
@click.option(
    "--prevalence",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    help="Share of positives: hides items of the class, or adds classes to it.  [default: as in the pool]",
)
@click.option(
    "--limit",
    type=click.FloatRange(0, min_open=True),
    default=20.0,
    show_default=True,
    help="Seconds; a strategy that takes longer to select one item is out.",
)
@click.option(
    "--label-seconds",
    type=click.FloatRange(0),
    help="What a label costs the annotator, for figures over time.  [default: 5, for documents 1]",
)
@click.option(
    "--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed of everything random."
)
@click.option("--workers", type=click.IntRange(1), help="Processes.  [default: one per core]")
@if_stopped(RESUMES)
def compare(
    folder: Path | None,
    out: Path,
    quick: bool,
    classes: tuple[str, ...],
    runs: int | None,
    iterations: int | None,
    strategies: tuple[str, ...],
    peers: tuple[str, ...],
    label_seconds: float | None,
    workers: int | None,
    **words: Any,
) -> None:
    """Race query strategies on a pool of known truth, with a simulated annotator, as in the H-Hash paper.

    If interrupted, run the same command again to continue. Results do not depend on the number of workers;
    times do.
    """
    from closecall.app.experiments.compare.comparison import run_comparison
    from closecall.app.runtime.extras import load

    load("matplotlib", "reports")
    sizes = QUICK if quick else FULL
    run_comparison(
        folder,
        out,
        n_workers=workers,
        label_seconds=label_seconds,
        classes=classes,
        most_classes=QUICK["classes"] if quick else None,
        runs=runs or sizes["runs"],
        iterations=iterations or sizes["iterations"],
        strategies=strategies,
        peers=peers,
        class_weight="balanced" if words.pop("class_weight") == "balanced" else None,
        **words,
    )
