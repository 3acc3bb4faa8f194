from __future__ import annotations

import pytest

from closecall.app.pages import problems
from closecall.core.errors import InputError
from closecall.core.sources.words import source_from


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


@pytest.mark.parametrize("message", ["birds.csv has no column item", "n_pairs must be at least 1, got 0"])
def test_a_name_at_the_beginning_of_a_problem_is_not_changed(shown, message):
    """A file has its own name, and a parameter too."""
    problems.show_problem(message)
    assert shown == [message]
