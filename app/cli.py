"""The command ``marginalia``. Every error is one plain sentence and exit code 2."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import platformdirs

from app.bench import bench
from app.sentences import sentences
from core.errors import InputError


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="marginalia")
def main() -> None:
    """Label a million images at the margin: every answer retrains an SVM and picks the next image."""


def _serving_options(function: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on."),
        click.option(
            "--port",
            default=8501,
            show_default=True,
            type=click.IntRange(1, 65535),
            help="Port to listen on.",
        ),
        click.option("--headless", is_flag=True, help="Do not open a browser."),
    ):
        function = option(function)
    return function


@main.command()
@click.option(
    "--items",
    default=1_000_000,
    show_default=True,
    type=click.IntRange(100, 100_000_000),
    help="Size of the pool.",
)
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    default=lambda: Path(platformdirs.user_data_dir("marginalia")),
    show_default="the user's data folder",
    help="Folder of the projects.",
)
@_serving_options
@sentences
def demo(items: int, data: Path, host: str, port: int, headless: bool) -> None:
    """Label handwritten digits, up to a million of them, drawn on demand: nothing is downloaded."""
    from app.server import require_free_port, serve
    from app.workspace import Workspace

    require_free_port(host, port)
    with Workspace(data) as workspace:
        key = workspace.demo(items)
        serve(workspace, host=host, port=port, headless=headless, path=f"?project={key}")


@main.command("serve")
@click.argument("project", type=click.Path(path_type=Path))
@_serving_options
@sentences
def serve_project(project: Path, host: str, port: int, headless: bool) -> None:
    """Serve PROJECT, one project's folder or a folder of projects."""
    from app.server import require_free_port, serve
    from app.workspace import Workspace, is_project
    from core.manifest import MANIFEST

    require_free_port(host, port)
    if is_project(project):
        with Workspace(project.resolve().parent, only=project.resolve().name) as workspace:
            workspace.project(project.resolve().name)
            serve(
                workspace, host=host, port=port, headless=headless, path=f"?project={project.resolve().name}"
            )
    else:
        if (project / MANIFEST).is_file():
            raise InputError(
                f"{project} is a pool, not a project: make one with marginalia new PROJECT --images {project}"
            )
        if not project.is_dir():
            raise InputError(
                f"There is no project at {project}: name a project's folder, or a folder of projects"
            )
        with Workspace(project) as workspace:
            serve(workspace, host=host, port=port, headless=headless)


@main.command("new")
@click.argument("project", type=click.Path(path_type=Path))
@click.option("--images", required=True, help="A SOURCE as for pool build, or the folder of a pool.")
@click.option("--question", required=True, help='A yes/no question, such as "Is it a leaf?".')
@click.option("--guideline", default="", help="What annotators should know.")
@click.option("--positive", help="The class that means yes.  [default: the one that the question names]")
@click.option("--no-classes", is_flag=True, help="Class subfolders are no truth: nothing is held out.")
@sentences
def new_project(
    project: Path, images: str, question: str, guideline: str, positive: str | None, no_classes: bool
) -> None:
    """Make PROJECT, a folder with a question over some images; serve it to label."""
    from app.workspace import NewProject, Workspace

    if project.exists():
        raise InputError(f"{project} exists already: name a new folder")
    asked = NewProject(images, question, positive, guideline, use_classes=not no_classes)
    with Workspace(project.resolve().parent) as workspace:
        workspace.create(asked, key=project.resolve().name)
    click.echo(f"Made. Label with: marginalia serve {project}")


@main.group()
def pool() -> None:
    """Build and inspect pools."""


@pool.command("build")
@click.argument("source")
@click.option(
    "--out",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of the pool; resumed if there.",
)
@click.option("--threads", type=click.IntRange(1), help="Threads to use.  [default: all cores]")
@click.option("--no-classes", is_flag=True, help="Class subfolders are no truth: nothing is held out.")
@click.option("--quiet", is_flag=True, help="Print nothing but errors.")
@sentences
def build_pool(source: str, out: Path, threads: int | None, no_classes: bool, quiet: bool) -> None:
    """Build a pool from SOURCE, or go on with one that was interrupted.

    \b
    SOURCE is one of
      digits[:N]              N handwritten digits drawn on demand (default 1,000,000)
      FOLDER                  a folder of images; class subfolders become the truth
      cifar10:PATH            CIFAR-10, official binary version (archive or folder)
      arrays:FEATURES,IMAGES  your embeddings (.npy or .parquet) and a folder or list of images
      enlarged:N:SOURCE       any image source, N times larger
    """  # noqa: D301 (click wants the backspace itself)
    from app.terminal import show_build
    from core.sources import source_from

    show_build(source_from(source, use_classes=not no_classes), out, threads=threads, quiet=quiet)


@pool.command("info")
@click.argument("pool", type=click.Path(path_type=Path))
@click.option("--check", is_flag=True, help="Read every file and compare its checksum.")
@sentences
def pool_info(pool: Path, check: bool) -> None:
    """Say what POOL holds, and which files could not be read."""
    from app.terminal import show_pool

    show_pool(pool, check=check)


@main.command()
@click.argument("project", type=click.Path(path_type=Path))
@click.option(
    "--format",
    "form",
    type=click.Choice(["csv", "jsonl"]),
    default="csv",
    show_default=True,
    help="Kind of file.",
)
@click.option("--concept", help="Only this concept, by name.  [default: all]")
@click.option("--log", is_flag=True, help="The whole log, answer by answer, instead of the current labels.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="File.  [default: stdout]")
@sentences
def export(project: Path, form: str, concept: str | None, log: bool, out: Path | None) -> None:
    """Write the labels of PROJECT."""
    from app.exchange import export_labels

    export_labels(project, form=form, concept=concept, log=log, out=out)


@main.command()
@click.argument("project", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
@sentences
def verify(project: Path, as_json: bool) -> None:
    """Replay the log of PROJECT: retrain, compare every digest and selection, rank by brute force."""
    from app.verify import verify_project

    sys.exit(verify_project(project, as_json=as_json))


@main.command()
@click.argument("project", type=click.Path(path_type=Path))
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--force", is_flag=True, help="Overwrite FILE.")
@sentences
def backup(project: Path, file: Path, force: bool) -> None:
    """Copy the label database of PROJECT to FILE, also while it is being served."""
    from app.exchange import backup_labels

    backup_labels(project, file, overwrite=force)


@main.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.argument("project", type=click.Path(path_type=Path))
@click.option("--force", is_flag=True, help="Replace the labels that PROJECT has (they are backed up first).")
@sentences
def restore(file: Path, project: Path, force: bool) -> None:
    """Put the labels of a backup FILE into PROJECT."""
    from app.exchange import restore_labels

    restore_labels(file, project, overwrite=force)


main.add_command(bench)

if __name__ == "__main__":
    main()
