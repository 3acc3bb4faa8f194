"""The command ``closecall bench similar``."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from closecall.app.experiments.bench.commands.options import json_option

if TYPE_CHECKING:
    from closecall.app.experiments.bench.similar import Figure, Rectangles


@click.command("similar")
@click.option(
    "--pool", "folder", type=click.Path(path_type=Path), help="Folder of the pool; rectangles needs none."
)
@click.option(
    "--what",
    type=click.Choice(
        ["kernels", "sweeps", "coverage", "neighbours", "survey", "precision", "speed", "rectangles"]
    ),
    default="kernels",
    show_default=True,
    help="Kernelized LSH, the same by each of its parameters, the same against a scan, neighbours by a "
    "learned metric, neighbours by all families, precision by class, the time of search structures, or codes "
    "of points in rectangles.",
)
@click.option(
    "--kernel",
    "kernels",
    multiple=True,
    help="For kernels, sweeps, coverage, survey and precision: cosine, chi2, intersection or "
    "rbf:gamma=NUMBER; coverage, survey and precision take the first.  [default: chi2 and intersection; "
    "cosine if the pool has negative features]",
)
@click.option(
    "--draws",
    type=click.IntRange(1),
    default=3,
    show_default=True,
    help="How often to draw landmarks or labels, and random vectors.",
)
@click.option(
    "--queries",
    type=click.IntRange(1),
    default=1_000,
    show_default=True,
    help="Held-out items to search for, and as many others to choose parameters by; random points for "
    "rectangles.",
)
@click.option(
    "--share",
    type=click.FloatRange(0, 1, min_open=True),
    default=1e-4,
    show_default=True,
    help="For kernels, sweeps, coverage and survey: R of recall@R, as a share of the pool.",
)
@click.option(
    "--landmarks",
    type=click.IntRange(100),
    default=1_000,
    show_default=True,
    help="For kernels, sweeps, coverage, survey and precision: items whose kernel values make a code.",
)
@click.option(
    "--rank",
    "ranks",
    multiple=True,
    type=click.IntRange(1),
    help="For sweeps: principal components, r; repeat it.  [default: 16, 32, 64, 128, 256 and 512, below the "
    "number of landmarks]",
)
@click.option(
    "--scale",
    "scales",
    multiple=True,
    type=click.FloatRange(0, min_open=True),
    help="For sweeps: scales of the transformed kernel, s; repeat it.  [default: 1, 3, 5, 7 and 9]",
)
@click.option(
    "--sampled",
    "sampled",
    multiple=True,
    type=click.IntRange(1),
    help="For sweeps: landmarks in the sum that makes a bit, t; repeat it.  [default: 1, 3, 10, 30, 50, 100 "
    "and 300, below the number of landmarks]",
)
@click.option(
    "--figures",
    type=click.Path(file_okay=False, path_type=Path),
    help="For sweeps, coverage, neighbours, precision, speed and rectangles: folder for the figures as SVG "
    "and PNG, and for their points as CSV (the extra reports).",
)
@click.option(
    "--labels",
    multiple=True,
    type=click.IntRange(2),
    help="For neighbours and precision: items to learn classes from; repeat it with --figures, where the "
    "first number is kept while other parameters vary.  [default: 2000; with --figures also 200, 500, 1000 "
    "and 5000 for neighbours, and 1000, 2000, 5000, 10000 and 20000 for precision, up to those of known "
    "class]",
)
@click.option(
    "--epsilon",
    "epsilons",
    multiple=True,
    type=click.FloatRange(0, min_open=True),
    help="For coverage, and for neighbours with --figures: ε, by which hashing searches 2M entries of M = "
    "2N^(1/(1+ε)) sorted orders; repeat it, the first is kept where ε doesn't vary.  [default: 1.5, 0.5, "
    "0.75, 1, 2, 3]",
)
@click.option(
    "--nearest",
    type=click.IntRange(1),
    default=10,
    show_default=True,
    help="For coverage and neighbours: number of neighbours that vote.",
)
@click.option(
    "--searched",
    type=click.FloatRange(0, 1, min_open=True),
    multiple=True,
    help="For neighbours without --figures: shares of the pool that hashing searches.  [default: 0.02 and "
    "0.05]",
)
@click.option(
    "--structure",
    "structures",
    type=click.Choice(["table", "tables", "orders", "scan"]),
    multiple=True,
    help="For neighbours without --figures: structures that hashing searches through; scan compares all "
    "codes.  [default: tables]",
)
@click.option(
    "--family",
    "families",
    multiple=True,
    help="For survey and precision: only these hash families; for speed: the family.  [default: all; for "
    "precision with --figures lsh, klsh, metric-lsh, ksh and ksh-learned; for speed lsh]",
)
@click.option(
    "--wanted",
    type=click.IntRange(1),
    default=50,
    show_default=True,
    help="For survey and rectangles: number of true neighbours to find.",
)
@click.option(
    "--retrieved",
    type=click.IntRange(1),
    multiple=True,
    default=(10, 500),
    show_default=True,
    help="For precision: numbers of first items.",
)
@click.option(
    "--sample",
    type=click.IntRange(2),
    default=20_000,
    show_default=True,
    help="For precision: items to fit families to.",
)
@click.option(
    "--bits",
    multiple=True,
    type=click.IntRange(1, 4096),
    help="Bits per code; for survey, of the longest after 8, 16, 32 and so on; repeat it for precision and "
    "rectangles, and for neighbours with --figures.  [default: 256; 8, 12, 16, 24, 32 and 48 for precision; "
    "4, 8, 16, 24 and 32 for rectangles; 16, 32, 64, 128 and 256 for neighbours with --figures]",
)
@click.option(
    "--items",
    "sizes",
    multiple=True,
    type=click.IntRange(1),
    help="For speed: only the first items of the pool; repeat it for several sizes.  [default: all]",
)
@click.option(
    "--peer",
    "peers",
    multiple=True,
    help="For speed: an index of faiss to time beside ours, faiss-flat, faiss-ivf or faiss-hnsw (the extra "
    "peers).",
)
@click.option(
    "--radius",
    "radii",
    multiple=True,
    type=click.IntRange(0, 32),
    help="For speed: radii of Hamming balls to time, in bits; repeat it.  [default: 0, 1, 2, 3 and 4 with "
    "--figures, else none]",
)
@click.option(
    "--aspect",
    "aspects",
    multiple=True,
    type=click.FloatRange(1),
    help="For rectangles: ratio of a rectangle's edges; repeat it for several.  [default: 1, 2 and 4]",
)
@json_option
@click.pass_context
def bench_similar(
    context: click.Context, /, folder: Path | None, what: str, json_file: Path | None, **words: Any
) -> None:
    """Measure how well binary codes find similar items, by reproducing figures of papers on this pool.

    kernels: how often kernelized LSH finds the nearest item by a kernel, in its original form, with few
    principal components, and with a transformed kernel: table 1 of "Revisiting Kernelized Locality-Sensitive
    Hashing".

    sweeps: recall of kernelized LSH and of Nyström's method by rank, scale and number of sampled landmarks,
    and the eigenvalues of the kernel by scale: figures 1 to 3 of the same paper, which --figures draws.

    coverage: the share of the items found by kernelized LSH that are also among the first items of a scan by
    the kernel, and how often the nearest items vote for the right class, by ε: figure 16 of "Learning Binary
    Hash Codes for Large-Scale Image Search", the survey. The baseline is the scan.

    neighbours: how often the nearest items vote for the right class, by the original and by a learned metric,
    with a scan of all items and with hashing, which searches a few per cent. Texts are compared as sets of
    words, too, by Min-Hash. --figures draws these shares by bits, labels and ε: figures 1 and 2 of "Fast
    Similarity Search for Learned Metrics", and in pools of sets figure 9 of the survey. The baseline is the
    original metric with a scan.

    survey: the share of the true neighbours that the codes of each hash family find, by bits and by items
    retrieved: figures 11 and 15 of the survey.

    precision: how many of the retrieved items have the query's class, by hash family and length of code,
    where few labels are known: as in "Supervised Hashing with Kernels". --figures draws this by bits and by
    labels, and adds the times of training and coding: figures 5 and 6 and table 1 of "Supervised Hashing with
    Learned Metric". The baseline is KSH.

    speed: how many of the ten nearest items are found by a scan of the codes, tables, permuted orders and
    semantic hashing, and how long each takes, compared with the exact scan. --peer adds faiss. --radius adds
    the time and the items of Hamming balls of fixed radius. --figures draws figures 2 and 4 of the survey.

    rectangles: how well codes by LSH, boosting, RBM and spectral hashing keep the neighbours of uniform
    points in rectangles and in ten dimensions, without a pool. --figures draws figures 12 to 14 of the
    survey: eigenfunctions, precision, and Hamming balls in the plane.
    """
    from closecall.app.experiments.bench.experiment import record, run
    from closecall.app.experiments.bench.similar import FIGURES, SWEEPS, Rectangles

    swept = words["figures"] is not None and what in SWEEPS
    figure: type[Figure] | type[Rectangles] = SWEEPS[what] if swept else FIGURES[what]
    every = {name: _options(own) | _options(SWEEPS.get(name, own)) for name, own in FIGURES.items()}
    _check_use(context, what, every, _options(figure))
    made = figure(**{name: words[name] for name in _options(figure) & words.keys()})
    if isinstance(made, Rectangles):
        record(made, made.boxes, json_file)
    elif folder is None:
        raise click.MissingParameter(ctx=context, param_hint="'--pool'", param_type="option")
    else:
        run(made, [folder], json_file)


def _options(figure: type[Figure] | type[Rectangles]) -> set[str]:
    """Return the options of the measurement `figure`: its fields, and "folder" if it needs a pool."""
    from closecall.app.experiments.bench.similar import Rectangles

    own = {field.name for field in fields(figure)}
    return own if issubclass(figure, Rectangles) else own | {"folder"}


def _check_use(context: click.Context, what: str, every: dict[str, set[str]], taken: set[str]) -> None:
    """Raise InputError if the user gave an option that does not apply.

    Parameters
    ----------
    context : click.Context
        Context of the command.
    what : str
        Value of ``--what``.
    every : dict of set of str
        For each value of ``--what``, all options that it takes, with or without ``--figures``.
    taken : set of str
        The options that `what` takes, depending on whether ``--figures`` is given.
    """
    from closecall.core.errors import InputError

    for option in context.command.params:
        users = [figure for figure, own in every.items() if option.name in own]
        given = context.get_parameter_source(str(option.name)) is not ParameterSource.DEFAULT
        if not given or not users:
            continue
        if what not in users:
            several = " and ".join(filter(None, [", ".join(users[:-1]), users[-1]]))
            raise InputError(f"{option.opts[0]} is for --what {several}, not for {what}")
        if option.name not in taken:
            how = "without" if "figures" in taken else "with"
            raise InputError(f"{option.opts[0]} is for --what {what} {how} --figures")
