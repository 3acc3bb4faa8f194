"""Label Studio's tasks: what its import takes and its JSON export gives, one task an item.

Each concept is a control of its own, <Choices name="concept:its name">, and each annotator's answers about
an item are one annotation: a result a concept. What was decided where they disagree is an annotation of its
own, the ground truth. `labeling_config` is the project's labeling interface, against
which Label Studio checks the tasks. Who answered stands in the results' `meta`, since `completed_by` may only
name users whom Label Studio has.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import IO, Any, NamedTuple
from xml.sax.saxutils import quoteattr

from closecall.storage.errors import StorageError
from closecall.storage.records import AnswerWord, Purpose
from closecall.storage.tabular import BATCH_ROWS, batched, open_text, shown

ITEM = "closecall:item"
"""What the labeling interface calls the image or text: the `to_name` of every result."""

_CONTROL = "concept:"  # Label Studio takes a name that is a number, or true, for no name

CHOICES: tuple[AnswerWord, ...] = ("yes", "no", "unsure", "skip")
MAX_TASK = 50_000_000
"""Characters of a task that is read."""

_CHUNK = 1 << 20
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class Vote(NamedTuple):
    """What an annotator says of an item for a concept."""

    item: int
    concept: str
    annotator: str
    answer: AnswerWord
    purpose: Purpose


DataOf = Callable[[Sequence[int]], list[dict[str, Any]]]
"""Gives what a task shows of each of some items: its `image` or `text`, and its `name`."""


def labeling_config(concepts: Iterable[tuple[str, str]], *, is_text: bool = False) -> str:
    """The labeling interface for these concepts, given by name and question."""
    shows = f'<Text name="{ITEM}" value="$text"/>' if is_text else f'<Image name="{ITEM}" value="$image"/>'
    lines = ["<View>", f"  {shows}"]
    for name, question in concepts:
        lines += [
            f"  <Header value={quoteattr(_xml(question))}/>",
            f'  <Choices name={quoteattr(control_of(name))} toName="{ITEM}" choice="single">',
            *(f'    <Choice value="{word}"/>' for word in CHOICES),
            "  </Choices>",
        ]
    return "\n".join([*lines, "</View>", ""])


def control_of(concept: str) -> str:
    """What the labeling interface calls a concept's control: the `from_name` of its results."""
    return _CONTROL + _xml(concept)


def _xml(text: str) -> str:
    """The text without what XML can't hold."""
    return _NOT_XML.sub("\ufffd", text)


def concept_of(control: str) -> tuple[str, bool]:
    """The concept's name, and whether this program made it a control; others call theirs as they like."""
    return control.removeprefix(_CONTROL), control.startswith(_CONTROL)


def write_tasks(votes: Iterable[Vote], out: IO[str], data_of: DataOf | None = None) -> int:
    """Write a task for each item as it comes; returns how many there were.

    Parameters
    ----------
    votes : iterable of Vote
        By item, then by annotator, decisions last.
    out : file
        A text file.
    data_of : callable, optional
        What the tasks show; without it they name the item's id alone.
    """
    number = 0
    out.write("[")
    tasks = ([item, list(its)] for item, its in groupby(votes, key=lambda vote: vote.item))
    for batch in batched(tasks, BATCH_ROWS // 10):
        items = [item for item, _ in batch]
        shown_of = data_of(items) if data_of else [{} for _ in items]
        for (item, its), data in zip(batch, shown_of, strict=True):
            task = {"data": {**data, "item": item}, "annotations": _annotations(its)}
            out.write((",\n" if number else "\n") + json.dumps(task, ensure_ascii=False))
            number += 1
    out.write("\n]\n")
    return number


def _annotations(votes: Sequence[Vote]) -> list[dict[str, Any]]:
    of_one = groupby(votes, key=lambda vote: (vote.purpose == "decision", vote.annotator))
    return [
        {"result": [_result(vote) for vote in its], "ground_truth": is_decision}
        for (is_decision, _), its in of_one
    ]


def _result(vote: Vote) -> dict[str, Any]:
    return {
        "from_name": control_of(vote.concept),
        "to_name": ITEM,
        "type": "choices",
        "value": {"choices": [vote.answer]},
        "meta": {"text": [vote.annotator], "purpose": vote.purpose},
    }


def read_tasks(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The tasks of a file one by one, each with its place in words.

    Raises
    ------
    StorageError
        `invalid`, in a sentence that names the file and the task.
    """
    for number, task in enumerate(_elements(path), start=1):
        place = f"task {number:,}"
        if not isinstance(task, dict) or not isinstance(task.get("data"), dict):
            raise StorageError(
                f"{path}, {place}: a Label Studio task has an object data, got {shown(task)}", "invalid"
            )
        yield place, task


def _elements(path: Path) -> Iterator[Any]:
    """The elements of the array that a JSON file holds; no more than one of them is kept."""
    decode = json.JSONDecoder().raw_decode
    number = 0
    with open_text(path) as text:
        rest = text.read(_CHUNK).lstrip()
        if not rest.startswith("["):
            raise StorageError(
                f"{path} is no Label Studio JSON: a list of tasks is needed, beginning with [", "invalid"
            )
        rest, is_first = rest[1:], True
        while True:
            rest = _after_blanks(rest, text)
            if rest.startswith("]"):
                if _after_blanks(rest[1:], text):
                    raise StorageError(f"{path}: there is more after the end of the list of tasks", "invalid")
                return
            if not is_first:
                if not rest.startswith(","):
                    raise _broken(path, number, "a comma or the end of the list is missing")
                rest = _after_blanks(rest[1:], text)
            is_first = False
            while True:
                try:
                    element, end = decode(rest)
                    if end < len(rest):
                        break
                except (ValueError, RecursionError) as error:
                    reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
                else:
                    reason = "the end of the list is missing"
                more = text.read(max(_CHUNK, len(rest)))
                if not more:
                    raise _broken(path, number, reason)
                if len(rest) > MAX_TASK:
                    raise _broken(path, number, f"a task is longer than {MAX_TASK:,} characters, or broken")
                rest += more
            number += 1
            yield element
            rest = rest[end:]


def _after_blanks(rest: str, text: IO[str]) -> str:
    while not (rest := rest.lstrip()):
        if not (rest := text.read(_CHUNK)):
            return ""
    return rest


def _broken(path: Path, number: int, reason: str) -> StorageError:
    after = f"after task {number:,}" if number else "at the first task"
    return StorageError(f"{path} is no whole JSON {after}: {' '.join(reason.split())[:200]}", "invalid")
