from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pytest

from closecall.app.api.cards import card_of, submit
from closecall.app.api.submit import take
from closecall.app.engine.directions import Direction
from closecall.app.projects.oidc import SignIn
from closecall.app.projects.roles import (
    LONGEST_NAME,
    OPERATOR,
    SOMEBODY,
    Person,
    Roles,
    called,
    known_names,
    name_given,
    name_vouched_for,
    spelled_otherwise,
)
from closecall.app.sessions.new_project import NewProject
from closecall.app.sessions.registry import OpenProject
from closecall.app.sessions.reset import start_afresh
from closecall.app.sessions.review import Asked, Review
from closecall.app.sessions.workspace import Workspace
from closecall.core.errors import InputError
from tests.projects import answer, correct, label, new_project, open_workspace

ADA, BOB = Person("ada", is_owner=True), Person("bob")


@pytest.fixture
def workspace(tmp_path):
    with Workspace(tmp_path, roles=Roles.of(["Ada"])) as workspace:
        yield workspace


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
        with pytest.raises(InputError, match=f"{name!r} has no access"):
            roles.person(name)


@pytest.mark.parametrize("typed", ["", "  ", "a\x00b", "a" * (LONGEST_NAME + 1), "autopilot", "AutoPilot"])
def test_what_is_no_name_is_refused(typed):
    """In one sentence; the simulated annotator's name is nobody else's."""
    with pytest.raises(InputError):
        name_given(typed)


def test_a_name_is_taken_without_its_outer_and_double_spaces():
    assert name_given("  Ada   Lovelace ") == "Ada Lovelace"


def test_a_name_is_one_name_in_either_encoding_of_its_accents():
    """As a Mac and a PC write it, with or without a list of names."""
    assert name_given("Rene\u0301") == name_given("Ren\u00e9") == "Ren\u00e9"
    assert spelled_otherwise("Ren\u00e9", ["Rene\u0301"]) == ["Rene\u0301"]


@pytest.mark.parametrize("listed", ["Carla Mu\u0308ller", "Carla M\u00fcller"])
@pytest.mark.parametrize(
    "typed", ["Carla M\u00fcller", "Carla Mu\u0308ller", "CARLA M\u00dcLLER", "carla  m\u00fcller"]
)
def test_a_typed_name_enters_in_any_letter_case_and_encoding_as_it_is_listed(tmp_path, listed, typed):
    """So that Carla stays one person; other names stay out, and what has answers stays as it is."""
    with Workspace(tmp_path, roles=Roles.of(["Ada"])) as workspace:
        project = new_project(workspace)
        project.roles = project.roles.joined([], [listed, "Bob", "BOB"])
        name = workspace.spelled(name_given(typed))
        assert name == "Carla M\u00fcller"
        assert not project.roles.person(name).is_owner
        assert workspace.spelled("ADA") == "Ada"
        assert workspace.spelled("bob") == "bob"  # two listed names differ as this one does
        with pytest.raises(InputError, match="'Carla Muller' has no access"):
            project.roles.person(workspace.spelled("Carla Muller"))
        label(project.session(annotator="ADA"), 1)
        assert workspace.spelled("ADA") == "ADA"


def test_names_from_a_provider_stay_as_they_are():
    roles = Roles.of(["Ada"], ["Carla M\u00fcller"], must_sign_in=True)
    for name in ("ADA", "CARLA M\u00dcLLER", "Carla Mu\u0308ller"):
        assert roles.spelled(name) == name
        with pytest.raises(InputError, match="has no access"):
            roles.person(name)


def test_an_address_that_was_not_verified_is_nobodys_name():
    """Else whoever types an owner's address at a careless provider would be that owner."""
    assert name_vouched_for({"email": "Ada@example.org", "sub": "1"}) == "ada@example.org"
    assert name_vouched_for({"email": "ada@example.org", "email_verified": False, "sub": "x1"}) == "x1"
    with pytest.raises(InputError, match="neither"):
        name_vouched_for({"email": "ada@example.org", "email_verified": False})
    with pytest.raises(InputError, match="neither"):
        name_vouched_for({"email": "x@y.z", "email_verified": False, "sub": "ada@example.org"})


