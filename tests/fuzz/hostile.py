"""Messages that no page of ours would send, and what they must leave whole: what everybody else does.

A message nearly fits: it is what a view would send, with ids of what others have, of what is not there, or of
no kind at all, and with fields left out, doubled or of another type. Afterwards another person's next answer
must be stored and must train, and what is in the log must be what somebody may say.
"""

from __future__ import annotations

import json
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC
from pathlib import Path
from typing import Any

import numpy as np

from closecall.app.api.cards import submit
from closecall.app.api.progress import progress
from closecall.app.api.submit import take
from closecall.app.components import answers_of
from closecall.app.sessions.full_scan_check import compare
from closecall.app.sessions.review import VIEWS, Asked, Review
from closecall.core.errors import InputError
from closecall.storage.errors import StorageError
from tests.fuzz.damage import NONSENSE, spoilt
from tests.projects import correct, find_groups
from tests.stateful.model import Said
from tests.stateful.people import Tab
from tests.stateful.served import Served

EACH = 220
"""Images of each class: enough for the answers that follow the messages to one project."""

WORDS = ("yes", "no", "skip", "unsure", "undo")
PLACES = ("one", "grid", "classes", "blind", "found", "similar", "decide", "review", "asked", "set")


class Stage:
    """A project at which three people work: Ada owns it, Bob labels, and Mallory's browser sends anything.

    Parameters
    ----------
    folder : Path
        Where projects may be made.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = tempfile.TemporaryDirectory(dir=folder)
        served = Served(
            Path(self._folder.name),
            questions=2,
            owners=("Ada",),
            overlap=2,
            overlap_share=0.3,
            each=EACH,
            seed=5,
        )
        self.served = served
        first, second = (concept.id for concept in served.project.concepts())
        self.ada, self.bob, self.mallory = (Tab(served, name, first) for name in ("Ada", "Bob", "Mallory"))
        served.wait_for("exhaustive")
        find_groups(served.project, 3, "bursts")
        served.project.set_ask_once(False)  # else too few items are left for all who answer
        for tab in (self.ada, self.bob, self.mallory):
            tab.session.set_strategy("exhaustive")
            tab.session.set_audit_share(0.2)
            for _ in range(5):
                self._answers_truly(tab)
        for said in served.model.in_force(first)[:4]:  # something to decide
            if said.annotator != "Ada":
                self.ada.says(said.item, "no" if said.word == "yes" else "yes")
        self._answers_truly(Tab(served, "Mallory", second))
        self.mallory.look("blind")
        self.ada.look("decide")
        self.mallory.look("classes")

    def end(self) -> None:
        """Stop."""
        self.served.end()
        self._folder.cleanup()

    def _answers_truly(self, tab: Tab) -> None:
        card = tab.look("one")
        assert card is not None
        assert card["item"] is not None
        tab.answer("one", [(0, self.served.truth(card["item"]["id"], tab.concept))])

    # What is sent

    def receive(self, rng: np.random.Generator) -> None:
        """One message arrives, be it Mallory's or, rarely, an owner's."""
        tab = self.ada if rng.random() < 0.2 else self.mallory
        place = str(rng.choice(PLACES))
        before = self.served.model.ids()
        try:
            if place == "asked":
                self._ask(tab, rng)
            elif place == "set":
                self._set(tab, rng)
            else:
                self._say(tab, place, rng)
        finally:
            self._read(tab, before)

    def _say(self, tab: Tab, place: str, rng: np.random.Generator) -> None:
        """Answers, to a view that they were never meant for, maybe."""
        project = self.served.project
        answers = [self._answer(tab, place, rng) for _ in range(int(rng.integers(1, 4)))]
        if rng.random() < 0.2:
            answers.append(dict(answers[0]))
        sent: Any = spoilt(answers, rng) if rng.random() < 0.4 else answers
        said = answers_of({"pending": sent})
        if place == "review":
            settled = correct(Review(tab.session, tab.person), said)
        else:
            view = tab.view(place) or tab.session
            settled = take(project, view, said, tab.person)
        json.dumps(settled, allow_nan=False)
        for refusal in settled["refused"]:
            assert refusal["reason"]
            assert "\n" not in refusal["reason"], refusal
        if settled["refused"]:
            raise InputError(f"refused: {len(settled['refused'])} of {len(said)}")

    def _answer(self, tab: Tab, place: str, rng: np.random.Generator) -> dict[str, Any]:
        item, selection = self._shown(tab, rng)
        answer = tab.blank() | {
            "id": str(uuid.UUID(bytes=rng.bytes(16))),
            "session": self._session(tab, rng),
            "item": item,
            "selection": selection,
            "answer": str(rng.choice(WORDS)),
        }
        if rng.random() < 0.3:
            answer["item"] = self.item(rng)
        if rng.random() < 0.3:
            answer["selection"] = self._selection(rng)
        for name in ("undoes", "corrects"):
            if rng.random() < (0.8 if (name, answer["answer"]) == ("undoes", "undo") else 0.15):
                answer[name] = self._line(rng).id
                if rng.random() < 0.5:
                    answer["item"] = next(s.item for s in self.served.model.log if s.id == answer[name])
        if rng.random() < 0.2:
            answer["next"] = self._selection(rng)
        if place == "classes" or rng.random() < 0.1:
            concepts = [concept.id for concept in self.served.project.concepts(archived=rng.random() < 0.3)]
            answer["classes"] = [self._concept(c, rng) for c in concepts]
            answer["concept"] = concepts[int(rng.integers(len(concepts)))]
        if place == "decide" and rng.random() < 0.7:
            answer["selection"] = f"decide {answer['item']} {rng.integers(99)}"
        own = np.random.default_rng(uuid.UUID(answer["id"]).int)  # kept.json keeps its cases
        if own.random() < 0.2:
            near = self._near(answer["item"]) if own.random() < 0.7 else set()
            answer["group"] = sorted(near) or [self.item(own) for _ in range(3)]
        for name in ("purpose", "annotator", "concept_id", "seq"):
            if rng.random() < 0.03:
                answer[name] = NONSENSE[int(rng.integers(len(NONSENSE)))]
        return answer

    def _near(self, item: Any) -> set[int]:
        """The item's group."""
        groups = self.served.project.duplicates.current
        is_item = type(item) is int and 0 <= item < 2**63
        return set(groups.members(item).tolist()) if groups is not None and is_item else set()

    def _concept(self, concept: int, rng: np.random.Generator) -> Any:
        chance = rng.random()
        return float(concept) if chance < 0.04 else True if chance < 0.07 else concept

    def _shown(self, tab: Tab, rng: np.random.Generator) -> tuple[Any, Any]:
        """What is in somebody's view: mostly the sender's own."""
        if rng.random() < 0.2:
            tab = self.bob
        cards = [card for card in tab.cards.values() if card.get("item") or card.get("cells")]
        if not cards:
            return 0, None
        card = cards[int(rng.integers(len(cards)))]
        cells = card["cells"] if card.get("cells") else [card["item"]]
        cell = cells[int(rng.integers(len(cells)))]
        return cell["id"], cell["selection"]

    def item(self, rng: np.random.Generator) -> Any:
        """Any id that there is, might be, or could never be."""
        kinds: list[Callable[[], Any]] = [
            lambda: int(rng.choice(self.served.pool.ids)),
            lambda: self.served.impossible("held out", int(rng.integers(99))),
            lambda: self.served.impossible("gap", int(rng.integers(99))),
            lambda: int(rng.integers(-(2**63), 2**63 - 1)),
            lambda: int(rng.integers(2**31)),
            lambda: 2**63 + int(rng.integers(99)),
            lambda: 10**30,
            lambda: float(rng.choice(self.served.pool.ids)),
            lambda: str(rng.choice(self.served.pool.ids)),
            lambda: NONSENSE[int(rng.integers(len(NONSENSE)))],
        ]
        return kinds[int(rng.integers(len(kinds)))]()

    def _session(self, tab: Tab, rng: np.random.Generator) -> str:
        if rng.random() < 0.75:
            return str(tab.session_id)
        sessions = [record.id for record in self.served.project.log.sessions()]
        return str(rng.choice([*sessions, str(uuid.UUID(bytes=rng.bytes(16))), "\0", "x"]))

    def _selection(self, rng: np.random.Generator) -> Any:
        """Of anybody's: shown, or sent ahead and not shown; or of nobody's."""
        if rng.random() < 0.1:
            return [str(uuid.UUID(bytes=rng.bytes(16))), "decide 3 x", "\0", 7][int(rng.integers(4))]
        table = "foreseen" if rng.random() < 0.4 else "selections"
        with self.served.project.database.read() as connection:
            ids = connection.exec_driver_sql(f"SELECT id FROM {table} ORDER BY seq DESC LIMIT 40").all()
        return str(ids[int(rng.integers(len(ids)))][0]) if ids else None

    def _line(self, rng: np.random.Generator) -> Said:
        log = self.served.model.log
        return log[-1 - int(rng.integers(min(len(log), 40)))]

    def _ask(self, tab: Tab, rng: np.random.Generator) -> None:
        """What is looked for, listed or checked."""
        project, session = self.served.project, tab.session
        number = [0, 60, 7, 10**30, -5][int(rng.integers(5))]
        match int(rng.integers(6)):
            case 0:
                asked = {
                    "id": str(rng.integers(99)),
                    "text": str(rng.choice(["bar", "0", "\0", " "])),
                    "first": number,
                }
                project.found(session).ask(spoilt(asked, rng))
                json.dumps(tab.look("found"), allow_nan=False)
            case 1:
                like = str(rng.choice(["yes", "label", "x", "upload-" + "0" * 32, str(self.item(rng))[:40]]))
                asked = {"id": str(rng.integers(99)), "like": like, "first": number}
                project.similar_to(session).ask(spoilt(asked, rng))
                json.dumps(tab.look("similar"), allow_nan=False)
            case 2:
                sent = {"name": "x.png", "data": str(rng.choice(["", "AAAA", "=", "é", "\ud800"]))}
                project.similar_to(session).upload(spoilt(sent, rng))
                json.dumps(tab.look("similar"), allow_nan=False)
            case 3:
                asked = {"view": str(rng.choice(VIEWS)), "line": "no", "first": number, "fresh": 1}
                page = Review(session, tab.person).page(Asked.of(spoilt(asked, rng)), UTC)
                json.dumps(page, allow_nan=False)
            case 4:
                compare(session, str(self._selection(rng)))
            case 5:
                like = str(self.item(rng))
                project.similar_to(session).go_to(like)
                json.dumps(tab.look("similar"), allow_nan=False)

    def _set(self, tab: Tab, rng: np.random.Generator) -> None:
        """What a page sets: by the name that the browser gives it."""
        project, session = self.served.project, tab.session
        value = NONSENSE[int(rng.integers(len(NONSENSE)))]
        match int(rng.integers(5)):
            case 0:
                if isinstance(value, int | float):
                    session.set_audit_share(value, by=tab.person)
                json.dumps(progress(session), allow_nan=False)
            case 1:
                if isinstance(value, int) and not isinstance(value, bool):
                    project.grid(session).resize(value)
            case 2:
                if isinstance(value, str):
                    project.session_of(tab.person, str(self._session(tab, rng)) if not value else value[:64])
            case 3:
                strategy = str(
                    rng.choice(["exhaustive", "random", "nothing", "mixture:margin=2", "", "random:x"])
                )
                session.set_strategy(strategy)
            case 4:
                submit(project.decisions(session), [self._answer(tab, "decide", rng)], tab.person)

    # What must hold

    def _read(self, tab: Tab, before: set[str]) -> None:
        """What joined the log is what this person may say; the model takes it."""
        served, model = self.served, self.served.model
        records = {record.id: record for record in served.project.log.sessions()}
        ids = set(served.pool.ids.tolist())
        lines = served.read()
        known = {line.item for line in model.log} | {line.item for line in lines if line.selection}
        for said in lines:
            record = records[said.session]
            assert said.id not in before, said
            assert said.item in ids, f"{said} is about no item that can be labeled"
            assert type(said.item) is int
            assert record.annotator == said.annotator == tab.name, said
            assert record.concept_id == said.concept, said
            assert said.purpose in ("train", "audit", "decision"), said
            shown_in = served.shown_in(said.selection)
            if shown_in not in (None, said.session):
                corrected = next(line for line in model.log if line.id == said.corrects)
                assert corrected.selection == said.selection, f"{said} answers what others see"
            if said.item not in known and said.undoes is None and said.corrects is None:
                leaders = [line for line in lines if line.selection and line.item in self._near(said.item)]
                told = [(line.session, line.word, line.purpose) for line in leaders]
                assert (said.session, said.word, said.purpose) in told, f"{said} was shown to nobody"
            if said.word == "undo":
                undone = next(line for line in model.log if line.id == said.undoes)
                assert (undone.item, undone.concept, undone.session) == (
                    said.item,
                    said.concept,
                    said.session,
                )
                assert all(line.undoes != said.undoes for line in model.log), said
            elif said.purpose == "decision":
                assert tab.person.is_owner, said
            else:
                is_audited = model.of(said.concept, said.item).is_audited
                is_audited |= served.is_drawn_for_audit(said.selection)
                # What goes wrong in the same message may keep an answer from training, never make it train.
                assert said.purpose == "audit" or not is_audited, said
            model.take(said)

    def go_on(self) -> None:
        """Bob's next answer is stored, and trains; nobody holds more than what they can have in view."""
        served, bob = self.served, self.bob
        served.later.work()
        assert not served.later.errors, served.later.errors
        assert set(served.project.leases.held()) <= set(served.pool.ids.tolist())
        self._answers_truly(bob)
        labels = served.model.labels(bob.concept)
        state = served.project.live_concept(bob.concept).catch_up()
        trained = state.labels()
        assert dict(zip(trained.items.tolist(), trained.yes.tolist(), strict=True)) == labels
        shown = bob.session.shown
        assert shown is not None
        if shown.why != "undo":
            assert shown.n_labels == len(labels), "the answer did not train"

    def check_all(self) -> None:
        """All that others do with the project works, and means what the model says."""
        self.go_on()
        served = self.served
        for tab in (self.bob, self.ada, self.mallory):
            tab.pages()
            for view in ("one", "grid", "found", "similar", "decide", "classes"):
                tab.look(view)
        self.mallory.look("blind")
        self.bob.look_for("yes")
        served.compare()
        served.verify()
        served.export()
        served.restart()
        self.go_on()
        served.verify()


