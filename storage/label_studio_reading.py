"""Read annotations and predictions from Label Studio's JSON: its own exports, or tasks from `write_tasks`.

An annotation that this program has sent is recognized by its `import_id` or, if the task has lost its `meta`,
by the `meta` of its results. If the annotation is unchanged, it is the answer that was sent. If it was
changed, it is an answer of the user who edited it last (`updated_by`). Any other annotation is an answer of
the user who edited it last or, in older exports, of the user who made it (`completed_by`). A cancelled
annotation is a skip. An annotation marked as ground truth is also an adjudication, unless the mark was made
by an import: Label Studio's imports mark annotations by default.

Each answer that was made in Label Studio has an origin, which names its annotation. The origins show whether
an annotation in a later file is new, edited or deleted (`storage.in_force.by_origin`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from closecall.storage.claims import (
    ITEM_COLUMNS,
    MAX_INT,
    NAME_COLUMNS,
    WITHDRAWN,
    Claim,
    number_of,
    purpose_of,
    storable,
)
from closecall.storage.errors import StorageError
from closecall.storage.label_studio import OURS, concept_of, read_tasks
from closecall.storage.records import Purpose
from closecall.storage.tabular import milliseconds_of, shown

ORIGIN = "ls"
"""First part of each origin: "ls:PROJECT:TASK:ANNOTATION", where PROJECT and TASK are digests."""

_DECISIONS = ("yes", "no", "unsure")


@dataclass
class Survey:
    """The information about a file that is needed to interpret its annotations.

    Parameters
    ----------
    users : dict
        For each user whose answers the file contains, by number: the e-mail address, or "" if it is unknown.
    concepts : dict
        For each concept with answers, by name: whether this program named its control (see `concept_of`).
    projects : set of str
        Digests of the projects in Label Studio from which the tasks come.
    through : int
        Position in this program's log when the tasks were exported, or 0 if it is unknown.
    sent_concepts : set of str
        Names of the concepts that were exported.
    """

    users: dict[str, str] = field(default_factory=dict)
    concepts: dict[str, bool] = field(default_factory=dict)
    projects: set[str] = field(default_factory=set)
    through: int = 0
    sent_concepts: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class _Sent:
    """An answer that an annotation contained when it was exported."""

    id: str | None
    concept: str
    annotator: str
    word: str | None
    purpose: Purpose
    time: int | None = None
    time_taken_ms: int | None = None


@dataclass(frozen=True)
class _Task:
    """A task: where it is in the file, its item, what was sent with it, and its origin."""

    where: str
    place: str
    item: int | None
    name: str | None
    origin: str
    sent: Mapping[str, tuple[_Sent, ...]]
    concepts: tuple[str, ...]

    def claim(self, word: str, **more: Any) -> Claim:
        if self.item is None and self.name is None and word != WITHDRAWN:
            raise StorageError(
                f"{self.where}: its data name no item by one of {', '.join((*ITEM_COLUMNS, *NAME_COLUMNS))}",
                "invalid",
            )
        return Claim(self.place, self.item, self.name, more.pop("concept", None), word, **more)


def task_of(origin: str) -> str:
    """Return the origin of the task to which an annotation with this origin belongs."""
    return origin.rpartition(":")[0] + ":"


def survey(path: Path) -> Survey:
    """Read the file once, and return the information that is needed to interpret it.

    Raises
    ------
    StorageError
        See `storage.imports.read_labels`.
    """
    found, emails = Survey(), dict[str, str]()
    for place, task in read_tasks(path):
        its = _task(path, place, task)
        found.projects.add(_project(task))
        ours = _ours(task)
        through = ours.get("through")
        if isinstance(through, int) and not isinstance(through, bool):
            found.through = max(found.through, through)
        found.sent_concepts |= set(its.concepts)
        for annotation in _objects(path, place, task, "annotations"):
            for by in (annotation.get("completed_by"), annotation.get("updated_by")):
                if isinstance(by, dict) and by.get("email") and by.get("id") is not None:
                    emails[str(by["id"])] = str(by["email"])
        for claim in _claims(path, its, task):
            if claim.user is not None:
                found.users.setdefault(claim.user, "")
            if claim.concept is not None and claim.word != WITHDRAWN:
                found.concepts[claim.concept] = claim.is_certain
    found.users = {user: emails.get(user, "") for user in found.users}
    return found


def read_annotations(path: Path, users: Mapping[str, str]) -> Iterator[Claim]:
    """Yield the answers in a file. `users` maps a user's number or e-mail address to the annotator.

    Claims with the word `WITHDRAWN` follow the answers of their task. With an `id`, such a claim withdraws an
    answer that was sent. With an `origin`, it withdraws the earlier answers of the task's annotations, except
    answers that another claim repeats.

    Raises
    ------
    StorageError
        See `storage.imports.read_labels`.
    """
    for place, task in read_tasks(path):
        for claim in _claims(path, _task(path, place, task), task):
            if claim.user is None:
                yield claim
            else:
                yield replace(claim, annotator=users.get(claim.user, claim.user))


def read_predicted(path: Path) -> Iterator[Claim]:
    """Yield the predictions in a file: a score, a class, or both.

    Raises
    ------
    StorageError
        See `storage.imports.read_labels`.
    """
    for place, task in read_tasks(path):
        its = _task(path, place, task)
        for prediction in _objects(path, place, task, "predictions"):
            for result in _choices(path, place, prediction):
                meta = _object(result.get("meta"))
                given = meta.get("score", prediction.get("score", result.get("score")))
                score = None if given is None else number_of(given)
                if given is not None and score is None:
                    raise StorageError(
                        f"{its.where}: score must be a finite number, got {shown(given)}", "invalid"
                    )
                concept, is_certain = _concept(result, its.where)
                for word in _words(result, its.where):
                    yield its.claim(word, concept=concept, is_certain=is_certain, score=score)


def _task(path: Path, place: str, task: Mapping[str, Any]) -> _Task:
    where, data, ours = f"{path}, {place}", task["data"], _ours(task)
    item = data.get("item")
    if item is not None and not _is_number(item):
        raise StorageError(f"{where}: item must be a whole number from 0 on, got {shown(item)}", "invalid")
    name = next((data[key] for key in NAME_COLUMNS if isinstance(data.get(key), str) and data[key]), None)
    sent = {
        str(number): tuple(_sent(each, where) for each in answers if isinstance(each, dict))
        for number, answers in _object(ours.get("sent")).items()
        if isinstance(answers, list)
    }
    origin = ""
    if _is_number(task.get("id")) and "created_at" in task:
        key = json.dumps([task.get("project"), task["id"], task["created_at"]])
        origin = f"{ORIGIN}:{_project(task)}:{_digest(key, 6)}:"
    concepts = ours.get("concepts")
    names = tuple(storable(str(each), where) for each in concepts) if isinstance(concepts, list) else ()
    return _Task(where, place, item, None if name is None else storable(name, where), origin, sent, names)


def _sent(given: Mapping[str, Any], where: str) -> _Sent:
    def text(key: str) -> str:
        return storable(str(given.get(key) or ""), where)

    time, taken = given.get("time"), given.get("time_taken_ms")
    return _Sent(
        text("id") or None,
        text("concept"),
        text("annotator"),
        text("answer"),
        purpose_of(given.get("purpose")),
        time if _is_number(time) else None,
        taken if _is_number(taken) else None,
    )


def _claims(path: Path, its: _Task, task: Mapping[str, Any]) -> Iterator[Claim]:
    """Yield the claims of one task, each with its `annotator` or `user`; see `read_annotations`."""
    annotations = sorted(_objects(path, its.place, task, "annotations"), key=_age)
    of_us = _ours_of(path, its, annotations)
    for place, annotation in enumerate(annotations):
        yield from _of_annotation(path, its, annotation, of_us.get(place, ()), is_first=place == 0)
    there = {_sent_as(annotations[place]) for place in of_us}
    for number, sent in its.sent.items():
        if number not in there:
            yield from (its.claim(WITHDRAWN, id=each.id) for each in sent if each.id)
    if its.origin:
        yield its.claim(WITHDRAWN, origin=its.origin)


def _ours_of(path: Path, its: _Task, annotations: list[dict[str, Any]]) -> dict[int, tuple[_Sent, ...]]:
    """Return the answers that were sent in each annotation of this program, by the annotation's index.

    If an annotation has duplicates, only the duplicate with the lowest id counts as sent.
    """
    found: dict[int, tuple[_Sent, ...]] = {}
    known: set[object] = set()
    for place in sorted(range(len(annotations)), key=lambda place: _number(annotations[place])):
        number = _sent_as(annotations[place])
        if number in its.sent and number not in known:
            known.add(number)
            found[place] = its.sent[number]
        if its.sent:
            continue
        own = []
        for result in _choices(path, its.place, annotations[place]):
            meta = _object(result.get("meta"))
            named = meta.get("text")
            if not (isinstance(named, list) and len(named) == 1 and isinstance(named[0], str)):
                continue
            concept, _ = _concept(result, its.where)
            key = (named[0], concept, meta.get("purpose"))
            if concept is not None and key not in known:
                known.add(key)
                own.append(replace(_sent(meta, its.where), annotator=named[0], concept=concept))
        if own:
            found[place] = tuple(replace(each, word=each.word or None) for each in own)
    return found


def _sent_as(annotation: Mapping[str, Any]) -> str:
    """Return the number that the annotation had when it was sent, if it was sent."""
    return str(annotation.get("import_id", annotation.get("id")))


def _of_annotation(
    path: Path, its: _Task, annotation: Mapping[str, Any], sent: tuple[_Sent, ...], *, is_first: bool
) -> Iterator[Claim]:
    """Yield the claims of one annotation; `is_first` says whether it is the first of its task."""
    is_cancelled = annotation.get("was_cancelled") is True
    said: dict[str | None, tuple[list[str], bool]] = {}
    for result in _choices(path, its.place, annotation):
        concept, is_certain = _concept(result, its.where)
        words = said.setdefault(concept, ([], is_certain))[0]
        words += [word for word in _words(result, its.where) if word not in words]
    if is_cancelled:
        names = [each.concept for each in sent] or list(its.concepts)
        said = {name: (["skip"], True) for name in names}
    is_truth, was_edited = annotation.get("ground_truth") is True, annotation.get("updated_by") is not None
    has_number = bool(its.origin) and _is_number(annotation.get("id"))
    about = {
        "user": _by(annotation),
        "origin": f"{its.origin}{annotation['id']}" if has_number else "",
        "time": milliseconds_of(annotation.get("updated_at") or annotation.get("created_at")),
    }
    replaces = not is_first or bool(its.origin or sent)
    changed = dict(said)
    for each in sent:
        words, _ = said.get(each.concept, ([], True))
        is_same = words == [each.word] if each.word is not None else not was_edited
        is_withdrawn = not words or (each.purpose == "decision" and not is_truth)
        if is_withdrawn and each.id:
            yield its.claim(WITHDRAWN, id=each.id)
        elif not is_withdrawn and (is_same or each.word is not None):
            word = words[0] if each.word is None else each.word
            yield its.claim(
                word,
                concept=each.concept,
                annotator=each.annotator or None,
                purpose=each.purpose,
                id=each.id,
                time=each.time,
                time_taken_ms=each.time_taken_ms,
                replaces=True,
            )
        if is_same:
            changed.pop(each.concept, None)
    taken = _taken(annotation, sent, len(changed))
    were_decisions = {each.concept for each in sent if each.purpose == "decision"}
    for concept, (words, is_certain) in changed.items():
        for number, word in enumerate(words):
            decides = concept in were_decisions and is_truth and word in _DECISIONS
            yield its.claim(
                word,
                concept=concept,
                is_certain=is_certain,
                purpose="decision" if decides else "import",
                time_taken_ms=taken,
                replaces=replaces and number == 0,
                **about,
            )
    if is_cancelled and not said:
        yield its.claim("skip", is_general=True, time_taken_ms=taken, replaces=replaces, **about)
    # An import marks annotations as ground truth unless they say otherwise; only a person's mark decides.
    is_marked = is_truth and (was_edited or ("updated_by" not in annotation and not sent))
    if is_marked and not is_cancelled:
        for concept, (words, is_certain) in said.items():
            if concept not in were_decisions and len(words) == 1 and words[0] in _DECISIONS:
                more = {**about, "purpose": "decision", "replaces": replaces}
                yield its.claim(words[0], concept=concept, is_certain=is_certain, **more)


def _taken(annotation: Mapping[str, Any], sent: tuple[_Sent, ...], n_answers: int) -> int | None:
    """Return the time taken per answer, in milliseconds.

    The time taken for the answers in `sent` is subtracted from the annotation's lead time. The rest is
    divided by `n_answers`. If nothing remains, a program has changed the annotation: the time is unknown.
    """
    seconds = number_of(annotation.get("lead_time"))
    if seconds is None or not n_answers or abs(seconds) > 1e9:
        return None
    taken = round(1_000 * seconds) - sum(each.time_taken_ms or 0 for each in sent)
    return taken // n_answers if taken > 0 else None


def _by(annotation: Mapping[str, Any]) -> str | None:
    """Return the number or e-mail address of the user who edited the annotation last, or who made it."""
    for key in ("updated_by", "completed_by"):
        by = annotation.get(key)
        if isinstance(by, dict):
            by = by.get("id") if by.get("id") is not None else by.get("email")
        if isinstance(by, str) and by.strip():
            return by.strip()
        if _is_number(by):
            return str(by)
    return None


def _age(annotation: Mapping[str, Any]) -> tuple[int, int]:
    """Return a key that sorts annotations by the time of their last edit."""
    time = milliseconds_of(annotation.get("updated_at") or annotation.get("created_at"))
    return time or 0, _number(annotation)


def _number(annotation: Mapping[str, Any]) -> int:
    given = annotation.get("id")
    return given if _is_number(given) else 0  # type: ignore[return-value]


def _project(task: Mapping[str, Any]) -> str:
    return _digest(json.dumps(task.get("project"), default=str), 4)


def _digest(text: str, size: int) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=size).hexdigest()


def _ours(task: Mapping[str, Any]) -> dict[str, Any]:
    return _object(_object(task.get("meta")).get(OURS))


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_INT


def _concept(result: Mapping[str, Any], where: str) -> tuple[str | None, bool]:
    control = result.get("from_name")
    return concept_of(storable(control, where)) if isinstance(control, str) else (None, True)


def _words(result: Mapping[str, Any], where: str) -> list[str]:
    words = _object(result.get("value")).get("choices")
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise StorageError(f"{where}: choices must be a list of words, got {shown(words)}", "invalid")
    return [storable(word, where).strip() for word in words]


def _choices(path: Path, place: str, said: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [r for r in _objects(path, place, said, "result") if r.get("type", "choices") == "choices"]


def _objects(path: Path, place: str, of: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    found = of.get(key) or []
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise StorageError(f"{path}, {place}: {key} must be a list of objects, got {shown(found)}", "invalid")
    return found
