from __future__ import annotations

import json

from click.testing import CliRunner

from closecall.app.cli.main import main
from closecall.app.experiments.bench import words
from closecall.app.sessions.word_search import nearest
from closecall.core.pool.build import build
from tests.fakes import FakeSource
from tests.projects import digits_pool


def test_search_and_product_are_timed_in_turn(tmp_path, monkeypatch):
    """The page's own search, as often as the product, and not before both are warm."""
    asked: list[str] = []
    monkeypatch.setattr(words, "nearest", lambda pool, w: asked.append("search") or nearest(pool, w))
    product = words.pool_product
    monkeypatch.setattr(words, "pool_product", lambda *given: asked.append("scan") or product(*given))
    file = tmp_path / "words.json"
    run = ["bench", "words", "--pool", str(digits_pool()), "--queries", "5", "--json", str(file)]
    done = CliRunner().invoke(main, run)
    assert done.exit_code == 0, done.output
    search, scan = json.loads(file.read_text())
    assert (search["way"], scan["way"], scan["ratio"]) == ("search", "blas-scan", 1)
    assert search["queries"] == 5
    assert search["ratio"] > 0
    turns = [asked[place : place + 2] for place in range(0, len(asked), 2)]
    assert turns == [["search", "scan"], ["scan", "search"]] * 4
    for row in (search, scan):
        assert 0 < row["median_ms"] <= row["p95_ms"] <= row["max_ms"]


def test_a_pool_without_held_out_items_is_refused(tmp_path):
    """In a sentence."""
    pool = build(FakeSource(50, 8), tmp_path / "pool")
    done = CliRunner().invoke(main, ["bench", "words", "--pool", str(pool.path)])
    assert done.exit_code == 2
    assert len(done.stderr.strip().splitlines()) == 1
