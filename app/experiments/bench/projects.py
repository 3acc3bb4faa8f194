"""Creation of projects for benchmarks, from a pool of known classes, a positive class and initial labels."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from closecall.app.experiments.bench.annotator import Truth
from closecall.app.projects.config import ProjectFile
from closecall.app.sessions.labeling import LabelingSession
from closecall.app.sessions.new_project import NewProject
from closecall.app.sessions.workspace import Workspace
from closecall.core.errors import InputError
from closecall.core.experiment.simulation import labels_before
from closecall.core.learning.round import is_positive
from closecall.core.pool.pool import Pool
from closecall.storage import AnswerRecord, Concepts, Database, LabelLog, new_id


def class_asked_for(pool: Pool, asked: str | None) -> str:
    """Return the positive class: `asked`, or by default the pool's first class.

    Raises
    ------
    InputError
        If the pool does not have the class `asked`, or has no classes.
    """
    positive = asked or (pool.classes[0] if pool.classes else "")
    if positive not in pool.classes:
        classes = ", ".join(pool.classes) or "none"
        raise InputError(f"positive must be one of the pool's classes ({classes}), got {positive!r}")
    return positive


def truth_of(pool: Pool, positive: str) -> Truth:
    """Return a function that tells which items belong to the class `positive`."""
    wanted = pool.classes.index(positive)
    return lambda items: [bool(is_yes) for is_yes in is_positive(pool.truth(items), wanted)]


def make_project(
    pool: Pool,
    project: Path,
    positive: str,
    *,
    n_labels: int,
    annotator: str,
    strategy: str | None = None,
    seed: int,
    database: str | None = None,
    lease_seconds: float | None = None,
) -> None:
    """Create a project for a positive class, with initial labels.

    Parameters
    ----------
    pool : Pool
        Pool of known classes.
    project : Path
        Folder of the new project.
    positive : str
        Name of the positive class.
    n_labels : int
        Number of initial labels; see `core.experiment.simulation.labels_before`.
    annotator : str
        Annotator of the initial labels.
    strategy : str or None
        Strategy recorded for the session of the initial labels; the default strategy if None.
    seed : int
        Seed of the initial labels.
    database : str or None
        Address of a PostgreSQL database; None for an SQLite file in the project.
    lease_seconds : float or None
        Seconds until a lease expires; None for the default.

    Raises
    ------
    InputError
        If the project exists already, or if the database's address is not valid.
    StorageError
        If the database fails.
    """
    project.parent.mkdir(parents=True, exist_ok=True)
    with Workspace(project.parent, database=database) as workspace:
        workspace.create(
            NewProject(str(pool.path.resolve()), f"Is it a {positive}?", positive), key=project.name
        )
    file = ProjectFile.read(project)
    if lease_seconds is not None:
        file = replace(file, lease_seconds=lease_seconds)
        file.write(project)
    with Database.open(file.labels(project)) as opened:
        concept, log = Concepts(opened).all()[0], LabelLog(opened)
        rng = np.random.default_rng(seed)
        labels = labels_before(pool, pool.classes.index(positive), n_labels, rng)
        session = log.start_session(concept.id, annotator, strategy or LabelingSession.DEFAULT, seed=seed)
        log.append_answers(
            [
                AnswerRecord(
                    id=new_id(),
                    concept_id=concept.id,
                    session_id=session.id,
                    annotator=session.annotator,
                    item=int(item),
                    answer="yes" if yes else "no",
                    browser_time=0,
                )
                for item, yes in zip(labels.ids, labels.y, strict=True)
            ]
        )
