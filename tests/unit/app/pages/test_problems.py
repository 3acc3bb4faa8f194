from __future__ import annotations

from typing import Any

import pytest

from closecall.app.pages import problems
from closecall.app.projects.roles import Roles
from closecall.core.errors import InputError
from closecall.core.sources.words import source_from
from closecall.storage import StorageError


@pytest.fixture
def shown(monkeypatch) -> list[str]:
    """Return the errors shown, without the signs that escape Markdown."""
    found: list[str] = []
    monkeypatch.setattr(problems.st, "error", lambda text: found.append(text.replace("\\", "")))
    return found


def test_a_problem_is_shown_as_a_sentence(shown, tmp_path):
    """Messages begin in lower case, because a command shows them after a colon; a page shows them alone."""
    with pytest.raises(InputError) as caught:
        source_from(str(tmp_path / "nowhere"))
    problems.show_problem(caught.value)
    assert shown[0].startswith("There is no folder ")


def test_a_person_without_access_is_called_as_they_typed_it(shown):
    """Also if the name is in lower case."""
    with pytest.raises(InputError) as caught:
        Roles.of(["ada"], ["bob"]).person("carla m\u00fcller")
    problems.show_problem(caught.value)
    assert shown == ["'carla m\u00fcller' has no access to this project: ask an owner"]


def test_what_is_wrong_with_the_database_is_a_sentence_beside_the_card(monkeypatch):
    """Before the number of the answers that wait."""
    monkeypatch.setattr(problems, "state", {("shown", "card"): {"item": 1}})

    def make() -> dict[str, Any]:
        raise StorageError("the database cannot be reached", "unreachable")

    kept = problems.shown_or_kept("card", make)
    assert kept == {"item": 1, "acked": [], "refused": [], "message": "The database cannot be reached"}


@pytest.mark.parametrize("message", ["birds.csv has no column item", "n_pairs must be at least 1, got 0"])
def test_a_name_at_the_beginning_of_a_problem_is_not_changed(shown, message):
    """A file has its own name, and a parameter too."""
    problems.show_problem(message)
    assert shown == [message]
