"""Label Studio tasks, in the format of its import and of its JSON export: one task per item.

Each concept is a control, <Choices name="concept:NAME">. The answers of one annotator about an item are one
annotation, with one result per concept. An adjudication is a separate annotation, marked as ground truth.
`labeling_config` returns the project's labeling interface, against which Label Studio checks the tasks. The
annotator's name is in the `meta` of the results, because `completed_by` may only name users of Label Studio.
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
"""Name of the image or text in the labeling interface, which is the `to_name` of each result."""

_CONTROL = "concept:"  # Label Studio ignores names that are a number, or "true"

CHOICES: tuple[AnswerWord, ...] = ("yes", "no", "unsure", "skip")
MAX_TASK = 50_000_000
"""Maximum number of characters of a task."""

_CHUNK = 1 << 20
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class Vote(NamedTuple):
    """Answer of an annotator about an item, for a concept."""

    item: int
    concept: str
    annotator: str
    answer: AnswerWord
    purpose: Purpose


DataOf = Callable[[Sequence[int]], list[dict[str, Any]]]
"""Function that returns the data of the tasks for some items: an `image` or `text`, and a `name`."""


def labeling_config(concepts: Iterable[tuple[str, str]], *, is_text: bool = False) -> str:
    """Return the labeling interface for these concepts, given by name and question."""
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
    """Return the name of a concept's control, which is the `from_name` of the concept's results."""
    return _CONTROL + _xml(concept)


def _xml(text: str) -> str:
    """Return the text without characters that XML can't contain."""
    return _NOT_XML.sub("\ufffd", text)


def concept_of(control: str) -> tuple[str, bool]:
    """Return the concept's name, and whether this program named the control."""
    return control.removeprefix(_CONTROL), control.startswith(_CONTROL)


def write_tasks(votes: Iterable[Vote], out: IO[str], data_of: DataOf | None = None) -> int:
    """Write one task per item while the votes are read, and return the number of tasks.

    Parameters
    ----------
    votes : iterable of Vote
        Votes, ordered by item and then by annotator. The adjudications of an item come last.
    out : file
        A text file.
    data_of : callable, optional
        Function that returns the data of the tasks for items. Without it, the data are only the item's id.
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
    """Yield each task of a file, one by one: its place for messages, such as "task 3", and the task itself.

    Raises
    ------
    StorageError
        If something in the file is not a task; of kind `invalid`. The message names the file and the task.
    """
    for number, task in enumerate(_elements(path), start=1):
        place = f"task {number:,}"
        if not isinstance(task, dict) or not isinstance(task.get("data"), dict):
            raise StorageError(
                f"{path}, {place}: a Label Studio task has an object data, got {shown(task)}", "invalid"
            )
        yield place, task


def _elements(path: Path) -> Iterator[Any]:
    """Yield the elements of the array in a JSON file; only one is in memory at a time."""
    decode = json.JSONDecoder().raw_decode
    number = 0
    with open_text(path) as text:
        rest = text.read(_CHUNK).lstrip()
        if not rest.startswith("["):
            raise StorageError(
                f"{path} is not Label Studio JSON: a list of tasks is needed, beginning with [", "invalid"
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
    return StorageError(f"{path} is incomplete JSON {after}: {' '.join(reason.split())[:200]}", "invalid")
