"""Label Studio tasks, in the format of its import: one task per item. `label_studio_reading` reads them.

Each concept is a control, <Choices name="concept:NAME">. The answers of one annotator about an item are one
annotation, with one result per concept. If all these answers are skips, the annotation is cancelled. An
adjudication is a separate annotation, marked as ground truth. `labeling_config` returns the project's
labeling interface, against which Label Studio checks the tasks.

Label Studio keeps the `meta` of a task, and each annotation's number as its `import_id`. `meta` therefore
lists the answers that each annotation was made of. Otherwise, annotations that somebody edited or deleted in
Label Studio could not be recognized. `completed_by` may only name users of Label Studio, so it is written
only for annotators whose user in Label Studio is known.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import IO, Any, NamedTuple
from xml.sax.saxutils import quoteattr

from closecall.storage.errors import StorageError
from closecall.storage.records import AnswerWord, Purpose
from closecall.storage.tabular import BATCH_ROWS, batched, iso, open_text, shown

ITEM = "closecall:item"
"""Name of the image or text in the labeling interface, which is the `to_name` of each result."""

OURS = "closecall"
"""Key in the `meta` of a task, under which this program records the answers that it has sent."""

_CONTROL = "concept:"  # Label Studio ignores names that are a number, or "true"

CHOICES: tuple[AnswerWord, ...] = ("yes", "no", "unsure", "skip")
MAX_TASK = 50_000_000
"""Maximum number of characters of a task."""

_CHUNK = 1 << 20
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class Vote(NamedTuple):
    """Answer of an annotator about an item, for a concept; times are in milliseconds."""

    item: int
    concept: str
    annotator: str
    answer: AnswerWord
    purpose: Purpose
    id: str
    time: int
    time_taken_ms: int | None


class Guess(NamedTuple):
    """Prediction of a model for an item, to be shown in Label Studio.

    `score` is the model's own score, and `confidence` the number from 0 to 1 that Label Studio gets instead.
    """

    concept: str
    model: str
    answer: AnswerWord
    score: float | None
    confidence: float | None


DataOf = Callable[[Sequence[int]], list[dict[str, Any]]]
"""Function that returns the data of the tasks for some items: an `image` or `text`, and a `name`."""


@dataclass(frozen=True)
class Content:
    """The content of tasks, apart from the answers.

    Parameters
    ----------
    data_of : callable or None
        Function that returns the data of the tasks for items. Without it, the data are only the item's id.
    guesses_of : callable or None
        Function that returns the predictions for items, by item.
    unlabeled : sequence of int
        Items without an answer that get a task, too.
    users : mapping
        For each annotator, the number of the annotator's user in Label Studio.
    """

    data_of: DataOf | None = None
    guesses_of: Callable[[Sequence[int]], Mapping[int, Sequence[Guess]]] | None = None
    unlabeled: Sequence[int] = ()
    users: Mapping[str, int] = field(default_factory=dict)


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
    """Return the name of a control's concept, and whether this program named the control."""
    return control.removeprefix(_CONTROL), control.startswith(_CONTROL)


