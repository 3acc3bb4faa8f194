"""Commands to build and inspect pools, the group ``closecall pool``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from closecall.app.runtime.interruption import RESUMES, if_stopped
from closecall.core.errors import InputError

if TYPE_CHECKING:
    from closecall.core.pool.build_size import FeatureType

provider_option = click.option(
    "--provider",
    metavar="NAME",
    help="What runs the image model: cpu, cuda, coreml, openvino or directml.  [default: cpu; "
    "for a pool that is continued, its own]",
)

dtype_option = click.option(
    "--dtype",
    type=click.Choice(["float32", "float16", "byte"]),
    help="How features are stored: float16 takes half the disk space, byte less than a third.  [default: "
    "float32; for a pool that is continued, its own]",
)


@click.group()
def pool() -> None:
    """Build and inspect pools."""


@pool.command("build")
@click.argument("source")
@click.option(
    "--out",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of the pool; an interrupted build is continued.",
)
@click.option("--threads", type=click.IntRange(1), help="Threads to use.  [default: all cores]")
@dtype_option
@click.option("--no-classes", is_flag=True, help="Don't take class subfolders as truth: nothing is held out.")
@provider_option
@click.option("--quiet", is_flag=True, help="Print nothing but errors.")
@click.option("--wait", is_flag=True, help="Wait while another process builds the pool.")
@if_stopped(RESUMES)
def build_pool(
    source: str,
    out: Path,
    threads: int | None,
    dtype: FeatureType | None,
    no_classes: bool,
    provider: str | None,
    quiet: bool,
    wait: bool,
) -> None:
    """Build a pool from SOURCE, or continue one that was interrupted.

    \b
    SOURCE is one of
      digits[:N]              N handwritten digits drawn on demand (default 1,000,000)
      FOLDER                  a folder of images; class subfolders become the truth
      tar:PATH                images in tar archives: an archive, a folder of them, or a pattern
      images:FILE[,IMAGE,CLASS]
                              images in Parquet or Arrow files, and the columns of images and classes
      https://…, s3://…       images on an HTTP server or in object storage (also gs:// and az://)
      urls:FILE[,ADDRESS,CLASS]
                              images at addresses in a list (.txt, .csv, .jsonl, .parquet), and its columns
      video:[RATE:]PATH       frames of videos, RATE a second (default 1): a file, a folder, or a pattern
      cifar10:PATH            CIFAR-10, official binary version (archive or folder)
      tiny:[N:]PATH           the Tiny Images' binary file, or its first N images
      newsgroups:PATH         20 Newsgroups by date (archive or folder)
      texts:FOLDER            a folder of text files; class subfolders become the truth
      texts:FILE[,TEXT,CLASS] a table of texts (.csv, .jsonl, .parquet), and its columns
      arrays:FEATURES,IMAGES  your embeddings (.npy, .parquet, .fvecs, .bvecs) and a folder or list of images
      vectors:FILE[,CLASSES]  vectors without images, in the same formats, and one class per vector
      vectors:FILE,QUERIES    vectors, and queries to hold out (.fvecs, .bvecs), such as SIFT1M
      points:FILE[,CLASSES]   sets of points (.npz), such as local features, and one class per set
      enlarged:N:SOURCE       images of SOURCE (not arrays:) and altered copies, N items per image
      variants:N:POOL         the items of POOL and variants of their features, N items in all, for tests
      edges:SOURCE            images of SOURCE (not arrays:), by edge histograms instead of GIST
      sets:SOURCE             images of SOURCE (not arrays:), each as a set of local features
      onnx:MODEL:SOURCE       images of SOURCE (not arrays:), by your own model (an .onnx file, or a folder)
    """  # noqa: D301 (click wants the backspace itself)
    from closecall.app.display.pool_output import show_build
    from closecall.core.sources import source_from

    images = source_from(source, use_classes=not no_classes, provider=provider)
    show_build(images, out, threads=threads, dtype=dtype, quiet=quiet, wait=wait)


@pool.command("info")
@click.argument("pool", type=click.Path(path_type=Path))
@click.option("--check", is_flag=True, help="Read every file and compare its checksum.")
def pool_info(pool: Path, check: bool) -> None:
    """Show the contents of POOL and the files that could not be read."""
    from closecall.app.display.pool_output import show_pool

    show_pool(pool, check=check)


@pool.command("find")
@click.argument("pool", type=click.Path(path_type=Path))
@click.argument("descriptions", nargs=-1, required=True)
@click.option("--not", "excluded", multiple=True, metavar="TEXT", help="What the images should not show.")
@click.option("-n", default=24, show_default=True, type=click.IntRange(1), help="Number of images.")
@click.option(
    "--template",
    "templates",
    multiple=True,
    metavar="TEXT",
    help='Sentence with {} in place of the description.  [default: {} alone, "a photo of {}." and 6 others]',
)
def find_in_pool(
    pool: Path, descriptions: tuple[str, ...], excluded: tuple[str, ...], n: int, templates: tuple[str, ...]
) -> None:
    """List the images of POOL that match DESCRIPTIONS best, the best first, with their similarity (cosine).

    DESCRIPTIONS are texts that describe what to find, such as "a fox at night". Several texts are averaged.
    POOL needs features from a model that also reads texts, such as CLIP.
    """
    from closecall.app.display.pool_output import show_found
    from closecall.core.similar.description import TEMPLATES, Description

    show_found(pool, Description(descriptions, excluded, templates or TEMPLATES), n)


@pool.command("map")
@click.argument("pool", type=click.Path(path_type=Path))
@click.option("--quiet", is_flag=True, help="Print nothing but errors.")
@if_stopped(RESUMES)
def map_pool(pool: Path, quiet: bool) -> None:
    """Place the items of POOL on a map, with similar items near each other; continue an interrupted map."""
    from closecall.app.display.pool_output import show_map

    show_map(pool, quiet=quiet)


@pool.command("duplicates")
@click.argument("pool", type=click.Path(path_type=Path))
@click.option(
    "--bursts",
    is_flag=True,
    help="Find bursts: photographs of a folder that follow each other by time or name and look alike.",
)
@click.option(
    "--angle",
    "degrees",
    type=click.FloatRange(0, 180),
    metavar="DEGREES",
    help="Largest angle between an item and the first of its group; with --bursts, twice the largest angle "
    "between successive photographs.  [default: the angle of the last run; "
    "in the first, a share of the usual angle between two items]",
)
@click.option(
    "--gap",
    type=click.FloatRange(0),
    metavar="SECONDS",
    help="With --bursts: longest time between two photographs that follow each other.  [default: the gap of "
    "the last run; in the first, 10]",
)
@click.option(
    "--check",
    is_flag=True,
    help="Also list held-out items that share a group with other items. If there are any, exit with code 1.",
)
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="CSV file for the items of all groups.",
)
def pool_duplicates(
    pool: Path, bursts: bool, degrees: float | None, gap: float | None, check: bool, out: Path | None
) -> None:
    """Find near-duplicates in POOL, save them in its folder, and print the largest groups.

    Accuracy is then measured without held-out items that share a group with other items. When POOL has grown,
    run the command again. Near-duplicates are then sought only for the new items.
    """
    from closecall.app.display.duplicate_output import show_duplicates

    if gap is not None and not bursts:
        raise InputError("--gap needs --bursts: near-duplicates are found without times")
    kind: Literal["near", "bursts"] = "bursts" if bursts else "near"
    crossing = show_duplicates(pool, kind=kind, degrees=degrees, gap=gap, check=check, out=out)
    sys.exit(1 if crossing else 0)
