"""Labeling of images that come across a slow network: the browser has the next one when the answer comes."""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from closecall.app.api.cards import card_of, submit
from closecall.app.sessions.labeling import LabelingSession
from closecall.app.sessions.new_project import NewProject
from closecall.core.pool.build import build
from closecall.core.sources import source_from
from closecall.core.sources.remote import fetching
from tests import s3_kit, web_kit
from tests.projects import answer, open_workspace

N = 160
ANSWERS = 12
DELAY = 0.05


def path_of(name: str | int) -> str:
    """Where the server has an image; the item's name ends with its number."""
    return f"/photos/{name}.png"


@contextmanager
def http(_patch: pytest.MonkeyPatch) -> Iterator[tuple[web_kit.Server, str]]:
    with web_kit.serving({path_of(i): web_kit.picture(i) for i in range(N)}) as server:
        yield server, server.address


@contextmanager
def s3(patch: pytest.MonkeyPatch) -> Iterator[tuple[s3_kit.Storage, str]]:
    with s3_kit.serving_storage() as storage:
        client = s3_kit.client(storage.address, patch)
        client.create_bucket(Bucket="photos")
        for i in range(N):
            client.put_object(Bucket="photos", Key=f"{i}.png", Body=web_kit.picture(i))
        yield storage, "s3:/"


def coming(session: LabelingSession) -> dict:
    """The card, as soon as it has what follows."""
    card = card_of(session)
    while card["next_is_coming"]:
        card = card_of(session)
    return card


def number_of(item: dict) -> int:
    found = re.search(r"(\d+)\.png$", item["alt"])
    assert found
    return int(found[1])


def pixels(encoded: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(encoded)).convert("RGB"))


@pytest.mark.parametrize("serving", [http, pytest.param(s3, marks=pytest.mark.thorough)])
def test_the_next_picture_is_there_when_the_answer_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, serving
) -> None:
    """With an empty cache, 50 ms per request, cuts and new refusals: an answer needs no further request."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "while building"))
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setattr(fetching, "FIRST_PAUSE", 0.01)
    with serving(monkeypatch) as (server, address):
        file = tmp_path / "list.txt"
        file.write_text("".join(f"{address}{path_of(i)}\n" for i in range(N)), "utf-8")
        build(source_from(f"urls:{file}"), tmp_path / "pool")
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "while labeling"))
        server.delay = DELAY
        server.faults = {
            **{path_of(i): ["cut", 200] for i in range(0, N, 4)},
            **{path_of(i): [403] for i in range(1, N, 16)},
        }
        shown = 0
        with open_workspace(tmp_path / "projects") as workspace:
            project = workspace.project(workspace.create(NewProject(str(tmp_path / "pool"), "Is it red?")))
            session = project.session()
            for place in range(ANSWERS):
                card = coming(session)
                word = ("no", "yes")[place % 2] if card["item"]["src"] else "skip"
                view = card["next"][word]
                n_before = len(server.asked)
                after = submit(session, [answer(card, word, next=view["item"]["selection"])])
                number = number_of(after["item"])
                assert after["item"]["id"] == view["item"]["id"]
                if server.faults.get(path_of(number)) == [403]:
                    assert "403" in after["item"]["problem"]
                    continue
                assert path_of(number) not in server.asked[n_before:]
                assert after["item"]["src"] == card["pictures"][str(after["item"]["id"])]
                sent = base64.b64decode(after["item"]["src"].partition(",")[2])
                assert np.array_equal(pixels(sent), pixels(web_kit.picture(number)))
                shown += 1
        assert shown >= ANSWERS / 2
        assert sum(path_of(i) in server.asked for i in range(0, N, 4)) > 0
