"""The command that creates a project, ``closecall new``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from closecall.app.cli.pool import dtype_option, provider_option
from closecall.core.errors import InputError

if TYPE_CHECKING:
    from closecall.core.pool.build_size import FeatureType
    from closecall.core.sources import Source

database_option = click.option(
    "--database",
    metavar="URL",
    help="Database of a PostgreSQL server for the labels of new projects: postgresql://user@host/database; "
    "the password in PGPASSWORD or ~/.pgpass.  [default: a file in the project]",
)

NO_CLASS = "none"
"""The answer at the terminal that says that no class means yes."""


@click.command("new")
@click.argument("project", type=click.Path(path_type=Path))
@click.option("--images", required=True, help="A SOURCE as for pool build, or the folder of a pool.")
@click.option(
    "--question",
    "questions",
    required=True,
    multiple=True,
    help='A yes/no question, such as "Is it a leaf?"; give the option again for another question.',
)
@click.option("--guideline", default="", help="What annotators should know.")
@click.option("--positive", help="The class that means yes.  [default: the one that the question names]")
@click.option(
    "--classes/--no-classes",
    "use_classes",
    default=None,
    help="Whether subfolders are classes; then some items are held out to measure accuracy.  "
    "[default: yes if the question names one of them; otherwise ask, or no without a terminal]",
)
@provider_option
@dtype_option
@database_option
@click.option(
    "--build/--no-build",
    "builds",
    default=True,
    show_default=True,
    help="Whether to prepare the items now. Otherwise, closecall serve does it.",
)
def new_project(
    project: Path,
    images: str,
    questions: tuple[str, ...],
    guideline: str,
    positive: str | None,
    use_classes: bool | None,
    provider: str | None,
    dtype: FeatureType | None,
    database: str | None,
    builds: bool,
) -> None:
    """Create PROJECT, a folder with a question about images, and prepare the images.

    You can label before all images are prepared: run closecall serve PROJECT meanwhile. If you stop this
    command, closecall serve prepares the remaining images.
    """
    from closecall.app.display.phrases import some
    from closecall.app.display.pool_output import show_source
    from closecall.app.projects.folder_classes import FolderClasses, chosen_source, given_source
    from closecall.app.sessions.new_project import NewProject
    from closecall.app.sessions.workspace import Workspace

    if project == Path():
        raise InputError("PROJECT must name a new folder, got an empty name or the working folder")
    if project.exists():
        raise InputError(f"{project} exists already: choose a new folder")
    if len(questions) > 1 and (positive is not None or guideline):
        raise InputError(
            "--positive and --guideline are for a single question: add others with closecall question add"
        )
    first, *more = questions
    source = given_source(images, provider)
    found = FolderClasses.of(source)
    named = [found.positive(question, positive) for question in questions]
    if use_classes is None and found.names and not any(named) and _somebody_answers():
        use_classes = click.confirm(
            f"Are these subfolders classes: {some(found.names)}? Then some items are held out",
            default=False,
        )
    if source is not None:
        use_classes = any(named) if use_classes is None else use_classes
        source, use_classes = chosen_source(source, first, positive, use_classes)
        show_source(source, dtype=dtype)
    if found.names and use_classes:
        click.echo("Subfolders are classes: some items are held out to measure accuracy.")
    elif found.names:
        click.echo(
            f"Subfolders do not count as classes: {some(found.names)}. All items can be labeled; "
            "--classes makes them classes."
        )
    classes = _classes(images, source)
    option = "closecall question add --positive-class" if more else "--positive"
    meant = [positive_class(question, positive, classes, option) for question in questions]
    asked = NewProject(
        images,
        first,
        meant[0] or "",
        guideline,
        use_classes=use_classes,
        source=source,
        provider=provider,
        dtype=dtype,
        more_questions=dict(zip(more, meant[1:], strict=True)),
    )
    with Workspace(project.resolve().parent, database=database) as workspace:
        workspace.create(asked, key=project.resolve().name, closed=True)
    if source is not None:
        _prepare(project, source, dtype, builds=builds)
    click.echo(f"Created. Label with: closecall serve {project}")


def _classes(images: str, source: Source | None) -> tuple[str, ...]:
    """Return the class names of `source`; if it is None, return those of the pool in the folder `images`."""
    from closecall.core.pool.pool import Pool

    return source.classes if source is not None else Pool.open(Path(images).expanduser()).classes


def _prepare(project: Path, source: Source, dtype: FeatureType | None, *, builds: bool) -> None:
    """Begin the pool of a new project, so that labels can be matched to its items.

    If `builds`, build the whole pool.
    """
    from closecall.app.display.phrases import counted
    from closecall.app.display.pool_output import show_progress
    from closecall.app.projects.config import POOL_FOLDER
    from closecall.core.pool.build import begin

    pool = project / POOL_FOLDER
    try:
        begin(source, pool, dtype=dtype)
        if not builds:
            click.echo(f"closecall serve {project} prepares the {counted(len(source), source.item_word)}.")
            return
        click.echo(
            f"Preparing {counted(len(source), source.item_word)}. Labeling need not wait: "
            f"closecall serve {project} works meanwhile, in another terminal."
        )
        show_progress(source, pool)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"The project is created: closecall serve {project} prepares the remaining {source.item_word}s."
        ) from None
    except InputError as error:
        raise InputError(
            f"{error}; the project is created, and closecall serve {project} tries again"
        ) from None


def positive_class(question: str, given: str | None, classes: Sequence[str], option: str) -> str | None:
    """Print and return the class that means yes; return None if no class does.

    If it is not clear which class the question means, ask the user. Without a terminal, print how to choose
    the class with `option` instead.

    Raises
    ------
    InputError
        If `given` is not a class.
    """
    from closecall.app.display.phrases import some
    from closecall.app.projects.positive_class import positive_class_of, possible_classes

    found = positive_class_of(question, given, classes)
    possible = possible_classes(question, classes) if given is None else ()
    if possible and _somebody_answers():
        choice = click.Choice([*possible, NO_CLASS])
        chosen = click.prompt(f"Which class does {question!r} mean?", type=choice)
        found = None if chosen == NO_CLASS else chosen
    elif possible:
        noun = "class" if len(possible) == 1 else "classes"
        click.echo(
            f"{question!r} may mean the {noun} {some(possible)}. No class means yes; {option} chooses one."
        )
    elif found is None and given is None and classes:
        click.echo(
            f"{question!r} names no class: accuracy on held-out items is unknown; {option} chooses one."
        )
    if found is not None:
        click.echo(f"{question!r}: yes means the class {found!r}.")
    return found


def _somebody_answers() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()
