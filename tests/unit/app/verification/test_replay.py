"""What a replay of the log keeps in memory."""

from __future__ import annotations

import tracemalloc

import pytest
from click.testing import CliRunner

from closecall.app.cli.main import main
from closecall.app.engine.kept_groups import KeptGroups
from closecall.app.verification.replay import Standings, replays_of
from closecall.app.verification.report import Findings
from closecall.storage.groupings import Groupings
from tests.projects import N_ITEMS, give_answers, new_project, open_workspace

N_ANSWERS = 40


@pytest.fixture
def project(tmp_path):
    """A project with hundreds of imported labels, and some answers after them."""
    with open_workspace(tmp_path) as workspace:
        folder = new_project(workspace).folder
    lines = [f"{item},{'yes' if item % 7 else 'no'}" for item in range(0, N_ITEMS - 2 * N_ANSWERS)]
    (tmp_path / "labels.csv").write_text("\n".join(["item,label", *lines]))
    words = ["import", str(folder), str(tmp_path / "labels.csv"), "--annotator", "ada"]
    assert CliRunner().invoke(main, words).exit_code == 0
    with open_workspace(tmp_path) as workspace:
        project = workspace.project(folder.name)
        give_answers(project.session(), N_ANSWERS)
        yield project


def test_replays_keep_no_labels(project):
    """A replay takes a few kilobytes, among them its hyperplane, however many labels there are."""
    log, concept = project.log, project.live_concept(1).record
    answers, records = list(log.answers_after(1)), {one.id: one for one in log.selections(1)}
    annotators = {one.id: one.annotator for one in log.sessions(1)}
    kept, findings = KeptGroups(Groupings(log.database)), Findings()
    found, sizes = [], []
    tracemalloc.start()
    try:
        standings = Standings(concept.id, answers, annotators, kept, project.pool)
        for replay in replays_of(project.concept_store, concept, records, standings, findings):
            found.append(replay)
            sizes.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert len(found) >= N_ANSWERS
    n_labels = [len(one.trained.labels.ids) for one in found]
    assert n_labels == [one.record.n_labels for one in found]
    assert min(n_labels) >= 400
    hyperplane = found[0].hyperplane.normal.nbytes
    assert (sizes[-1] - sizes[10]) / (len(sizes) - 11) < hyperplane + 9 * min(n_labels)
    assert not findings.problems
