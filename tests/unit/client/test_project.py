from __future__ import annotations

import math
import random

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy import sparse

from closecall.client import ApiError, Client, Concept, Conflict, ConnectionLost, Forbidden, Label, NotFound
from closecall.client.model import Model
from tests.api_kit import FAULTS, TOKEN


@pytest.fixture
def labeled(server, project):
    """The project, with 20 answers: yes to every third item."""
    session = project.session()
    for item, _ in zip(session, range(20), strict=False):
        session.answer("no" if item.id % 3 else "yes")
    return project


def test_the_log_is_read_page_by_page(server, labeled):
    """Each answer once, in order."""
    read = list(labeled.answers())
    assert [answer.id for answer in read] == [entry["id"] for entry in server.log]
    assert [answer.seq for answer in read] == list(range(2, 42, 2))
    assert server.count("/concepts/1/answers") == 3


@pytest.mark.parametrize("seed", range(5))
def test_a_reader_that_is_killed_reads_each_answer_once(server, labeled, seed):
    """It keeps the cursor with what it read, stops anywhere, and goes on from there, whatever fails."""
    rng = random.Random(seed)
    kept, cursor = [], 0
    for _ in range(100):
        server.faults.extend(rng.choice(FAULTS) for _ in range(rng.randrange(3)))
        log = labeled.answers(after=cursor)
        for answer in log:
            if rng.random() < 0.3:
                break  # killed before both are kept
            kept.append(answer.id)
            cursor = log.cursor
    assert kept == [entry["id"] for entry in server.log]


def test_the_cursor_passes_answers_to_other_questions_at_the_end(server, labeled):
    """Otherwise, a reader would ask for them again and again."""
    log = labeled.answers()
    for answer in log:
        assert log.cursor == answer.seq
    assert log.cursor == 40
    again = labeled.answers(after=log.cursor)
    assert list(again) == []
    assert again.cursor == 41


def test_the_same_log_can_be_read_on(server, labeled):
    """A second loop returns what has arrived since the first."""
    log = labeled.answers()
    assert len(list(log)) == 20
    assert next(log, None) is None
    session = labeled.session()
    session.next()
    session.answer("yes")
    assert [answer.item for answer in log] == [20]


def test_labels_come_as_lists_frames_and_tables(labeled):
    """With the same content."""
    expected = [(item, "no" if item % 3 else "yes") for item in range(20)]
    assert labeled.labels() == [Label(*row) for row in expected]
    frame = labeled.labels_frame("seven")
    assert list(frame.itertuples(index=False, name=None)) == expected
    table = labeled.labels_table(1)
    assert table.to_pylist() == [{"item": item, "label": label} for item, label in expected]
    assert table.schema.field("item").type == pa.int64()


def test_no_labels_are_an_empty_table_with_columns(project):
    assert list(project.labels_frame().columns) == ["item", "label"]
    assert project.labels_table().num_rows == 0


ROWS = [{"item": 3, "label": "yes"}, {"item": 5, "label": "no"}]
TABLES = {
    "rows": ROWS,
    "pairs": [(3, "yes"), (5, "no")],
    "mapping": {3: "yes", 5: "no"},
    "frame": pd.DataFrame(ROWS),
    "frame of truth values": pd.DataFrame({"item": [3, 5], "label": [True, False], "other": [0, 1]}),
    "Arrow": pa.Table.from_pylist(ROWS),
    "NumPy": zip(np.array([3, 5]), np.array([True, False]), strict=True),
}


@pytest.mark.parametrize("form", TABLES)
def test_labels_can_be_added_in_each_form(server, project, form):
    """They arrive as the same rows."""
    outcome = project.add_labels(None, TABLES[form])
    assert server.imported == ROWS
    assert outcome == {"new": 2, "known": 0, "same": 0, "contested": 0, "unmatched": 0, "examples": []}


def test_labels_by_name_with_an_annotator(server, project):
    """Rows with an annotator of their own keep it."""
    rows = [{"name": "a.jpg", "label": "yes"}, {"name": "nothing", "label": "no", "annotator": "bob"}]
    outcome = project.add_labels("seven", rows, annotator="ada")
    assert (outcome["unmatched"], outcome["examples"]) == (1, ["nothing"])
    assert server.imported == [{"annotator": "ada", **rows[0]}, rows[1]]


def test_many_labels_go_in_several_requests(server, project, monkeypatch):
    """Their outcomes are added up; a repeated import stores nothing."""
    labels = {item: "no" if item % 3 else "yes" for item in range(25)}
    monkeypatch.setattr("closecall.client.project.ROWS", 10)
    assert project.add_labels(1, labels)["new"] == 25
    assert server.count("POST /api/v1/projects/digits/concepts/1/labels") == 3
    assert project.add_labels(1, labels)["known"] == 25
    assert project.add_labels(1, {}) == dict.fromkeys(("new", "known", "same", "contested", "unmatched"), 0)


@pytest.mark.parametrize(
    "rows", [[{"label": "yes"}], [{"item": 3, "score": 1}], [{"item": math.nan, "label": "no"}]]
)
def test_a_row_without_item_or_label_is_named(server, project, rows):
    with pytest.raises(ValueError, match=r"^Each row needs '(item' or 'name'|label'), got "):
        project.add_labels(1, rows)
    assert server.imported == []


