"""Export labels as tables, Label Studio tasks or folders of classes, and export predictions."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import click

from closecall.app.display.phrases import counted
from closecall.app.exchange.class_folders import export_folder
from closecall.app.exchange.label_studio_tasks import (
    Wishes,
    concepts_of,
    content_of,
    interface,
    say_what_is_left_out,
    tell_how_images_are_served,
)
from closecall.app.exchange.offline_project import (
    concept_named,
    names_of,
    open_labels,
    require_absent,
    require_csv,
    written_whole,
)
from closecall.app.projects.config import ProjectFile
from closecall.core.errors import InputError
from closecall.core.pool.pool import Pool
from closecall.storage import ConceptRecord, Database, export
from closecall.storage.exports import NamesOf, export_predictions
from closecall.storage.predictions import ModelRecord, Predictions
from closecall.storage.tabular import TableFormat, shown

FOLDER, LABEL_STUDIO = "folder", "label-studio"


@dataclass(frozen=True)
class Task:
    """Options of an export to Label Studio; see `label_studio_tasks.Wishes`."""

    image_url: str | None = None
    model: str | None = None
    classifier: bool = False
    unlabeled: int = 0


def export_labels(
    project: Path,
    *,
    form: str,
    concept: str | None,
    log: bool,
    out: Path | None,
    task: Task | None = None,
    bom: bool = False,
    force: bool = False,
) -> None:
    """Write a project's labels to `out` atomically, or to stdout.

    Raises
    ------
    InputError
        If the format `form` needs `out`, if `out` exists and `force` is false, if `log`, `bom` or `task` is
        not possible with `form`, or if no concept has the name `concept`.
    """
    file, task = ProjectFile.read(project), task or Task()
    if out is None and form in (FOLDER, "parquet"):
        raise InputError(f"--format {form} needs --out: it can't be written to the terminal")
    if log and form in (FOLDER, LABEL_STUDIO):
        raise InputError(
            f"--format {form} contains labels, not the log: use csv, jsonl or parquet with --log"
        )
    if form != LABEL_STUDIO and (task.classifier or task.unlabeled):
        option = "--classifier" if task.classifier else "--unlabeled"
        raise InputError(f"{option} needs --format label-studio")
    require_csv(form, bom)
    if form != FOLDER:
        require_absent(out, force=force)
        require_absent(_interface_path(out) if out and form == LABEL_STUDIO else None, force=force)
    with open_labels(project) as database:
        its = concept_named(database, concept)
        if form == FOLDER:
            assert out is not None
            exported = export_folder(database, Pool.open(file.pool_path(project)), its, out)
            click.echo(f"{counted(sum(exported.files.values()), 'file')} in {out}: {_counts(exported.files)}")
            if exported.left_out:
                click.echo(f"Left out: {_left_out(exported.left_out)}.")
            return
        pool = _pool(file.pool_path(project))
        models = _models(database, its, task.model) if task.model and pool is not None else []
        wishes = Wishes(task.image_url, models, task.classifier, task.unlabeled, file.label_studio_users)
        options = options_of(database, pool, its, form, log=log, wishes=wishes, description=file.description)
        options["bom"] = bom
        if out is None:
            export(database, sys.stdout, **options)
            return
        with written_whole(out, binary=form == "parquet") as stream:
            rows = export(database, stream, **options)
        click.echo(f"{counted(rows, 'task' if form == LABEL_STUDIO else 'row')} in {out}")
        if form == LABEL_STUDIO:
            config = _interface_path(out)
            with written_whole(config) as stream:
                stream.write(interface(concepts_of(database, its), pool))
            click.echo(f"Label Studio's labeling interface for it is in {config}")
            if pool is not None:
                tell_how_images_are_served(pool, task.image_url)
                say_what_is_left_out(models, database)


def options_of(
    database: Database,
    pool: Pool | None,
    concept: ConceptRecord | None,
    form: str,
    *,
    log: bool,
    wishes: Wishes,
    description: str,
) -> dict[str, Any]:
    """Return the options of `storage.export` for a project with this pool and description."""
    options: dict[str, Any] = {
        "format": form,
        "concept_id": concept.id if concept else None,
        "log": log,
        "names_of": _names(pool),
    }
    if form == LABEL_STUDIO and pool is not None:
        options["content"] = content_of(database, pool, concepts_of(database, concept), wishes, description)
    return options


def export_model_predictions(
    project: Path,
    *,
    form: str,
    concept: str | None,
    model: str,
    log: bool,
    out: Path | None,
    bom: bool = False,
    force: bool = False,
) -> None:
    """Write the imported predictions of a model to `out` atomically, or to stdout.

    ``closecall import`` can read the result.

    Raises
    ------
    InputError
        If there is no such model, if it has predictions for several concepts and `concept` is None, if the
        format `form` can't hold predictions or needs `out`, if `log` is true, or if `out` exists and `force`
        is false.
    """
    if log or form not in get_args(TableFormat):
        option = "--log" if log else f"--format {form}"
        raise InputError(f"{option} contains labels, not predictions: use csv, jsonl or parquet")
    if out is None and form == "parquet":
        raise InputError("--format parquet needs --out: it can't be written to the terminal")
    require_csv(form, bom)
    require_absent(out, force=force)
    with open_labels(project) as database:
        its = _model(database, concept, model)
        names = _names(_pool(ProjectFile.read(project).pool_path(project)))
        table: Any = {"format": form, "names_of": names, "bom": bom}
        if out is None:
            export_predictions(database, its.id, sys.stdout, **table)
            return
        with written_whole(out, binary=form == "parquet") as stream:
            number = export_predictions(database, its.id, stream, **table)
    click.echo(f"{counted(number, 'prediction')} of {its.model} for {its.concept!r} in {out}")


def _models(database: Database, only: ConceptRecord | None, model: str) -> list[ModelRecord]:
    """Return the records of a model's predictions for a concept, or for all concepts."""
    there = [its for its in Predictions(database).all() if only is None or its.concept_id == only.id]
    found = [its for its in there if its.model == model.strip()]
    if not found:
        about = f" for {only.name!r}" if only else ""
        names = ", ".join(dict.fromkeys(shown(its.model) for its in there)) or "none"
        raise InputError(f"There are no predictions of {shown(model)}{about} in this project; it has {names}")
    return found


