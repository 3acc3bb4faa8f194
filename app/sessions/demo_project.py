"""The demo project: digits, drawn on demand, and the question whether each is a 7."""

from __future__ import annotations

from typing import TYPE_CHECKING

from closecall.app.projects.config import ProjectFile, is_project, require_database
from closecall.app.sessions.new_project import NewProject
from closecall.core.errors import InputError

if TYPE_CHECKING:
    from closecall.app.sessions.workspace import Workspace

DEMO = "digits"
"""Key of the demo project."""


def make_demo(workspace: Workspace, items: int) -> str:
    """Create the demo project with a pool of `items` digits, or extend it to that size; return its key.

    Raises
    ------
    InputError
        If the demo exists and has more items, or its labels are in another database.
    """
    folder = workspace.folder / DEMO
    if is_project(folder):
        require_database(folder, workspace.database)
        _extend(workspace, items)
    else:
        question = NewProject(
            f"digits:{items}", "Is this a 7?", "7", "Any way of writing a seven, with or without a bar."
        )
        workspace.create(question, key=DEMO)
    project = workspace.project(DEMO)
    pool = project.pool
    if project.builder and pool is not None and pool.complete and len(pool) < items:
        project.builder.start()
    return DEMO


def _extend(workspace: Workspace, items: int) -> None:
    """Extend the existing demo to `items` items."""
    folder = workspace.folder / DEMO
    file = ProjectFile.read(folder)
    there = int(file.source.partition(":")[2] or 0)
    if file.description and there != items:
        raise InputError(
            f"The demo in {workspace.folder} is described by {file.description}, for {there:,} items: "
            f"serve it with --items {there}, or return to the first description with "
            f"closecall describe {folder} --use first"
        )
    if there > items:
        raise InputError(
            f"The demo in {workspace.folder} has {there:,} items, more than --items {items}: "
            "leave --items out, or choose another folder with --data"
        )
    if there < items:
        ProjectFile.change(folder, source=f"digits:{items}")