def test_predictions_go_in_and_come_out(project):
    """A missing score or label is None."""
    frame = pd.DataFrame({"item": range(20), "score": np.linspace(-1, 1, 20), "label": [None, *["no"] * 19]})
    frame.loc[3, "score"] = np.nan
    assert project.add_predictions("seven", "resnet", frame)["stored"] == 20
    back = project.predictions_frame("seven", "resnet")
    assert back["item"].tolist() == list(range(20))
    assert back["score"].isna().tolist() == [item == 3 for item in range(20)]
    assert back["score"].dropna().tolist() == frame["score"].dropna().tolist()
    assert project.predictions(1, "resnet")[0].label is None
    with pytest.raises(NotFound, match="no predictions of other"):
        project.predictions(1, "other")


def test_a_model_scores_rows(labeled):
    """As (n, 2) arrays, lists and sparse matrices."""
    model = labeled.model()
    rows = [[1.0, 0.0], [0.0, 1.0], [2.0, 2.0]]
    for X in (rows, np.array(rows), sparse.csr_matrix(rows)):
        assert model.scores(X).tolist() == [1.5, -1.5, -1.5]
    assert model.about == {"features": "gist"}
    with pytest.raises(ValueError, match=r"X must have the shape \(n_items, 2\), got \(3, 1\)"):
        model.scores(np.ones((3, 1)))
    with pytest.raises(ValueError, match="got"):
        Model((1.0,), 0.0, {}).scores([1.0])


def test_a_model_needs_both_answers(project):
    with pytest.raises(Conflict, match="a yes and a no") as caught:
        project.model()
    assert caught.value.status == 409


def test_questions_are_found_by_id_name_and_text(project):
    added = project.add_concept("Is it a fox?", name="fox")
    assert project.add_concept("Is it a fox?") == added
    assert project.concept(2) == project.concept("fox") == project.concept("Is it a fox?") == added
    assert project.concept(added) == added
    assert isinstance(project.concepts()[0], Concept)
    with pytest.raises(Conflict):
        project.add_concept("Is it red?", name="fox")
    with pytest.raises(NotFound, match=r"no only question. Its questions are: 'seven', 'fox'"):
        project.session()
    with pytest.raises(NotFound, match="no question 'bear'"):
        project.labels("bear")
    assert project.session("fox").concept == 2


def test_an_export_is_whole_or_not_there(server, project, tmp_path):
    """A connection that breaks in the middle is tried again."""
    server.faults.extend(["half", "cut", "503"])
    path = project.export(tmp_path / "labels.csv", concept=1, log=True)
    assert path.read_bytes() == b'{"concept": "1", "format": "csv", "log": "true"}' * 1000
    assert [one.name for one in tmp_path.iterdir()] == ["labels.csv"]
    server.faults.extend(["half"] * 200)
    with pytest.raises(ConnectionLost):
        project.export(tmp_path / "never.csv")
    assert not (tmp_path / "never.csv").exists()


def test_items_are_found_and_shown(project):
    assert [(one.id, one.name) for one in project.search("a/b c")] == [(7, "a/b c")]
    assert project.image(7, "thumbnail") == b"7 thumbnail"
    assert project.progress() == {"advice": "Keep going"}
    assert project.about()["items"] == 50


def test_projects_are_listed_and_opened(client):
    assert [one.key for one in client.projects()] == ["digits"]
    with pytest.raises(NotFound, match=r"^There is no project a/b\?$"):
        client.project("a/b?")


def test_an_unknown_token_is_forbidden_at_once(server, clock):
    """The token is in no message."""
    client = Client(server.url, "cc_wrong")
    with pytest.raises(Forbidden, match="The token is unknown") as caught:
        client.projects()
    assert caught.value.status == 401
    assert clock.slept == []
    assert "cc_wrong" not in repr(client) + repr(caught.value)


def test_address_and_token_come_from_the_environment(server, monkeypatch):
    monkeypatch.setenv("CLOSECALL_URL", f"{server.url}/")
    monkeypatch.setenv("CLOSECALL_TOKEN", TOKEN)
    assert Client().project("digits").key == "digits"
    monkeypatch.delenv("CLOSECALL_URL")
    with pytest.raises(ValueError, match="CLOSECALL_URL must be an address"):
        Client()


def test_pauses_grow_with_jitter_and_obey_retry_after(server, client, clock):
    """Until the time limit."""
    server.faults.extend(["cut"] * 4)
    client.projects()
    growing = zip(clock.slept, (0.1, 0.2, 0.4, 0.8), strict=True)
    assert all(most / 2 <= slept <= most for slept, most in growing)
    assert len(set(clock.slept)) == 4
    server.faults.append("429")
    client.projects()
    assert clock.slept[-1] == 1.0


def test_nobody_listening_is_a_lost_connection(server, clock):
    """Its sentence has the address and the cause."""
    client = Client("http://127.0.0.1:9", timeout=5)
    with pytest.raises(ConnectionLost, match=r"http://127\.0\.0\.1:9 did not .* within 5 seconds: .*refused"):
        client.projects()
    assert clock.now == 5


def test_another_server_is_not_taken_for_closecall(server, client, monkeypatch):
    """Some answer every address with a page."""
    monkeypatch.setattr(server, "do", lambda *_: b"<html>")
    with pytest.raises(ApiError, match="is this the address of a Closecall server"):
        client.projects()
