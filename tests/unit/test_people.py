from __future__ import annotations

import json

import pytest

from app.afresh import start_afresh
from app.people import (
    LONGEST_NAME,
    OPERATOR,
    SOMEBODY,
    Person,
    Roles,
    called,
    known_names,
    name_given,
    name_vouched_for,
)
from app.project import Project
from app.review import Asked, Review
from app.taking import take
from app.workspace import NewProject, Workspace
from core.errors import InputError
from tests.projects import answer, label, new_project, open_workspace

ADA, BOB = Person("ada", is_owner=True), Person("bob")


@pytest.fixture
def workspace(tmp_path):
    with Workspace(tmp_path, roles=Roles.of(["Ada"])) as workspace:
        yield workspace


@pytest.fixture
def project(workspace) -> Project:
    return new_project(workspace)


def test_where_nobody_is_named_everybody_is_an_owner():
    """Who labels alone on the own machine never meets a role."""
    assert Roles().person(SOMEBODY).is_owner
    assert not Roles.of(["ada"]).person(SOMEBODY).is_owner
    assert Roles.of(["ada"]).person("Ada").is_owner


def test_where_everybody_signs_in_nobody_is_an_owner_unless_named():
    """A provider lets in whoever has an account there."""
    roles = Roles.of(must_sign_in=True)
    assert not roles.person("ada@example.org").is_owner
    assert roles.joined(["Ada@Example.org"], []).person("ada@example.org").is_owner


def test_only_those_who_are_named_may_enter():
    """By name or by domain; owners need not be named twice."""
    roles = Roles.of(["ada"], ["bob", "@example.org"])
    for name in ("ada", "bob", "Bob", "eve@example.org"):
        roles.person(name)
    for name in ("eve", "eve@example.com", "eve@sub.example.org", "example.org"):
        with pytest.raises(InputError, match=f"{name} may not enter"):
            roles.person(name)


@pytest.mark.parametrize("typed", ["", "  ", "a\x00b", "a" * (LONGEST_NAME + 1), "autopilot", "AutoPilot"])
def test_what_is_no_name_is_refused(typed):
    """In one sentence; the simulated annotator's name is nobody else's."""
    with pytest.raises(InputError):
        name_given(typed)


def test_a_name_is_taken_without_its_outer_and_double_spaces():
    assert name_given("  Ada   Lovelace ") == "Ada Lovelace"


def test_an_address_that_was_not_verified_is_nobodys_name():
    """Else whoever types an owner's address at a careless provider would be that owner."""
    assert name_vouched_for({"email": "Ada@example.org", "sub": "1"}) == "ada@example.org"
    assert name_vouched_for({"email": "ada@example.org", "email_verified": False, "sub": "x1"}) == "x1"
    with pytest.raises(InputError, match="neither"):
        name_vouched_for({"email": "ada@example.org", "email_verified": False})
    with pytest.raises(InputError, match="neither"):
        name_vouched_for({"email": "x@y.z", "email_verified": False, "sub": "ada@example.org"})


def test_known_names_come_once_each():
    assert known_names(["bob", "Ada", "bob", SOMEBODY, "autopilot"], but_for={"Ada"}) == ["bob"]


def test_the_project_file_names_people_too(tmp_path, workspace, project):
    """Beside those whom the command line names."""
    file = project.folder / "project.json"
    said = json.loads(file.read_text())
    assert "owners" not in said
    project.close()
    file.write_text(json.dumps(said | {"owners": ["Cleo"], "annotators": ["bob"]}))
    again = Project(project.folder, workspace.roles)
    try:
        assert all(again.roles.person(name).is_owner for name in ("ada", "cleo"))
        assert not again.roles.person("bob").is_owner
        with pytest.raises(InputError, match="may not enter"):
            again.roles.person("eve")
    finally:
        again.close()
    file.write_text(json.dumps(said | {"owners": "Cleo"}))
    with pytest.raises(InputError, match="lists of names"):
        Project(project.folder)