def write_tasks(
    votes: Iterable[Vote], out: IO[str], content: Content, *, concepts: Sequence[str], through: int
) -> int:
    """Write one task per item while the votes are read, and return the number of tasks.

    Parameters
    ----------
    votes : iterable of Vote
        Votes, ordered by item and then by annotator. The adjudications of an item come last.
    out : file
        A text file.
    content : Content
        The data and predictions of the items, and the items without an answer that also become tasks.
    concepts : sequence of str
        Names of the concepts that the tasks are about.
    through : int
        Position in the log. All answers up to this position are among the votes.
    """
    number = made = 0
    out.write("[")
    answered = ((item, list(its)) for item, its in groupby(votes, key=lambda vote: vote.item))
    tasks: Iterator[tuple[int, list[Vote]]] = _followed_by(answered, content.unlabeled)
    for batch in batched(tasks, BATCH_ROWS // 10):
        items = [item for item, _ in batch]
        data_of = content.data_of(items) if content.data_of else [{} for _ in items]
        guesses = content.guesses_of(items) if content.guesses_of else {}
        for (item, its), data in zip(batch, data_of, strict=True):
            groups = _of_one_annotator(its)
            numbers = range(made + 1, made + 1 + len(groups))
            made += len(groups)
            sent = {str(n): _sent(group) for n, group in zip(numbers, groups, strict=True)}
            task = {
                "id": item,
                "data": {**data, "item": item},
                "meta": {OURS: {"through": through, "concepts": list(concepts), "sent": sent}},
                "annotations": [
                    _annotation(n, group, content.users) for n, group in zip(numbers, groups, strict=True)
                ],
                "predictions": _predictions(guesses.get(item, ())),
            }
            out.write((",\n" if number else "\n") + json.dumps(task, ensure_ascii=False))
            number += 1
    out.write("\n]\n")
    return number


def _followed_by(
    answered: Iterable[tuple[int, list[Vote]]], unlabeled: Sequence[int]
) -> Iterator[tuple[int, list[Vote]]]:
    """Yield the answered items, and then the items of `unlabeled` that are not among the answered items."""
    wanted = set(unlabeled)
    for item, votes in answered:
        wanted.discard(item)
        yield item, votes
    yield from ((item, []) for item in unlabeled if item in wanted)


def _of_one_annotator(votes: Sequence[Vote]) -> list[list[Vote]]:
    groups = groupby(votes, key=lambda vote: (vote.purpose == "decision", vote.annotator))
    return [list(group) for _, group in groups]


def _sent(votes: Sequence[Vote]) -> list[dict[str, Any]]:
    """Return the entry of an annotation in the task's `meta`."""
    return [{key: value for key, value in vote._asdict().items() if key != "item"} for vote in votes]


def _annotation(number: int, votes: Sequence[Vote], users: Mapping[str, int]) -> dict[str, Any]:
    its, taken = votes[0], [vote.time_taken_ms for vote in votes if vote.time_taken_ms is not None]
    user = users.get(its.annotator)
    return {
        "id": number,
        **({} if user is None else {"completed_by": user}),
        "result": [_result(vote) for vote in votes],
        "was_cancelled": all(vote.answer == "skip" for vote in votes),
        "ground_truth": its.purpose == "decision",
        "created_at": iso(min(vote.time for vote in votes)),
        "updated_at": iso(max(vote.time for vote in votes)),
        "lead_time": sum(taken) / 1_000 if taken else None,
    }


def _result(vote: Vote) -> dict[str, Any]:
    # A copy of the task without its `meta` still says in the results whose they are.
    meta = {"text": [vote.annotator], "purpose": vote.purpose, "id": vote.id, "answer": vote.answer}
    return {"id": vote.id, **_choice(vote.concept, vote.answer), "meta": meta}


def _choice(concept: str, answer: AnswerWord) -> dict[str, Any]:
    return {
        "from_name": control_of(concept),
        "to_name": ITEM,
        "type": "choices",
        "value": {"choices": [answer]},
    }


def _predictions(guesses: Sequence[Guess]) -> list[dict[str, Any]]:
    """Return one prediction per model, with one result per concept."""
    predictions = []
    for model in dict.fromkeys(guess.model for guess in guesses):
        own = [guess for guess in guesses if guess.model == model]
        known = [guess.confidence for guess in own if guess.confidence is not None]
        results = [
            {
                "id": f"prediction-{number}",
                **_choice(guess.concept, guess.answer),
                **({} if guess.score is None else {"meta": {"score": guess.score}}),
            }
            for number, guess in enumerate(own, start=1)
        ]
        predictions.append(
            {"model_version": model, "score": min(known) if known else None, "result": results}
        )
    return predictions


def read_tasks(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield, for each task of a file, its place for messages, such as "task 3", and the task itself.

    Raises
    ------
    StorageError
        If something in the file is not a task (kind `invalid`). The message names the file and the task.
    """
    for number, task in enumerate(_elements(path), start=1):
        place = f"task {number:,}"
        if isinstance(task, dict) and {"annotation_id", "annotator"} <= task.keys():
            raise StorageError(
                f"{path} is Label Studio's export JSON-MIN, which does not say who edited an answer: "
                f"export as JSON there, and import that file",
                "invalid",
            )
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
