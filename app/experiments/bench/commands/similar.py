"""The command ``closecall bench similar``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from closecall.app.experiments.bench.commands.options import json_option, pool_option

if TYPE_CHECKING:
    from closecall.core.similar.index import StructureName

BITS = (8, 12, 16, 24, 32, 48)
"""Lengths of code at which precision is measured, as in the papers."""


@click.command("similar")
@pool_option
@click.option(
    "--what",
    type=click.Choice(["kernels", "neighbours", "survey", "precision", "speed"]),
    default="kernels",
    show_default=True,
    help="Kernelized LSH, neighbours by a learned metric, neighbours by all families, precision by class, "
    "or the time of search structures.",
)
@click.option(
    "--kernel",
    "kernels",
    multiple=True,
    default=("chi2", "intersection"),
    show_default=True,
    help="Cosine, chi2, intersection or rbf:gamma=NUMBER; survey and precision take the first.",
)
@click.option(
    "--draws",
    type=click.IntRange(1),
    default=3,
    show_default=True,
    help="How often landmarks or labels, and random vectors, are drawn.",
)
@click.option(
    "--queries",
    type=click.IntRange(1),
    default=1_000,
    show_default=True,
    help="Held-out items to search for, and as many others to choose parameters by.",
)
@click.option(
    "--share",
    type=click.FloatRange(0, 1, min_open=True),
    default=1e-4,
    show_default=True,
    help="Of kernels and the survey: R of recall@R, as a share of the pool.",
)
@click.option(
    "--landmarks",
    type=click.IntRange(100),
    default=1_000,
    show_default=True,
    help="Of all but neighbours: items whose kernel values make a code.",
)
@click.option(
    "--labels",
    type=click.IntRange(2),
    default=2_000,
    show_default=True,
    help="Of neighbours and precision: items whose classes are learned from.",
)
@click.option(
    "--nearest",
    type=click.IntRange(1),
    default=10,
    show_default=True,
    help="Of neighbours: how many vote.",
)
@click.option(
    "--searched",
    type=click.FloatRange(0, 1, min_open=True),
    multiple=True,
    default=(0.02, 0.05),
    show_default=True,
    help="Of neighbours: shares of the pool that hashing searches.",
)
@click.option(
    "--structure",
    "structures",
    type=click.Choice(["table", "tables", "orders", "scan"]),
    multiple=True,
    default=("tables",),
    show_default=True,
    help="Of neighbours: what hashing searches through; scan compares all codes.",
)
@click.option(
    "--family",
    "families",
    multiple=True,
    help="Of survey and precision: only these hash families; of speed the one.  [default: all; lsh]",
)
@click.option(
    "--wanted",
    type=click.IntRange(1),
    default=50,
    show_default=True,
    help="Of survey: how many true neighbours are to be found.",
)
@click.option(
    "--retrieved",
    type=click.IntRange(1),
    multiple=True,
    default=(10, 500),
    show_default=True,
    help="Of precision: among how many first items.",
)
@click.option(
    "--sample",
    type=click.IntRange(2),
    default=20_000,
    show_default=True,
    help="Of precision: items that families are fitted to.",
)
@click.option(
    "--bits",
    multiple=True,
    type=click.IntRange(1, 4096),
    help="Bits of a code; of survey, of the longest, after 8, 16, 32 and so on; several for precision.  "
    "[default: 256; 8, 12, 16, 24, 32 and 48 for precision]",
)
@click.option(
    "--items",
    "sizes",
    multiple=True,
    type=click.IntRange(1),
    help="Of speed: the first so many items of the pool.  [default: all]",
)
@click.option(
    "--peer",
    "peers",
    multiple=True,
    help="Of speed: an index of faiss beside ours, faiss-flat, faiss-ivf or faiss-hnsw (the extra peers).",
)
@json_option
def bench_similar(
    folder: Path,
    what: str,
    kernels: tuple[str, ...],
    draws: int,
    queries: int,
    share: float,
    landmarks: int,
    labels: int,
    nearest: int,
    searched: tuple[float, ...],
    structures: tuple[StructureName, ...],
    families: tuple[str, ...],
    wanted: int,
    retrieved: tuple[int, ...],
    sample: int,
    bits: tuple[int, ...],
    sizes: tuple[int, ...],
    peers: tuple[str, ...],
    json_file: Path | None,
) -> None:
    """Measure how well binary codes find what is similar: the papers' figures on this pool.

    kernels: how often kernelized LSH finds the nearest item by a kernel, in its original form, with few
    principal components, and with a transformed kernel: table 1 of "Revisiting Kernelized Locality-Sensitive
    Hashing".

    neighbours: how often the nearest items tell the class of another, by the original and by a learned
    metric, where all items are scanned, and where hashing searches a few per cent: figures 1 and 2 of "Fast
    Similarity Search for Learned Metrics". Texts are compared as sets of words, too, by Min-Hash.

    survey: which share of the true neighbours the codes of each hash family find, by how many bits, and among
    how many items retrieved: figures 11 and 15 of "Learning Binary Hash Codes for Large-Scale Image Search".

    precision: how many of the items that codes retrieve are of the query's class, by hash family and length
    of code, where few classes are known to learn from: as in "Supervised Hashing with Kernels".

    speed: how long the nearest ten take by a scan of the codes, tables, permuted orders and semantic hashing,
    against the exact scan, and how many of the ten are found; with --peer by faiss, too.
    """
    from closecall.app.experiments.bench import neighbours, precision, similar, speed, survey
    from closecall.app.experiments.bench.report import write_json
    from closecall.core.errors import InputError
    from closecall.core.experiment.families import families_named
    from closecall.core.pool.pool import Pool

    rows: list[dict[str, Any]] = []

    def done(row: dict[str, Any]) -> None:
        rows.append(row)
        write_json(json_file, rows)

    if what != "precision" and len(bits) > 1:
        raise InputError(
            f"one number of bits is measured for {what}, got {', '.join(map(str, bits))}: "
            f"several are for --what precision"
        )
    if what == "speed" and len(families) > 1:
        raise InputError(f"one family is measured for speed, got {', '.join(families)}")
    families = families_named(families)
    length = bits[0] if bits else 256
    pool = Pool.open(folder)
    if what == "kernels":
        of_kernels = similar.Plan(kernels, draws, queries, share, landmarks, length)
        similar.measure_kernelized(pool, of_kernels, done)
        similar.show_kernelized(rows, of_kernels)
    elif what == "survey":
        of_codes = survey.Plan(families, draws, queries, wanted, length, kernels[0], landmarks, share)
        refused = survey.measure_survey(pool, of_codes, done)
        survey.show_survey(rows, refused, of_codes)
    elif what == "neighbours":
        plan = neighbours.Plan(draws, queries, nearest, labels, searched, length, structures)
        neighbours.measure_neighbours(pool, plan, done)
        neighbours.show_neighbours(rows, plan)
    elif what == "speed":
        of_structures = speed.Plan(families[0], draws, queries, length, sizes, peers)
        speed.measure_speed(pool, of_structures, done)
        speed.show_speed(rows, of_structures)
    else:
        of_classes = precision.Plan(
            families=families,
            draws=draws,
            n_queries=queries,
            bits=sorted(set(bits or BITS)),
            retrieved=sorted(set(retrieved)),
            n_labels=labels,
            n_sample=sample,
            kernel=kernels[0],
            n_landmarks=landmarks,
        )
        refused = precision.measure_precision(pool, of_classes, done)
        precision.show_precision(rows, refused, of_classes)