def test_only_an_owner_changes_what_concerns_everybody(workspace, project):
    """The services refuse, whatever the page shows; nothing is changed."""
    session = project.session(annotator="bob")
    concept = session.concept.record
    card = session.card()
    forbidden = {
        "make projects": lambda: workspace.create(NewProject("digits:100", "Is this a 3?"), by=BOB),
        "add questions": lambda: project.add_concept("Is this a 3?", by=BOB),
        "start afresh": lambda: start_afresh(project, concept, by=BOB),
        "set the audit's share": lambda: session.set_audit_share(0.5, by=BOB),
        "add examples": lambda: session.add_examples([b""], by=BOB),
        "set how many people": lambda: project.set_overlap(2, 0.5, by=BOB),
        "decide": lambda: project.decisions(session).submit([answer(card, "yes")], BOB),
    }
    for what, attempt in forbidden.items():
        with pytest.raises(InputError, match=f"Only an owner may {what}.*bob is none"):
            attempt()
    assert [other.id for other in project.concepts()] == [concept.id]
    assert len(workspace.projects()) == 1
    assert (session.audit_share, project.file.overlap, project.log.position()) == (0, 1, 0)
    assert project.add_concept("Is this a 3?", by=ADA).question == "Is this a 3?"
    assert OPERATOR.is_owner


def test_projects_that_one_may_not_enter_are_not_listed(workspace, project):
    """Not even by their questions."""
    project.roles = project.roles.joined([], ["bob"])
    assert workspace.projects("eve") == []
    assert len(workspace.projects("bob")) == len(workspace.projects("ada")) == 1


def test_nobody_gets_another_persons_session(project):
    """Whoever names one gets one of their own; the autopilot's is the owners'."""
    adas = project.session(annotator="ada")
    bobs = project.session_of(BOB, adas.id)
    assert (bobs.annotator, bobs.id) == ("bob", project.session_of(BOB, bobs.id).id)
    assert project.session_of(ADA, adas.id) is adas
    autopilots = project.session(annotator="autopilot")
    assert project.session_of(ADA, autopilots.id) is autopilots
    assert project.session_of(BOB, autopilots.id).annotator == "bob"


def test_nobody_answers_in_another_persons_session(project):
    """An answer that names it is neither stored nor settled: it waits for that person."""
    adas, bobs = project.session(annotator="ada"), project.session(annotator="bob")
    stolen = answer(adas.card(), "yes", session=adas.id)
    card = take(project, bobs, [stolen], BOB)
    assert (card["acked"], card["refused"], project.log.position()) == ([], [], 0)
    assert Review(bobs, BOB).submit([stolen])["acked"] == []
    assert take(project, adas, [stolen], ADA)["acked"] == [stolen["id"]]


def test_an_annotator_reviews_own_answers_only(project):
    """Others' are neither listed nor counted nor answered; an owner sees them all."""
    adas, bobs = project.session(annotator="ada"), project.session(annotator="bob")
    label(adas, 5)
    label(bobs, 3)
    own, all_ = Review(bobs, BOB), Review(adas, ADA)
    listed = own.page(Asked(view="all"), zone())
    assert (listed["views"]["all"], all_.page(Asked(view="all"), zone())["views"]["all"]) == (3, 8)
    assert {e["annotator"] for row in listed["rows"] for e in row["events"]} == {"bob"}
    theirs = next(iter(project.log.answers_after(1)))
    given = answer({"item": {"id": theirs.item, "selection": None}}, "no", session=bobs.id)
    settled = own.submit([given])
    assert "no answer of yours" in settled["refused"][0]["reason"]
    mine = listed["rows"][0]["events"][-1]
    correction = given | {"item": listed["rows"][0]["item"], "corrects": mine["id"], "answer": "skip"}
    assert own.submit([correction])["acked"] == [given["id"]]


def zone():
    from datetime import UTC

    return UTC


def test_the_page_calls_people_by_name_and_stores_what_is_unique():
    """Two people may bear one name; what can't be read is no name."""
    token = {"email": "ada@example.org", "name": "Ada  Lovelace"}
    assert called(token, name_vouched_for(token)) == "Ada Lovelace"
    for name in (None, "", "\x00", "autopilot", 7):
        assert called(token | {"name": name}, "ada@example.org") == "ada@example.org"


def test_a_workspace_is_open_to_everybody_unless_told_otherwise(tmp_path):
    with open_workspace(tmp_path) as workspace:
        assert workspace.roles.person("anybody").is_owner