class Answers:
    """Tries one message after another on a stage; a new one every `EVERY` messages.

    Parameters
    ----------
    folder : Path
        Where stages may be made.
    """

    EVERY = 300

    def __init__(self, folder: Path) -> None:
        self.aside = 0.0
        """Seconds of a processor that went into stages and checks, not into messages."""
        self._folder = folder
        self._stage: Stage | None = None
        self._cases: list[Callable[[], np.random.Generator]] = []

    def __call__(self, rng: np.random.Generator) -> None:
        """One message, and Bob's next answer."""
        state = rng.bit_generator.state

        def again() -> np.random.Generator:
            made = np.random.default_rng()
            made.bit_generator.state = state
            return made

        if self._stage is None:
            with self._put_aside():
                self._stage, self._cases = Stage(self._folder), []
        self._cases.append(again)
        refusal: InputError | StorageError | None = None
        try:
            _try(self._stage, rng)
        except (InputError, StorageError) as error:
            refusal = error
        except BaseException as error:
            self._end()
            raise AssertionError(f"{error!r}; {self._told(check=False)}") from error
        if len(self._cases) == self.EVERY:
            self.finish()
        if refusal is not None:
            raise refusal

    @contextmanager
    def _put_aside(self) -> Iterator[None]:
        began = time.thread_time()
        try:
            yield
        finally:
            self.aside += time.thread_time() - began

    def finish(self) -> None:
        """Look at all of the stage, and leave it; where something fails, say which message is to blame."""
        if self._stage is None:
            return
        with self._put_aside():
            try:
                self._stage.check_all()
            except BaseException as error:
                raise AssertionError(f"{error!r}; {self._told(check=True)}") from error
            finally:
                self._end()

    def _end(self) -> None:
        stage, self._stage = self._stage, None
        if stage is not None:
            stage.end()

    def _told(self, *, check: bool) -> str:
        """Which of the messages so far fails alone, or after which others."""
        number = len(self._cases)
        for place in reversed(range(number)) if not check else range(number):
            if self._fails(self._cases[place : place + 1]):
                return f"it fails alone {number - 1 - place} seeds before this one"
        return f"it fails after all {number} messages up to this one, none of them alone"

    def _fails(self, cases: list[Callable[[], np.random.Generator]]) -> bool:
        print(json.dumps({"tries again": len(cases)}), flush=True)  # the watcher learns that it goes on
        stage = Stage(self._folder)
        try:
            for case in cases:
                try:
                    _try(stage, case())
                except (InputError, StorageError):
                    continue
            stage.check_all()
        except Exception:  # noqa: BLE001 (whatever it is, it is what is looked for)
            return True
        finally:
            stage.end()
        return False


def _try(stage: Stage, rng: np.random.Generator) -> None:
    """A message, and what must hold after it, whether it was taken or refused in a sentence."""
    refusal: InputError | StorageError | None = None
    try:
        stage.receive(rng)
    except (InputError, StorageError) as error:
        refusal = error
    stage.go_on()
    if refusal is not None:
        raise refusal
