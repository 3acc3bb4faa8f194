"""Out to Label Studio and back: each answer on its author and item, nothing twice, deletions withdrawn."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from closecall.app.exchange.importing import take_in
from closecall.app.exchange.reading import Manner
from closecall.core.errors import InputError
from closecall.storage import Concepts, LabelLog, StorageError
from closecall.storage.exports import label_rows
from tests.folders import fresh_folder
from tests.peers.imitation import OWNER, SECOND, Imitation
from tests.peers.trial import USERS, Trial, chooses_again, clears, result, says, state_of, write
from tests.storage_kit import make_concept, sit_down
from tests.unit.app.exchange.test_exchange import empty_database, pool


@pytest.fixture
def trial():
    with empty_database() as database:
        yield Trial(database, pool(), Imitation())


def test_what_comes_back_unchanged_changes_nothing(trial):
    """Not even what was undone, decided, skipped, or answered for an audit."""
    before, position = state_of(trial.database), LabelLog(trial.database).position()
    for _ in range(3):
        trial.goes_out()
        imported = trial.comes_back(all_tasks=False)
        assert (imported.new, imported.withdrawn, imported.missing) == (0, 0, 0)
    assert (state_of(trial.database), LabelLog(trial.database).position()) == (before, position)


def test_each_edit_is_its_author_s(trial):
    """And what was deleted or cleared there is withdrawn here, unless it has changed here since."""
    trial.goes_out()
    expected = trial.is_edited()
    imported = trial.comes_back()
    assert state_of(trial.database) == expected
    assert imported.kept == 1
    audited = LabelLog(trial.database).state(1).audited_items().tolist()
    assert audited == [13]
    expected = trial.is_edited_again(expected)
    trial.comes_back()
    assert state_of(trial.database) == expected
    for _ in range(3):
        trial.goes_out()
        trial.comes_back()
        assert state_of(trial.database) == expected


def test_what_was_cleared_and_chosen_again_is_an_answer_again(trial):
    """As often as somebody does so."""
    trial.goes_out()
    trial.peer.add(SECOND, 4, {"result": [result("seven", "yes")]})
    trial.comes_back()
    expected = state_of(trial.database)
    assert expected["seven", 4] == ({"berta": "yes"}, None)
    for _ in range(2):
        trial.peer.edit(SECOND, 4, 0, clears("seven"))
        trial.comes_back()
        assert ("seven", 4) not in state_of(trial.database)
        trial.peer.edit(SECOND, 4, 0, chooses_again("seven", "yes"))
        trial.comes_back()
        assert state_of(trial.database) == expected


def test_times_come_along(trial):
    """Lead times and times of Label Studio's answers; those of ours when they go into another project."""
    trial.comes_back_with_times()
    log = LabelLog(trial.database)
    with empty_database() as other:
        for concept in Concepts(trial.database).all():
            Concepts(other).create(concept.name, concept.question)
        take_in(other, pool(), write(trial.exported(), trial_file()), manner=Manner(users=USERS))
        assert state_of(other) == state_of(trial.database)
        for concept_id in (1, 2):
            theirs = {its.id: its for its in log.answers_after(concept_id)}
            for its in LabelLog(other).answers_after(concept_id):
                assert its.browser_time == theirs[its.id].browser_time
                assert its.time_taken_ms == theirs[its.id].time_taken_ms


def trial_file() -> Path:
    """A file that is not there yet."""
    return fresh_folder() / "tasks.json"


def test_a_deletion_is_seen_where_its_task_is_missing(trial):
    """Tasks without annotations are left out: a message says so, and answers are withdrawn on request."""
    trial.goes_out()
    trial.peer.delete(2, 0)
    trial.peer.delete(7, 2)
    imported = trial.comes_back(all_tasks=False)
    assert (imported.missing, imported.withdrawn) == (1, 1)
    assert ("seven", 2) in state_of(trial.database)
    imported = trial.comes_back(all_tasks=False, withdraw_missing=True)
    assert (imported.missing, imported.withdrawn) == (0, 1)
    assert ("seven", 2) not in state_of(trial.database)
    assert state_of(trial.database)["seven", 7] == ({"ada": "yes", "berta": "no"}, None)


