"""Labels out of a project: tables, Label Studio's tasks, and a folder of files by class."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click

from app.exchange.folders import export_folder
from app.exchange.opened import concept_named, names_of, open_labels, written_whole
from app.project_file import ProjectFile
from core.errors import InputError
from core.pool import Pool
from core.sources.texts import Texts
from storage import Concepts, Database, export
from storage.label_studio import labeling_config

FOLDER = "folder"


def export_labels(
    project: Path, *, form: str, concept: str | None, log: bool, out: Path | None, image_url: str
) -> None:
    """Write a project's labels to `out`, in one step, or to stdout."""
    file = ProjectFile.read(project)
    if out is None and form in (FOLDER, "parquet"):
        raise InputError(f"--format {form} needs --out: it can't be written to the terminal")
    if log and form in (FOLDER, "label-studio"):
        raise InputError(f"--format {form} holds labels, no log: use csv, jsonl or parquet with --log")
    with open_labels(project) as database:
        its = concept_named(database, concept)
        if form == FOLDER:
            assert out is not None
            copied = export_folder(database, Pool.open(file.pool_path(project)), its, out)
            click.echo(f"{sum(copied.values()):,} files in {out}: {_counts(copied)}")
            return
        pool = _pool(file.pool_path(project))
        options: dict[str, Any] = {
            "format": form,
            "concept_id": its.id if its else None,
            "log": log,
            "names_of": None if pool is None else lambda items: names_of(pool, items),
            "data_of": None if pool is None else _shows(pool, image_url),
        }
        if out is None:
            export(database, sys.stdout, **options)
            return
        with written_whole(out, binary=form == "parquet") as stream:
            rows = export(database, stream, **options)
        click.echo(f"{rows:,} {'tasks' if form == 'label-studio' else 'rows'} in {out}")
        if form == "label-studio":
            click.echo(
                f"Label Studio's labeling interface for it is in {_write_config(database, its, pool, out)}"
            )


def _counts(copied: dict[str, int]) -> str:
    return ", ".join(f"{name} {n:,}" for name, n in sorted(copied.items())) or "nothing is labeled yes or no"


def _pool(path: Path) -> Pool | None:
    """The pool, to tell names by; None where it can't be opened: labels go out without names, then."""
    try:
        pool = Pool.open(path)
        pool.source  # noqa: B018 (opens the images' folder)
    except InputError as error:
        click.echo(f"Warning: item names are left out, since the pool can't be read: {error}", err=True)
        return None
    return pool


def _shows(pool: Pool, image_url: str) -> Callable[[Sequence[int]], list[dict[str, Any]]]:
    """What Label Studio's tasks show of items."""
    source = pool.source

    def shown(items: Sequence[int]) -> list[dict[str, Any]]:
        names = names_of(pool, items)
        if isinstance(source, Texts):
            return [{"text": source.text(i), "name": name} for i, name in zip(items, names, strict=True)]
        return [{"image": image_url + quote(name), "name": name} for name in names]

    return shown


def _write_config(database: Database, concept: Any, pool: Pool | None, out: Path) -> Path:
    concepts = [concept] if concept else Concepts(database).all()
    is_text = pool is not None and isinstance(pool.source, Texts)
    config = out.with_name(f"{out.stem}-interface.xml")
    with written_whole(config) as stream:
        stream.write(labeling_config([(its.name, its.question) for its in concepts], is_text=is_text))
    return config