ALIKE = {
    "a sharp s": ("ada@fu\u00dfball.example", "ada@fussball.example"),
    "a Kelvin sign": ("\u212aarl@example.org", "karl@example.org"),
    "a dotted capital": ("\u0130da@example.org", "i\u0307da@example.org"),
    "a dotless small letter": ("ad\u0131@example.org", "adi@example.org"),
    "a long s": ("\u017fam@example.org", "sam@example.org"),
    "an accent in two pieces": ("jose\u0301@example.org", "jos\u00e9@example.org"),
    "a wide letter": ("\uff41da@example.org", "ada@example.org"),
}


@pytest.mark.parametrize("alike", ALIKE.values(), ids=ALIKE)
@pytest.mark.parametrize("must_sign_in", [True, False])
def test_an_address_that_looks_alike_is_another_persons(alike, must_sign_in):
    """Neither of the two is the other: as an owner, as an annotator, or by the domain."""
    for mine, other in (alike, alike[::-1]):
        theirs = name_vouched_for({"email": other})
        roles = Roles.of([mine], ["somebody@else.example"], must_sign_in=must_sign_in)
        assert roles.person(name_vouched_for({"email": mine})).is_owner
        with pytest.raises(InputError, match="has no access"):
            roles.person(theirs)
        with pytest.raises(InputError, match="has no access"):
            Roles.of(["x"], [mine], must_sign_in=must_sign_in).person(theirs)
        domain, of_another = (name.rpartition("@")[2] for name in (mine, other))
        if domain != of_another:
            with pytest.raises(InputError, match="has no access"):
                Roles.of(["x"], [f"@{domain}"], must_sign_in=must_sign_in).person(f"eve@{of_another}")


def test_capitals_of_an_address_do_not_matter_and_those_of_a_subject_do():
    """Project files name owners as people write them; a provider gives each subject to one person."""
    roles = Roles.of(["Ada@Example.ORG", "abC1"], must_sign_in=True).joined([], ["@Example.org", "xY"])
    assert roles.person("ada@example.org").is_owner
    assert roles.person("abC1").is_owner
    assert not roles.person("EVE@example.org").is_owner
    roles.person("xY")
    for name in ("ABC1", "abc1", "xy"):
        with pytest.raises(InputError, match="has no access"):
            roles.person(name)


def test_a_subject_is_a_persons_at_its_provider_only():
    """Where there are several, the name says which; an address is the same at all of them."""
    one, other = {"sub": "7", "iss": "https://one.example"}, {"sub": "7", "iss": "https://other.example"}
    names = [name_vouched_for(user, with_issuer=True) for user in (one, other)]
    assert names == ["7 at https://one.example", "7 at https://other.example"]
    roles = Roles.of([names[0]], ["x"], must_sign_in=True)
    assert roles.person(names[0]).is_owner
    with pytest.raises(InputError, match="has no access"):
        roles.person(names[1])
    assert name_vouched_for(one) == name_vouched_for(other) == "7"
    address = {"email": "ada@example.org"}
    assert name_vouched_for(one | address, with_issuer=True) == "ada@example.org"


@pytest.mark.parametrize(
    ("providers", "name"), [(("default",), "7"), (("a", "b"), "7 at https://one.example")]
)
def test_the_page_names_the_issuer_where_there_are_several(monkeypatch, providers, name):
    """With one provider names stay as they are in logs that are there."""
    from closecall.app.pages import person

    user = {"sub": "7", "iss": "https://one.example"}
    signed_in = SimpleNamespace(user=SimpleNamespace(is_logged_in=True, to_dict=lambda: user))
    monkeypatch.setattr(person, "st", signed_in)
    sign_in = SignIn("https://label.example", providers)
    workspace = SimpleNamespace(roles=Roles.of(must_sign_in=True), sign_in=sign_in)
    monkeypatch.setattr(person, "current", lambda: workspace)
    assert person.name_at_page() == name


@pytest.mark.parametrize(
    "claims",
    [
        {"sub": "7"},
        {"sub": "7", "iss": ""},
        {"sub": "7", "iss": 7},
        {"sub": "7", "iss": "https://a.example at https://b.example"},
        {"sub": "7", "iss": "https://ada@example.org"},
        {"sub": " 7", "iss": "https://a.example"},
        {"sub": "7  8", "iss": "https://a.example"},
        {"sub": "7" * 300, "iss": "https://a.example"},
    ],
)
def test_a_token_that_could_be_two_peoples_is_nobodys(claims):
    """Without an issuer, or with a subject that would have to be tidied up."""
    with pytest.raises(InputError):
        name_vouched_for(claims, with_issuer=True)