def test_another_project_s_file_withdraws_nothing(trial):
    """Not the answers made in another Label Studio project about the same items, nor those never exported."""
    trial.goes_out()
    trial.peer.add(SECOND, 4, {"result": [result("seven", "yes")]})
    trial.comes_back()
    trial.goes_out()
    trial.ada.says("yes", 17)
    before = state_of(trial.database)
    imported = trial.comes_back(withdraw_missing=True)
    assert imported.withdrawn == 0
    assert state_of(trial.database) == before


def test_a_withdrawn_answer_does_not_bring_back_an_earlier_one(trial):
    """Who had corrected an answer before has none after its annotation was deleted."""
    trial.ada.says("no", 0)
    trial.goes_out()
    trial.peer.delete(0, 0)
    trial.comes_back()
    assert ("seven", 0) not in state_of(trial.database)


def test_an_old_file_does_not_undo_what_was_changed_here(trial):
    """What went out is known, even if its annotator has changed it or taken it back."""
    trial.goes_out()
    trial.ada.says("no", 0)
    trial.ada.undoes(trial.ada.says("yes", 17))
    before = state_of(trial.database)
    trial.comes_back()
    assert state_of(trial.database) == before


def test_users_are_asked_for(trial):
    """A number is nobody: the sentence says which option is missing, and nothing is stored."""
    trial.goes_out()
    trial.peer.edit(SECOND, 0, 0, says("seven", "no"))
    trial.peer.add(OWNER, 4, {"result": [result("seven", "no")]})
    file = trial_file()
    file.write_bytes(trial.peer.exported())
    position = LabelLog(trial.database).position()
    with pytest.raises(InputError, match=r"users 1, 2 of Label Studio: .* --user 1=NAME --user 2=NAME"):
        take_in(trial.database, pool(), file)
    with pytest.raises(InputError, match=r"user 2 of Label Studio: .* --user 2=NAME$"):
        take_in(trial.database, pool(), file, manner=Manner(users={"1": "olga"}))
    assert LabelLog(trial.database).position() == position


def test_an_e_mail_address_is_a_name(trial):
    """Where the file has it; a name that is given goes before it."""
    trial.goes_out()
    trial.peer.edit(SECOND, 0, 0, says("seven", "no"))
    tasks = json.loads(trial.peer.exported())
    (edited,) = (task for task in tasks if task["data"]["item"] == 0)
    edited["annotations"][0]["completed_by"] = {"id": SECOND, "email": "berta@example.org"}
    take_in(trial.database, pool(), write(tasks, trial_file()))
    assert state_of(trial.database)["seven", 0][0] == {"ada": "yes", "berta@example.org": "no"}
    edited["annotations"][0]["updated_at"] = "2040-01-01T00:00:00Z"
    says("seven", "unsure")(edited["annotations"][0])
    named = Manner(users={"berta@example.org": "berta"})
    take_in(trial.database, pool(), write(tasks, trial_file()), manner=named)
    assert state_of(trial.database)["seven", 0][0] == {"ada": "yes", "berta": "unsure"}


def test_a_copy_without_meta_still_says_whose_answers_are_whose(trial):
    """A storage that is synchronized keeps the results only; a duplicate is its maker's."""
    trial.goes_out()
    trial.peer.edit(SECOND, 0, 0, says("seven", "no"))
    trial.peer.add(SECOND, 10, {"result": trial._sent(10)})
    tasks = json.loads(trial.peer.exported())
    for task in tasks:
        task["meta"] = {}
        for annotation in task["annotations"]:
            annotation["import_id"] = None
    before = state_of(trial.database)
    take_in(trial.database, pool(), write(tasks, trial_file()), manner=Manner(users=USERS))
    before["seven", 0] = ({"ada": "yes", "berta": "no"}, None)
    before["seven", 10] = ({"ada": "yes", "berta": "yes"}, None)
    assert state_of(trial.database) == before


def test_a_file_of_an_earlier_version_is_read(trial):
    """Its results have the annotator's name only; an edit is its author's there, too."""
    trial.goes_out()
    trial.peer.edit(SECOND, 0, 0, says("seven", "no"))
    tasks = json.loads(trial.peer.exported())
    for task in tasks:
        task["meta"] = {}
        for annotation in task["annotations"]:
            annotation["import_id"] = None
            for each in annotation["result"]:
                each["meta"] = {name: each["meta"][name] for name in ("text", "purpose")}
                del each["id"]
    before = state_of(trial.database)
    take_in(trial.database, pool(), write(tasks, trial_file()), manner=Manner(users=USERS))
    before["seven", 0] = ({"ada": "yes", "berta": "no"}, None)
    assert state_of(trial.database) == before


