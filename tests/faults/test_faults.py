"""Nothing that is given is lost, doubled or stuck, whatever happens at a commit."""

from __future__ import annotations

import ast
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

import closecall.storage
from tests.faults.browser import Batch, Page, Reviewing
from tests.faults.conftest import Making
from tests.faults.injection import MOMENTS, Faults, Place
from tests.faults.world import BOB, World
from tests.faults.writes import WRITES, Write
from tests.scale import scaled, thorough

WRITE_NOTHING = {"Database.open", "Database.check"}
"""They find out whether something could be written."""

LOSABLE = {"Activity.forget", "Activity.store"}
"""What these write may be lost; ``test_leases.py`` lets them fail."""

APPENDING = "LabelLog.append_answers"

STRIKES = 5
"""Threads decide which commits come: a run in which the chosen one did not come is repeated so often."""

_places: dict[str, Counter[str]] = {}


def run(write: Write, world: World, faults: Faults, place: Place | None, moment: str = "") -> Counter[str]:
    """Do it with this fault, check all that must be true, and return how often each writer committed.

    Whether the fault came is in `faults.has_struck`.
    """
    page, seen = done(write, world, faults, place, moment)
    write.check(page)
    write.shows(page)
    check_all(page)
    if page.card is not None:
        goes_on(page)
        check_all(page)
    another_goes_on(page)
    world.check_log()
    world.restarts += 1
    write.check(page)
    if page.card is not None:
        page.settle()
        goes_on(page)
        check_all(page)
    return seen


def done(
    write: Write, world: World, faults: Faults, place: Place | None, moment: str = ""
) -> tuple[Page, Counter[str]]:
    """Do it with this fault, and return the page, and how often each writer committed."""
    page: Page = write.prepare(world)
    page.start()
    faults.arm(place, moment)
    write.act(page)
    seen = faults.seen
    faults.disarm()
    return page, seen


def check_all(page: Page) -> None:
    page.check_rows()
    page.check_votes()
    page.world.check_settings()


def goes_on(page: Page) -> None:
    """A further answer is taken at the first try, and what is asked next is something else."""
    taken_back = {given["undoes"] for given in page.given}
    done = {
        given["item"]
        for given in page.given
        if given["id"] not in taken_back and given["answer"] not in ("undo", "skip")
    }
    if not isinstance(page, Reviewing):
        assert not done & page.in_view(), "what was answered is asked again"
    before = page.in_view()
    page.answer_more()
    assert page.ask(), "a further answer was not taken"
    assert not page.outbox
    if not isinstance(page, Reviewing):
        assert page.in_view(), "nothing follows"
        answered = {given["item"] for given in page.given[-3 if isinstance(page, Batch) else -1 :]}
        assert not answered & page.in_view(), "the same is asked again"
        assert before != page.in_view()


def another_goes_on(page: Page) -> None:
    """Somebody else gets another item, and their answer is taken at once."""
    other = Page(page.world, BOB)
    assert other.ask()
    if not isinstance(page, Reviewing):
        assert not other.in_view() & page.in_view(), "two people have the same item in view"
    other.start()
    goes_on(other)
    other.check_rows()
    other.check_votes()


def places(write: Write, making: Making, faults: Faults) -> list[Place]:
    """Every commit that comes each time, found by doing it without a fault.

    Where all are tried, it is done twice, and what must be true is checked without a fault too.
    """
    if write.name not in _places:
        with making("sqlite") as world:
            seen = done(write, world, faults, None)[1]
        for _ in range(scaled(quick=0, all=1)):
            with making("sqlite") as world:
                seen &= run(write, world, faults, None)
        _places[write.name] = seen
    found = sorted(_places[write.name].items())
    return [
        Place(writer, n)
        for writer, count in found
        if writer not in WRITE_NOTHING | LOSABLE
        for n in range(1, count + 1)
    ]


@cache
def writers() -> frozenset[str]:
    """Every function of the package that opens a writing transaction, by its qualified name."""
    found = set()
    root = Path(closecall.storage.__file__).parent.parent
    for part in ("storage", "app", "core"):
        for file in (root / part).rglob("*.py"):
            found |= _writers_in(ast.parse(file.read_text("utf-8")), "")
    return frozenset(found)


def _writers_in(node: ast.AST, name: str) -> set[str]:
    found = set()
    for child in ast.iter_child_nodes(node):
        inner = name
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            inner = f"{name}{child.name}"
            found |= _writers_in(child, f"{inner}.<locals>.")
            opens = (c for c in ast.walk(child) if isinstance(c, ast.withitem))
            if any(_is_write(item.context_expr) for item in opens):
                found.add(inner)
        elif isinstance(child, ast.ClassDef):
            found |= _writers_in(child, f"{name}{child.name}.")
        else:
            found |= _writers_in(child, name)
    return found


def _is_write(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "write"
        and not node.args
        and not node.keywords
    )


def cases(write: Write, found: list[Place]) -> list[tuple[Place, str, str]]:
    """Every place, moment and database.

    A quick run tries one of them for every other kind of write, where answers are appended if they are, at
    another moment in each view where the same is done; ``--scale=all`` tries everything on SQLite and each
    place on PostgreSQL at one moment.
    """
    number = WRITES.index(write)
    on_sqlite = [(place, moment, "sqlite") for place in found for moment in MOMENTS]
    on_postgresql = [(place, moment, "postgresql") for place in found for moment in MOMENTS]
    one_each = [on_postgresql[3 * n + (number + n) % 3] for n in range(len(found))]
    appends = [n for n, place in enumerate(found) if place.writer == APPENDING]
    chosen = 3 * (appends[0] if appends else number % max(1, len(found))) + turn_of(write) % 3
    return scaled(
        quick=(on_postgresql if number % 20 == 0 else on_sqlite)[chosen : chosen + 1],
        all=on_sqlite + one_each,
        long=on_sqlite + on_postgresql,
    )


def turn_of(write: Write) -> int:
    """Return another number for each view in which a quick run does the same thing."""
    same = [other for other in WRITES[::2] if done_by(other) == done_by(write)]
    return WRITES.index(same[0]) // 2 + same.index(write) if write in same else 0


def done_by(write: Write) -> str:
    """Return what is done, without the view."""
    return write.name.partition(": ")[2]


@pytest.mark.parametrize(
    "write",
    [thorough(write) if n % 2 else write for n, write in enumerate(WRITES)],
    ids=lambda write: write.name,
)
def test_no_fault_at_a_commit_loses_doubles_or_blocks_anything(write, making, faults, subtests):
    """Before each commit, after it, or with its reply lost: what was given is there once; work goes on."""
    for place, moment, engine in cases(write, places(write, making, faults)):
        with subtests.test(f"{place}, {moment}, {engine}"):
            for _ in range(STRIKES):
                with making(engine) as world:
                    run(write, world, faults, place, moment)
                if faults.has_struck:
                    break
            else:
                with making(engine) as world:
                    seen = run(write, world, faults, None)
                if seen[place.writer] >= place.n:
                    raise AssertionError("there was no such commit")
                pytest.skip("a quick run counts once, and this commit doesn't come each time")


def test_every_kind_of_write_is_among_them(making, faults):
    """A new function that writes to the database needs a row in the table of writes."""
    exercised = {place.writer for write in WRITES for place in places(write, making, faults)}
    assert writers() - WRITE_NOTHING == exercised
