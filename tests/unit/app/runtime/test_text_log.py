"""The log as text: an outage is one line, and what nobody expected keeps its traceback."""

from __future__ import annotations

import logging

import pytest

from closecall.app.runtime.background import Troubles
from closecall.app.runtime.text_log import QUIET_SECONDS, Outages
from closecall.storage import StorageError
from closecall.storage.errors import Kind

ADDRESS = "postgresql://h/labels"


class Written(logging.Handler):
    """The lines of the log, as on stderr."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.now = 0.0
        self.lines: list[str] = []
        self.addFilter(Outages(lambda: self.now))

    def emit(self, record: logging.LogRecord) -> None:
        self.lines += self.format(record).splitlines()

    def new(self) -> list[str]:
        """Return the lines since the last call."""
        lines, self.lines = self.lines, []
        return lines


@pytest.fixture
def written():
    handler, logger = Written(), logging.getLogger("closecall")
    logger.addHandler(handler)
    yield handler
    logger.removeHandler(handler)


def fail(kind: Kind) -> None:
    """What `Database` logs, and then the job that wanted the database."""
    error = StorageError(f"{ADDRESS} is {kind}", kind)
    fields = {"kind": kind, "message": str(error)}
    logging.getLogger("closecall.storage").warning("storage", extra={"fields": fields, "trouble": error})
    with Troubles().noted("Looking for webhooks"):
        raise error


def test_an_outage_is_one_line_for_each_kind(written):
    """However long it lasts, and however many jobs fail; the next outage is another line."""
    for second in range(0, 40, 2):
        written.now = second
        fail("unreachable")
        fail("full")
    line = f"Labels can't be read or stored: {ADDRESS} is "
    assert written.new() == [line + "unreachable", line + "full"]
    written.now += QUIET_SECONDS + 1
    fail("unreachable")
    assert written.new() == [line + "unreachable"]


def test_what_does_not_pass_keeps_its_traceback(written):
    """Each time; other events are for the log in JSON."""
    for _ in range(2):
        fail("corrupt")
        with Troubles().noted("Measuring"):
            raise ZeroDivisionError("nobody expected it")
        logging.getLogger("closecall.selection").warning("slow selection", extra={"fields": {"scored": 9}})
    lines = written.new()
    assert lines.count("Traceback (most recent call last):") == 4
    assert not any(line in ("storage", "slow selection") for line in lines)