def test_only_owners_decide(trial):
    """A ground truth that an annotator marked is no adjudication where owners are named."""
    trial.goes_out()
    trial.peer.edit(SECOND, 9, 0, lambda annotation: annotation.update(ground_truth=True))
    imported = trial.comes_back(may_decide=lambda name: name == "olga")
    assert imported.undecided == 1
    assert state_of(trial.database)["seven", 9] == ({"ada": "no"}, None)


def test_ground_truths_that_nobody_marked_decide_nothing():
    """Label Studio marks what it imports, unless the file says otherwise."""
    annotation = {"id": 1, "completed_by": 1, "result": [result("seven", "yes")], "ground_truth": True}
    task = {"id": 1, "data": {"item": 1}, "created_at": "2026-01-01T00:00:00Z", "annotations": [annotation]}
    for by, decision in ((None, None), (1, "yes")):
        annotation["updated_by"] = by
        with empty_database() as database:
            make_concept(database)
            take_in(database, pool(), write([task], trial_file()), manner=Manner(users=USERS))
            assert state_of(database) == {("seven", 1): ({"olga": "yes"}, decision)}


@pytest.mark.parametrize("kind", ["JSON-MIN", "CSV or TSV"])
def test_exports_that_do_not_say_who_edited_are_refused(kind, tmp_path):
    """The sentence names the one that does."""
    line = {"item": 1, "seven": "yes", "annotator": 1, "annotation_id": 3, "lead_time": 1.0, "created_at": ""}
    with empty_database() as database:
        make_concept(database)
        if kind == "JSON-MIN":
            file = write([line], tmp_path / "project.json")
        else:
            file = tmp_path / "project.tsv"
            file.write_text("\t".join(line) + "\n" + "\t".join(map(str, line.values())) + "\n")
        with pytest.raises(StorageError, match=f"Label Studio's export.* {kind}.*export as JSON"):
            take_in(database, pool(), file)
        assert not list(label_rows(database))


def test_a_skip_is_about_the_questions_that_were_asked():
    """A cancelled annotation of another program's tasks names none: those that the file has answers about."""
    skipped = {"id": 7, "completed_by": 1, "updated_by": 1, "result": [], "was_cancelled": True}
    said = {"id": 8, "completed_by": 1, "updated_by": 1, "result": [result("eight", "no")]}
    tasks = [
        {"id": item, "data": {"item": item}, "created_at": "2026", "annotations": [each]}
        for item, each in enumerate((skipped, said))
    ]
    with empty_database() as database:
        for name in ("seven", "eight"):
            make_concept(database, name)
        take_in(database, pool(), write(tasks, trial_file()), manner=Manner(users=USERS))
        assert state_of(database) == {
            ("eight", 0): ({"olga": "skip"}, None),
            ("eight", 1): ({"olga": "no"}, None),
        }


def test_two_annotations_of_one_user_are_one_answer():
    """The later one, whatever their order in the file."""

    def annotation(number: int, word: str, when: str) -> dict:
        return {
            "id": number,
            "completed_by": 1,
            "updated_by": 1,
            "created_at": when,
            "updated_at": when,
            "result": [result("seven", word)],
        }

    both = [annotation(8, "no", "2026-02-02T00:00:00Z"), annotation(7, "yes", "2026-01-01T00:00:00Z")]
    for given in (both, both[::-1]):
        task = {"id": 1, "data": {"item": 1}, "created_at": "2026", "annotations": given}
        with empty_database() as database:
            make_concept(database)
            take_in(database, pool(), write([task], trial_file()), manner=Manner(users=USERS))
            assert state_of(database) == {("seven", 1): ({"olga": "no"}, None)}


def test_an_answer_here_and_one_there(trial):
    """Two people answer the same item, one here and one there: both count, on their own names."""
    trial.goes_out()
    sit_down(trial.database, Concepts(trial.database).named("seven"), "carl").says("no", 4)
    trial.peer.add(SECOND, 4, {"result": [result("seven", "yes")]})
    trial.comes_back()
    assert state_of(trial.database)["seven", 4] == ({"carl": "no", "berta": "yes"}, None)
