from __future__ import annotations

import re
from dataclasses import replace

import pytest
from click.testing import CliRunner

from closecall.app.cli.main import main
from closecall.app.experiments.bench.annotator import MODES, Press
from closecall.app.experiments.bench.commands.ui import bench_ui
from closecall.app.experiments.bench.outcome import fate, looking_ahead, waits
from closecall.app.experiments.bench.ui import Labeling
from closecall.app.sessions.labeling import LabelingSession
from closecall.storage import AnswerRecord, SelectionRecord
from tests.projects import digits_pool, label, new_project, open_workspace

N = 5


def picture(item: int) -> str:
    return f"data:{item}"


def press(stored: AnswerRecord, **changes: object) -> Press:
    """As it must have been where this is what is stored."""
    given = {
        "item": stored.item,
        "selection": stored.selection_id,
        "picture": picture(stored.item),
        "answer": stored.answer,
    }
    return {"answers": [given | changes], "ms": 10.0, "waited": False, "visibly": False, "ahead_ms": None}


@pytest.fixture(scope="module")
def stored(tmp_path_factory) -> tuple[list[AnswerRecord], dict[str, SelectionRecord]]:
    """Answers of a real session, and what was shown."""
    with open_workspace(tmp_path_factory.mktemp("bench")) as workspace:
        project = new_project(workspace)
        session: LabelingSession = project.session()
        label(session, N)
        concept = session.concept.record.id
        selections = {selection.id: selection for selection in project.log.selections(concept)}
        return list(project.log.answers_after(concept)), selections


def zeros(found: dict[str, int], **but: int) -> bool:
    return found == {"answers": N, "lost": 0, "duplicated": 0, "misplaced": 0} | but


def test_answers_that_are_stored_as_given_are_none_of_the_three(stored):
    """Given one by one or, as in a grid, all by one press."""
    answers, selections = stored
    presses = [press(answer) for answer in answers]
    assert zeros(fate(presses, answers, selections, picture))
    together = presses[0] | {"answers": [given for one in presses for given in one["answers"]]}
    assert zeros(fate([together], answers, selections, picture))


def test_what_was_given_and_is_not_stored_is_lost(stored):
    """Each answer counts."""
    answers, selections = stored
    presses = [press(answer) for answer in answers]
    assert zeros(fate(presses, answers[1:-1], selections, picture), lost=2)


def test_what_is_stored_or_taken_twice_is_duplicated(stored):
    """Two rows for one press, and two presses for one image."""
    answers, selections = stored
    presses = [press(answer) for answer in answers]
    assert zeros(fate(presses, [*answers, answers[2]], selections, picture), duplicated=1)
    assert zeros(fate([*presses, presses[0]], answers, selections, picture), answers=N + 1, duplicated=1)


@pytest.mark.parametrize("wrong", [{"item": -1}, {"picture": "data:other"}, {"answer": "unsure"}])
def test_what_is_stored_otherwise_than_given_is_misplaced(stored, wrong):
    """On another item, on an item whose pixels were not those that were painted, or with another word."""
    answers, selections = stored
    presses = [press(answers[0], **wrong), *map(press, answers[1:])]
    assert zeros(fate(presses, answers, selections, picture), misplaced=1)


def test_what_is_stored_about_another_item_than_the_selections_is_misplaced(stored):
    """Even if the page showed that item."""
    answers, selections = stored
    wrong = [replace(answers[0], item=answers[1].item), *answers[1:]]
    assert zeros(fate([press(answer) for answer in wrong], wrong, selections, picture), misplaced=1)


def test_what_nobody_gave_is_misplaced(stored):
    """An answer in the log without a press."""
    answers, selections = stored
    presses = [press(answer) for answer in answers[1:]]
    assert zeros(fate(presses, answers, selections, picture), answers=N - 1, misplaced=1)


def at(*aheads: float | None) -> list[Press]:
    return [
        {"answers": [], "ms": 10.0, "waited": ahead is None, "visibly": ahead is None, "ahead_ms": ahead}
        for ahead in aheads
    ]


def test_the_pace_that_can_be_held_is_that_of_the_patient():
    """What came after the press counts as longer than all else; nobody saw when the first was painted."""
    found = looking_ahead(at(None, *range(1, 98), None, None, None), at(*range(0, 1010, 10)))
    assert (found["ahead_median_ms"], found["ahead_p95_ms"]) == (51, 96)
    assert (found["waited"], found["waited_visibly"]) == (4, 4)
    assert found["held_pace_seconds"] == pytest.approx(0.95)
    found = looking_ahead(at(None, 5, 6, 7, None), at(800, 800))
    assert (found["ahead_median_ms"], found["ahead_p95_ms"]) == (7, None)


def test_what_is_printed_says_the_pace(capsys):
    """In plain words, where it is held and where it is not."""
    row = {"mode": "paced", "items": 9000, "labels_before": 20, "pace_seconds": 0.7, "answers": 5}
    row |= {"lost": 0, "duplicated": 0, "misplaced": 0, "retrains": 3, "hyperplanes": 2, "queries": 4}
    figures = waits(at(5, 6, None)) | looking_ahead(at(5, 6, None), at(800, 800))
    words = {
        option.name: option.default
        for option in bench_ui.params
        if option.name not in ("folder", "json_file", "n_images")
    }
    Labeling(**words).show([row | figures])
    said = capsys.readouterr().out
    assert "paced, 9,000 items, 20 labels before:" in said
    assert "3 trainings gave 2 hyperplanes; 4 selections." in said
    assert "after 6 ms" not in said.split("in the median")[0]
    assert "in the median, after the next press in 95 of 100" in said
    assert "1 of 3 presses, 0.7 s after the image, had to wait for the next one, 1 of them" in said
    assert "The pace that can be held: 0.80 s an image." in said


def test_every_mode_can_be_asked_for():
    """By its name, on the command line."""
    modes = next(option for option in bench_ui.params if option.name == "modes")
    assert tuple(modes.type.choices) == (*MODES, "zoom")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--positive", "x"), "positive must be one of the pool's classes .*, got 'x'"),
        (
            ("--labels", 400),
            "--labels 400 and --answers 200 need a pool of at least 800 items, this one has 600",
        ),
        (
            ("--labels", 9, "--answers", 9, "--strategy", "psychic"),
            "strategy must be one of .*, got 'psychic'",
        ),
        (
            ("--answers", 9, "--mode", "grid", "--out", "{taken}"),
            "--out must have no projects .* there is .*grid",
        ),
        (("--mode", "zoom", "--mode", "grid"), "--mode zoom can't be combined with other modes"),
        (("--mode", "zoom"), "--mode zoom needs a pool of at least 2 images of more than 128 pixels"),
    ],
)
def test_what_can_not_be_measured_gets_one_sentence(tmp_path, words, sentence):
    """Before a project is made or a browser started."""
    (tmp_path / "grid").mkdir()
    words = [str(word).format(taken=tmp_path) for word in words]
    result = CliRunner().invoke(main, ["bench", "ui", "--pool", str(digits_pool()), *words])
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert re.search(sentence, result.stderr)
    assert list(tmp_path.iterdir()) == [tmp_path / "grid"]
