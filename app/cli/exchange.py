"""Commands to import and export labels, predictions and classifiers."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import click

_PROJECT = click.argument("project", type=click.Path(path_type=Path))
_FORCE = click.option("--force", is_flag=True, help="Overwrite the file.")
_BOM = click.option(
    "--bom",
    is_flag=True,
    help="Write CSV for spreadsheets: with a byte order mark, and with times in UTC without a zone.",
)
_OUT = click.option("--out", type=click.Path(path_type=Path), help="File.  [default: stdout]")


@click.command("export")
@_PROJECT
@click.option(
    "--format",
    "form",
    type=click.Choice(["csv", "jsonl", "parquet", "label-studio", "folder"]),
    default="csv",
    show_default=True,
    help="Kind of file; folder copies the items into one folder per label or class.",
)
@click.option("--concept", help="Only this concept, by name.  [default: all]")
@click.option("--log", is_flag=True, help="The whole log, answer by answer, instead of the current labels.")
@click.option(
    "--predictions",
    "model",
    help="Predictions of this imported model, instead of labels; with label-studio, in addition to them.",
)
@click.option("--classifier", is_flag=True, help="With label-studio: the predictions of the classifier, too.")
@click.option(
    "--unlabeled",
    type=click.IntRange(min=0),
    default=0,
    help="With label-studio: also this many items without an answer, the closest calls first.",
)
@click.option(
    "--image-url",
    help="With label-studio: prefix of an image's path.  [default: Label Studio's local files]",
)
@click.option("--out", type=click.Path(path_type=Path), help="File, or new folder.  [default: stdout]")
@_FORCE
@_BOM
def export_command(
    project: Path,
    form: str,
    concept: str | None,
    log: bool,
    model: str | None,
    classifier: bool,
    unlabeled: int,
    image_url: str | None,
    out: Path | None,
    force: bool,
    bom: bool,
) -> None:
    """Write the labels of PROJECT, or another model's imported predictions."""
    from closecall.app.exchange.exporting import Task, export_labels, export_model_predictions

    where: Any = {"form": form, "concept": concept, "log": log, "out": out, "bom": bom, "force": force}
    if model is None or form == "label-studio":
        export_labels(project, task=Task(image_url, model, classifier, unlabeled), **where)
    else:
        export_model_predictions(project, model=model, **where)


@click.command("import")
@_PROJECT
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--format",
    "form",
    type=click.Choice(["csv", "jsonl", "parquet", "label-studio"]),
    help="Kind of file.  [default: from FILE's name]",
)
@click.option("--concept", help="Concept of the labels, by name.  [default: from FILE]")
@click.option(
    "--annotator", default="import", show_default=True, help="Annotator of the labels, unless FILE names one."
)
@click.option(
    "--user",
    "users",
    multiple=True,
    metavar="USER=NAME",
    help="Annotator of a user of Label Studio, as in 3=berta; kept for later imports and exports.",
)
@click.option(
    "--owner",
    "owners",
    multiple=True,
    help="Owner, whose ground truths in Label Studio are adjudications, besides the owners in project.json.  "
    "[default: everybody, if project.json lists no owner]",
)
@click.option(
    "--withdraw-missing",
    is_flag=True,
    help="Withdraw the answers that went to Label Studio, but are in no task of FILE.",
)
@click.option(
    "--predictions",
    "model",
    help="Name of the model whose predictions FILE contains, instead of labels.",
)
def import_command(
    project: Path,
    file: Path,
    form: str | None,
    concept: str | None,
    annotator: str,
    users: tuple[str, ...],
    owners: tuple[str, ...],
    withdraw_missing: bool,
    model: str | None,
) -> None:
    """Import labels, or the predictions of another model, into PROJECT.

    Predictions are stored separately from labels. Items are matched by id, by name, or by path. Answers and
    predictions that PROJECT already has are not stored again. A file that is malformed, or contradicts
    itself, changes nothing.
    """
    from closecall.app.exchange.importing import import_labels
    from closecall.app.exchange.label_studio_users import users_given
    from closecall.app.exchange.predicted import import_predictions

    known = cast(Any, form)
    if model is None:
        import_labels(
            project,
            file,
            form=known,
            concept=concept,
            annotator=annotator,
            users=users_given(users),
            owners=owners,
            withdraw_missing=withdraw_missing,
        )
    else:
        import_predictions(project, file, form=known, concept=concept, model=model)


@click.command("predictions")
@_PROJECT
def predictions_command(project: Path) -> None:
    """List the predictions of other models that PROJECT has imported."""
    from closecall.app.exchange.predicted import print_predictions

    print_predictions(project)


@click.command("export-model")
@_PROJECT
@click.option("--concept", help="Concept of the classifier, by name.  [default: the only one]")
@click.option("--out", required=True, type=click.Path(file_okay=False, path_type=Path), help="New folder.")
def export_model_command(project: Path, concept: str | None, out: Path) -> None:
    """Write a classifier of PROJECT: weights, a manifest, and a scikit-learn estimator (a pickle)."""
    from closecall.app.exchange.model import export_model

    export_model(project, concept, out)


@click.command("predict")
@_PROJECT
@click.option("--concept", help="Concept of the classifier, by name.  [default: the only one]")
@click.option(
    "--format",
    "form",
    type=click.Choice(["csv", "jsonl", "parquet"]),
    help="Kind of file.  [default: from --out, else csv]",
)
@_OUT
@_FORCE
@_BOM
def predict_command(
    project: Path, concept: str | None, form: str | None, out: Path | None, force: bool, bom: bool
) -> None:
    """Write the score and the predicted label of every item of PROJECT that is not held out."""
    from closecall.app.exchange.model import predict
    from closecall.storage.imports import format_of

    chosen = form or (format_of(out) if out is not None else "csv")
    predict(project, concept, out, cast(Any, chosen), bom=bom, force=force)


@click.command()
@_PROJECT
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--force", is_flag=True, help="Overwrite FILE.")
def backup(project: Path, file: Path, force: bool) -> None:
    """Copy the labels and uploads of PROJECT to FILE, even while PROJECT is being served."""
    from closecall.app.exchange.backup import backup_labels

    backup_labels(project, file, overwrite=force)


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@_PROJECT
@click.option("--force", is_flag=True, help="Replace the labels that PROJECT has (they are set aside).")
@click.option(
    "--database",
    metavar="URL",
    help="Where to keep PROJECT's labels: an address in PostgreSQL, or the word sqlite.",
)
def restore(file: Path, project: Path, force: bool, database: str | None) -> None:
    """Restore the labels and uploads of a backup FILE into PROJECT."""
    from closecall.app.exchange.backup import restore_labels

    restore_labels(file, project, overwrite=force, database=database)


COMMANDS = (
    export_command,
    import_command,
    predictions_command,
    export_model_command,
    predict_command,
    backup,
    restore,
)