def test_known_names_come_once_each():
    assert known_names(["bob", "Ada", "bob", SOMEBODY, "autopilot"], but_for={"Ada"}) == ["bob"]


def test_the_project_file_names_people_too(tmp_path, workspace, project):
    """Beside those whom the command line names."""
    file = project.folder / "project.json"
    said = json.loads(file.read_text())
    assert "owners" not in said
    project.close()
    file.write_text(json.dumps(said | {"owners": ["Cleo"], "annotators": ["bob"]}))
    again = OpenProject(project.folder, workspace.roles)
    try:
        assert all(again.roles.person(name).is_owner for name in ("ada", "cleo"))
        assert not again.roles.person("bob").is_owner
        with pytest.raises(InputError, match="has no access"):
            again.roles.person("eve")
    finally:
        again.close()
    file.write_text(json.dumps(said | {"owners": "Cleo"}))
    with pytest.raises(InputError, match="lists of names"):
        OpenProject(project.folder)


SEVEN = Direction(("a seven",), (), np.ones(3, np.float32))


def test_only_an_owner_changes_what_concerns_everybody(workspace, project):
    """The services refuse, whatever the page shows; nothing is changed."""
    session = project.session(annotator="bob")
    concept = session.concept.record
    card = card_of(session)
    forbidden = {
        "create projects": lambda: workspace.create(NewProject("digits:100", "Is this a 3?"), by=BOB),
        "add questions": lambda: project.add_concept("Is this a 3?", by=BOB),
        "reset a question": lambda: start_afresh(project, concept, by=BOB),
        "set the audit's share": lambda: session.set_audit_share(0.5, by=BOB),
        "withdraw a description": lambda: session.withdraw_description(SEVEN, by=BOB),
        "add examples": lambda: session.add_examples([b""], by=BOB),
        "set the number of people": lambda: project.set_overlap(2, 0.5, by=BOB),
        "describe the images": lambda: project.descriptions.build("edges", by=BOB),
        "stop describing": lambda: project.descriptions.stop("edges", by=BOB),
        "choose the description": lambda: workspace.use_description(project.key, "edges", by=BOB),
        "decide": lambda: submit(project.decisions(session), [answer(card, "yes")], BOB),
    }
    for what, attempt in forbidden.items():
        with pytest.raises(InputError, match=f"Only an owner may {what}.*bob is not one"):
            attempt()
    assert [other.id for other in project.concepts()] == [concept.id]
    assert len(workspace.projects()) == 1
    assert (session.concept.audit_share, project.file.overlap, project.log.position()) == (0, 1, 0)
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
    stolen = answer(card_of(adas), "yes", session=adas.id)
    card = take(project, bobs, [stolen], BOB)
    assert (card["acked"], card["refused"], project.log.position()) == ([], [], 0)
    assert correct(Review(bobs, BOB), [stolen])["acked"] == []
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
    settled = correct(own, [given])
    assert "no answer of yours" in settled["refused"][0]["reason"]
    mine = listed["rows"][0]["events"][-1]
    correction = given | {"item": listed["rows"][0]["item"], "corrects": mine["id"], "answer": "skip"}
    assert correct(own, [correction])["acked"] == [given["id"]]


def zone():
    from datetime import UTC

    return UTC


def test_the_page_calls_people_by_name_and_stores_what_is_unique():
    """Two people may bear one name; what can't be read is no name."""
    token = {"email": "ada@example.org", "name": "Ada  Lovelace"}
    assert called(token, name_vouched_for(token)) == "Ada Lovelace"
    for name in (None, "", "\x00", "autopilot", 7):
        assert called(token | {"name": name}, "ada@example.org") == "ada@example.org"


def test_a_name_in_other_letters_is_known_by_its_spelling():
    """Not if it is known as it was typed, nor are the autopilot and people without a name offered."""
    known = ["Ada", "ADA", "Émile", "Bob", "annotator", "autopilot"]
    assert set(spelled_otherwise("aDa", known)) == {"Ada", "ADA"}
    assert spelled_otherwise("Ada", known) == []
    assert spelled_otherwise("ÉMILE", known) == ["Émile"]
    assert spelled_otherwise("Annotator", known) == []
    assert spelled_otherwise("Eve", known) == []


def test_a_workspace_is_open_to_everybody_unless_told_otherwise(tmp_path):
    with open_workspace(tmp_path) as workspace:
        assert workspace.roles.person("anybody").is_owner
