"""Paths that a person typed: each that can't exist has its sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from closecall.app.pages.pool_sources import source_word
from closecall.app.projects.folder_classes import given_source
from closecall.app.projects.folders import offer
from closecall.app.sessions.new_project import NewProject
from closecall.core.errors import InputError
from closecall.core.files.typed import existing_path, typed_path

ODD = [
    ("~nosuchuser/pics", "there is no home folder ~nosuchuser"),
    (f"/{'a' * 300}", "File name too long: /aaaa"),
    ("/a\0b", "null character"),
]


@pytest.mark.parametrize(("text", "sentence"), ODD)
def test_a_path_that_can_t_exist_is_refused_in_one_sentence(text: str, sentence: str) -> None:
    """On its own, as a source, and as a pool; no folders are offered for it."""
    for refusing in (
        lambda: typed_path(text),
        lambda: given_source(text),
        lambda: given_source(f"tar:{text}"),
        lambda: NewProject(text, "Is it a leaf?").described("/"),
        lambda: source_word("pool", {"pool": text}),
    ):
        with pytest.raises(InputError, match=sentence) as caught:
            refusing()
        assert len(str(caught.value)) < 200
    assert existing_path(text) is None
    assert offer(text, []).folders == ()


def test_a_home_folder_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """~ stands for it; a path that could exist is no error."""
    monkeypatch.setenv("HOME", str(tmp_path))
    assert typed_path("~/a") == tmp_path / "a"
    assert existing_path("~/a") is None
    assert existing_path("~") == tmp_path