def _model(database: Database, concept: str | None, model: str) -> ModelRecord:
    """Return the record of a model's predictions for a concept.

    If `concept` is None, the model must have predictions for only one concept.
    """
    found = _models(database, concept_named(database, concept), model)
    if len(found) > 1:
        concepts = ", ".join(repr(its.concept) for its in found)
        raise InputError(
            f"{shown(model)} has predictions for {len(found)} concepts: "
            f"choose one with --concept ({concepts})"
        )
    return found[0]


def _names(pool: Pool | None) -> NamesOf | None:
    """Return a function from items to their names, or None without a pool."""
    return None if pool is None else lambda items: names_of(pool, items)


def _counts(copied: dict[str, int]) -> str:
    return ", ".join(f"{name} {n:,}" for name, n in sorted(copied.items())) or "nothing is labeled yes or no"


def _left_out(counts: dict[str, int]) -> str:
    return ", ".join(f"{n:,} {reason}" for reason, n in counts.items())


def _pool(path: Path) -> Pool | None:
    """Open the pool to read item names. If this fails, warn and return None; then no names are exported."""
    try:
        pool = Pool.open(path)
        pool.source  # noqa: B018 (opens the images' folder)
    except InputError as error:
        click.echo(f"Warning: item names are left out, since the pool can't be read: {error}", err=True)
        return None
    return pool


def _interface_path(out: Path) -> Path:
    return out.with_name(f"{out.stem}-interface.xml")
