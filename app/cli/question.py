"""Commands about the questions of a project, the group ``closecall question``."""

from __future__ import annotations

from pathlib import Path

import click

from closecall.app.cli.new import positive_class

_PROJECT = click.argument("project", type=click.Path(path_type=Path))


@click.group()
def question() -> None:
    """Add and list the questions of a project."""


@question.command("add")
@_PROJECT
@click.argument("question")
@click.option("--name", default="", help="Short name, for commands and files.  [default: from QUESTION]")
@click.option("--guideline", default="", help="What annotators should know.")
@click.option(
    "--positive-class",
    "given",
    metavar="CLASS",
    help='The class that means yes, or "" for none.  [default: the one that QUESTION names]',
)
def add(project: Path, question: str, name: str, guideline: str, given: str | None) -> None:
    """Add QUESTION, a yes/no question such as "Is it a leaf?", about the items of PROJECT.

    The project must not be served meanwhile. If it is served, owners can add questions on its page, under
    Settings.
    """
    from closecall.app.projects.questions import add_question, classes_of

    found = positive_class(question, given, classes_of(project), "--positive-class")
    added = add_question(project, question, name=name, guideline=guideline, positive_class=found or "")
    click.echo(f"{project} now asks {added.question!r}, by the name {added.name!r}.")


@question.command("list")
@_PROJECT
def list_questions(project: Path) -> None:
    """List the questions of PROJECT with their names."""
    from closecall.app.projects.questions import questions_of

    for concept in questions_of(project):
        yes = f", yes means {concept.positive_class}" if concept.positive_class else ""
        click.echo(f"{concept.name}: {concept.question}{yes}")
