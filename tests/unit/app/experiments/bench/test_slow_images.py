from __future__ import annotations

import io
import os

import numpy as np
from PIL import Image

from closecall.app.display.thumbnails import CARD_SIZE, encode
from closecall.app.experiments.bench.slow_images import CUT_ONE_IN, REFUSED_ONE_IN, across_network
from closecall.core.pool.pool import Pool
from closecall.core.sources.remote import fetching
from tests.projects import digits_pool

N = 120


def test_the_images_are_those_of_the_pool(tmp_path, monkeypatch):
    """With their classes, but without the refused ones; a cut one is read again. Nothing is cached yet."""
    monkeypatch.setattr(fetching, "FIRST_PAUSE", 0.01)
    given = Pool.open(digits_pool())
    before = dict(os.environ)
    with across_network(given, N, 0.001, tmp_path / "network") as pool:
        ids = np.sort([*pool.ids, *pool.held_out.ids])
        items = [int(name.rpartition("/")[2]) for name in pool.source.names(ids)]
        expected = set(given.ids[:N].tolist())
        assert set(items) == {item for item in expected if item % REFUSED_ONE_IN}
        assert any(item % CUT_ONE_IN == 1 for item in items)
        problems = pool.problems()
        assert len(problems) == N - len(items)
        assert all("403" in problem.reason for problem in problems)
        assert [pool.classes[place] for place in pool.truth(ids)] == [
            given.classes[place] for place in given.truth(items)
        ]
        assert not (tmp_path / "network" / "empty").exists()
        for number, item in zip(ids.tolist(), items, strict=True):
            sent, _ = encode(given.source.image(item, CARD_SIZE))
            assert np.array_equal(pool.source.image(number, CARD_SIZE), Image.open(io.BytesIO(sent)))
        assert (tmp_path / "network" / "empty").exists()
    assert dict(os.environ) == before
