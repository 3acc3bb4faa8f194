"""People at their browsers: what a tab shows, what it sends, and what must become of that."""

from __future__ import annotations

import json
import math
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC
from typing import Any
from unittest import mock

from closecall.app.api.people import team
from closecall.app.api.plain import PlainCard
from closecall.app.api.progress import progress
from closecall.app.api.submit import take
from closecall.app.components import answers_of
from closecall.app.engine.selection_parameters import AUDIT, OVERLAP
from closecall.app.projects.roles import Person
from closecall.app.sessions.blind.begin import begin, offer
from closecall.app.sessions.classes import can_choose
from closecall.app.sessions.group import MOST
from closecall.app.sessions.labeling import LabelingSession
from closecall.app.sessions.presses import answer_id
from closecall.app.sessions.review import VIEWS, Asked, Review
from closecall.storage import StorageError
from tests.projects import correct
from tests.stateful.model import Said
from tests.stateful.served import Served

WORDS = ("yes", "no", "yes", "no", "skip", "unsure")


class Tab:
    """One tab of one person's browser: it is at one session, and shows one view of it at a time.

    Parameters
    ----------
    served : Served
    name : str
        Who sits at it.
    concept : int
        Which question it is about.
    """

    def __init__(self, served: Served, name: str, concept: int) -> None:
        self.served, self.name, self.concept = served, name, concept
        self.session_id: str | None = None
        self.session_id = self.session.id
        self.blind: str | None = None
        self.plain: PlainCard | None = None
        self.last: tuple[str, list[dict[str, Any]]] | None = None
        """The view and the answers that were sent last."""
        self.cards: dict[str, dict[str, Any]] = {}
        """What each view shows in the browser, however old that is."""

    @property
    def person(self) -> Person:
        """Who sits at it, and what they may do."""
        return self.served.project.roles.person(self.name)

    @property
    def session(self) -> LabelingSession:
        """The session of the address."""
        return self.served.project.session_of(self.person, self.session_id, self.concept)

    def view(self, name: str) -> Any:
        """What answers are handed to while the tab shows the view `name`; None where there is none."""
        project, session = self.served.project, self.session
        match name:
            case "one":
                return session
            case "grid":
                return project.grid(session)
            case "classes":
                return project.classes(session) if can_choose(session) else None
            case "found":
                return project.found(session)
            case "similar":
                return project.similar_to(session)
            case "decide":
                return project.decisions(session) if self.person.is_owner else None
            case "blind":
                return self._blind(session)
        raise AssertionError(name)

    def _blind(self, session: LabelingSession) -> Any:
        if self.blind is None:
            if offer(session).problem:
                return None
            begun = begin(session, ["exhaustive", "random"])
            self.blind = begun.id
            for said in self.served.read():  # what both sides begin with
                assert said.annotator == self.name
                self.served.model.take(said)
        return self.served.project.blind(self.blind)

    # What is seen

    def look(self, name: str) -> dict[str, Any] | None:
        """Open the view, or let it run again; returns its card."""
        view = self.view(name)
        if view is None:
            return None
        card = take(self.served.project, view, [], self.person)
        for said in self.served.read():  # what Review stored is copied once the comparison is drawn again
            assert name == "blind", f"nobody sent {said}"
            self._check_copy(said)
            self.served.model.take(said)
        self._sees(name, card)
        return card

    def _sees(self, name: str, card: dict[str, Any]) -> None:
        json.dumps(card, allow_nan=False)
        assert card["message"] is None, card["message"]
        if name in ("one", "classes", "blind", "decide"):
            item = card["item"]
            assert item is not None or card["waiting"]["exhausted"], (
                "there is nothing to answer, for no reason"
            )
            if name == "one" and item is None:
                self._nothing_is_left()
            if item is not None:
                assert item["id"] in self.served.pool.ids
        self.cards[name] = card

    def _nothing_is_left(self) -> None:
        """Nothing is asked only where all is answered, or in another person's view, or repeats what is."""
        project, groups = self.served.project, self.served.project.groups()
        own = {record.id for record in project.log.sessions() if record.annotator == self.name}
        others = set(project.leases.held(but_for=own))
        taken = others | set(self.served.model.items(self.concept))
        repeats = groups.members_of(sorted(taken)).tolist() if groups is not None else []
        left = set(self.served.pool.ids.tolist()) - taken - set(repeats)
        assert not left, "items are left, and none is asked"

    # What is sent

    def answer(self, name: str, picks: Sequence[tuple[int, str]], *, ahead: bool = False) -> None:
        """Answer what the view shows, as the tab saw it last: `picks` are places and words."""
        card = self.cards.get(name) or self.look(name)
        if card is None:
            return
        cells = card["cells"] if "cells" in card else [card["item"]]
        cells = [cell for cell in cells if cell is not None and cell["selection"] is not None]
        given: dict[str, dict[str, Any]] = {}
        for place, word in picks:
            if cells:
                cell = cells[place % len(cells)]
                given.setdefault(cell["selection"], self._answer(cell, word, name, card, place))
        if ahead and len(given) == 1:
            (one,) = given.values()
            following = card.get("next", {}).get(one["answer"])
            if following and following.get("item"):
                one["next"] = following["item"]["selection"]
        self.send(name, list(given.values()))

    def answer_alike(self, word: str, *, undo: bool) -> None:
        """Give the item in view and its near-duplicates one answer, and maybe undo it before it is stored."""
        card = self.look("one")
        if card is None or card["item"] is None:
            return
        groups, item = self.served.project.duplicates.current, card["item"]["id"]
        members = groups.members(item).tolist() if groups is not None else []
        others = [member for member in members if member != item][:MOST]
        given = self._answer(card["item"], word, "one", card, 0) | {"group": others}
        answers, free = [given], self._free(given)
        if undo:
            own = {"item": item, "answer": "undo", "undoes": given["id"]}
            answers.append(self.blank() | {"session": given["session"]} | own)
        self.send("one", answers)
        model = self.served.model
        if given["id"] in model.ids():
            lines = [said for said in model.log if said.id in model.along.get(given["id"], ())]
            assert {said.item for said in lines} == free, f"{lines} are not about {free}"
            in_force = {said.item for said in model.in_force(self.concept) if said in lines}
            assert in_force == (set() if undo else free)

    def _free(self, given: Mapping[str, Any]) -> set[int]:
        """The other items that get the answer: those of the same group without an answer in force.

        None that another person has in view, and none along with what is answered alone.
        """
        project, model = self.served.project, self.served.model
        shown = project.log.selection(given["selection"])
        assert shown is not None
        is_alone = not {AUDIT, OVERLAP}.isdisjoint(shown.parameters)
        if is_alone or model.of(self.concept, given["item"]).is_audited:
            return set()
        groups = project.duplicates.current
        group = groups.group(given["item"]) if groups is not None else None
        held = project.leases.held(but_for=self.session.side_by_side)
        near = set(group[1].tolist()) if group is not None else set()
        return near.intersection(given["group"]) - set(held) - set(model.items(self.concept))

    def _answer(
        self, cell: Mapping[str, Any], word: str, name: str, card: Mapping[str, Any], place: int
    ) -> dict[str, Any]:
        answer = self.blank() | {"item": cell["id"], "selection": cell["selection"], "answer": word}
        answer["session"] = card["session"]
        if name == "classes":
            concepts = [choice["concept"] for choice in card["classes"]]
            answer |= {"classes": concepts}
            if word == "yes":
                answer["concept"] = concepts[place % len(concepts)]
        if name == "decide" and word == "skip":
            answer["answer"] = "skip"
        return answer

    def blank(self) -> dict[str, Any]:
        """An answer as any view sends it, without what it says."""
        return {
            "id": str(uuid.uuid4()),
            "session": self.session_id,
            "selection": None,
            "undoes": None,
            "corrects": None,
            "browser_time": 1_700_000_000_000 + len(self.served.model.log),
            "time_taken_ms": 700,
        }

    def undo(self, name: str, place: int = -1) -> None:
        """Take back an answer of the view's strip, or grid before."""
        entry = self._given(name, place)
        if entry is not None:
            item, answer_id, _ = entry
            own = {"item": item, "answer": "undo", "undoes": answer_id}
            if name == "classes":
                own["classes"] = [choice["concept"] for choice in self.cards[name]["classes"]]
            self.send(name, [self.blank() | {"session": self.cards[name]["session"]} | own])

    def correct(self, name: str, place: int, word: str) -> None:
        """Say something else of an answer of the strip, or grid before."""
        entry = self._given(name, place)
        if entry is None:
            return
        item, answer_id, _ = entry
        self.send(name, [self._correction(name, item, answer_id, place, word)])

    def _correction(self, name: str, item: int, answer_id: str, place: int, word: str) -> dict[str, Any]:
        own: dict[str, Any] = {"item": item, "answer": word, "corrects": answer_id}
        if name == "classes":
            concepts = [choice["concept"] for choice in self.cards[name]["classes"]]
            own |= {
                "classes": concepts,
                "concept": concepts[place % len(concepts)] if word == "yes" else None,
            }
        return self.blank() | {"session": self.cards[name]["session"]} | own

    def correct_at_once(self, name: str, place: int, word: str, other: str, *, on_review: bool) -> None:
        """Answer what the view shows and say something else of it, in one message that Review may get."""
        card = self.cards.get(name) or self.look(name)
        cell = card["item"] if card is not None else None
        if card is not None and cell is not None:
            given = self._answer(cell, word, name, card, place)
            correction = self._correction(name, cell["id"], given["id"], place, other)
            self.send(name, [given, correction], on_review=on_review)

    def _given(self, name: str, place: int) -> tuple[int, str, str] | None:
        card = self.cards.get(name) or self.look(name)
        if card is None:
            return None
        if "cells" in card:
            found = [(c["id"], c["answer_id"], c["answer"]) for c in card["last"] if c["answer_id"]]
        else:
            found = [(e["item"], e["answer_id"], e["answer"]) for e in card["strip"]]
        return found[place % len(found)] if found else None

    def send(
        self, name: str, answers: list[dict[str, Any]], *, on_review: bool = False
    ) -> dict[str, Any] | None:
        """Hand answers to the view, or to Review; asserts that what must be taken is, and is stored once."""
        view = self.view(name)
        if view is None:
            return None
        self.last = (name, answers)
        before = self.served.model.ids()
        fates = self._fates(answers)
        pending = answers_of({"pending": answers})
        if on_review:
            settled = correct(Review(self.session, self.person), pending)
            self._settled(answers, settled, before, fates)
            return None
        settled = take(self.served.project, view, pending, self.person)
        self._settled(answers, settled, before, fates)
        self._sees(name, settled)
        self._went_on(settled, answers)
        return settled

    def _went_on(self, card: Mapping[str, Any], answers: Sequence[Mapping[str, Any]]) -> None:
        """What was answered, and taken, is not asked again."""
        item = card.get("item")
        for answer in answers:
            if (
                answer["id"] in card["acked"]
                and answer["answer"] not in ("undo", "skip")
                and item is not None
            ):
                assert item["selection"] != answer["selection"], "what was answered is still asked"

    def _fates(self, answers: Sequence[Mapping[str, Any]]) -> dict[str, str]:
        """What must become of each: taken, or refused; of some both is right."""
        model, fates = self.served.model, {}
        known, undone = model.ids(), {said.undoes for said in model.log}
        answered = {
            said.selection
            for said in model.log
            if said.selection and said.id not in undone and said.corrects is None
        }
        corrected = {
            said.selection for said in model.log if said.selection and said.id not in undone and said.corrects
        }
        for answer in answers:
            selection = answer["selection"]
            if answer["id"] in known:
                fate = "taken"
            elif answer["undoes"] is not None:
                fate = "either"
                if answer["undoes"] in undone and "classes" not in answer and self.blind is None:
                    fate = "refused"
            elif answer["corrects"] is not None or selection is None or selection in corrected:
                fate = "either"
            else:
                is_second = selection in answered or self._has_answered_elsewhere(answer)
                fate = "refused" if is_second else "taken"
            fates[answer["id"]] = fate
        return fates

    def _has_answered_elsewhere(self, answer: Mapping[str, Any]) -> bool:
        """Whether the person has answered the item in another tab since this tab's view chose it."""
        log, item, is_decision = self.served.project.log, answer["item"], self._is_on_decide(answer)
        shown = log.selection(answer["selection"]) or log.foreseen(answer["selection"])
        if is_decision and answer["answer"] == "skip":
            return False
        concept = shown.concept_id if shown is not None else self.concept
        session = shown.session_id if shown is not None else answer["session"]
        for said in self.served.model.in_force(concept, item):
            stored = log.answer(said.id)
            assert stored is not None
            if (said.annotator, said.purpose == "decision") == (self.name, is_decision) and (
                said.session != session and (shown is None or stored.seq > shown.trained_through)
            ):
                return True
        return False

    def _settled(
        self,
        answers: Sequence[Mapping[str, Any]],
        settled: Mapping[str, Any],
        before: set[str],
        fates: Mapping[str, str],
    ) -> None:
        refused = {refusal["id"]: refusal["reason"] for refusal in settled["refused"]}
        acked = set(settled["acked"])
        new = self.served.read()
        for answer in answers:
            name = answer["id"]
            assert (name in acked) != (name in refused), f"{answer} is neither stored nor refused: {settled}"
            if name in refused:
                assert refused[name]
                assert "\n" not in refused[name]
            fate = fates[name]
            assert fate == "either" or (name in acked) == (fate == "taken"), f"{answer}: {fate}, {refused}"
        self._explain(new, answers, acked, before)

    def _explain(
        self,
        new: Sequence[Said],
        answers: Sequence[Mapping[str, Any]],
        acked: set[str],
        before: set[str],
    ) -> None:
        """Each new line of the log is what somebody sent, and for what it must be; the model takes it."""
        model, sent = self.served.model, {answer["id"]: answer for answer in answers}
        sides = set(self._sides())
        stored = {said.id for said in new}
        for said in new:
            assert said.annotator == self.name
            answer = sent.get(said.id)
            leader = self._leader(said, answers) if answer is None else None
            others = [a for a in answers if a["item"] == said.item]
            if leader is not None:
                assert leader["id"] in acked
                assert said.session == leader["session"]
                if said.undoes is None:
                    model.along.setdefault(leader["id"], set()).add(said.id)
            elif answer is None and said.session in sides:
                self._check_copy(said)
            else:
                assert answer is not None or any("classes" in a for a in others), f"nobody sent {said}"
                of = [answer] if answer is not None else [a for a in others if "classes" in a]
                assert any(self._agrees(said, a) for a in of), f"{said} is not what was sent: {of}"
                assert answer is None or said.id in acked
            assert said.word == "undo" or said.purpose == self._purpose(said, sent.get(said.id)), said
            model.take(said)
        for name in acked - before:
            answer = sent[name]
            is_put_off = answer["answer"] == "skip" and self._is_on_decide(answer)
            # Where the leading question's answer was taken back alone, the press's undo is for the others.
            of_press = {answer_id(name, concept, own=0) for concept in answer.get("classes", ())}
            is_stored = name in stored or not of_press.isdisjoint(model.ids())
            assert is_put_off or is_stored, f"{answer} was acknowledged, and is not stored"
            if answer["undoes"] is not None:
                in_force = {said.id for said in model.in_force(self.concept)}
                assert in_force.isdisjoint(model.along.get(answer["undoes"], ())), "undone in part"

    def _leader(self, said: Said, answers: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
        """What was sent, if the line was stored along with it: an answer about its group, or its undo."""
        for answer in answers:
            if said.undoes is not None and said.undoes in self.served.model.along.get(answer["undoes"], ()):
                return answer
            if (said.word, said.undoes) == (answer["answer"], None) and said.item in answer.get("group", ()):
                return answer
        return None

    def _agrees(self, said: Said, answer: Mapping[str, Any]) -> bool:
        word = answer["answer"]
        if "classes" in answer and word == "yes":
            word = "yes" if answer["concept"] == said.concept else "no"
        return (said.item, said.word) == (answer["item"], word) and (said.undoes is None) == (
            answer["undoes"] is None
        )

    def _check_copy(self, said: Said) -> None:
        """A side of a blind comparison is given what its annotator said on another side."""
        project = self.served.project
        assert self.blind is not None
        comparison = project.blind(self.blind)
        concepts = {side.concept.record.id for side in comparison.sides}
        assert said.concept in concepts
        if said.word != "undo" and said.corrects is None:
            words = {self.served.model.of(other, said.item).votes.get(self.name) for other in concepts}
            assert said.word in words, f"{said} is not what was said on another side"

    def _sides(self) -> list[str]:
        return [] if self.blind is None else [side.id for side in self.served.project.blind(self.blind).sides]

    def _purpose(self, said: Said, answer: Mapping[str, Any] | None) -> str:
        """What the line must be for: nothing that is said of the audit's items trains."""
        if answer is not None and (self._is_on_decide(answer) or self._is_decision(answer["corrects"])):
            return "decision"
        if self.served.model.of(said.concept, said.item).is_audited:
            return "audit"
        return "audit" if self.served.is_drawn_for_audit(said.selection) else "train"

    @staticmethod
    def _is_on_decide(answer: Mapping[str, Any]) -> bool:
        """Whether the answer was given on the card for decisions."""
        return str(answer["selection"]).startswith("decide ")

    def _is_decision(self, answer_id: str | None) -> bool:
        """Whether this line of the log is an owner's; what corrects it is one, from wherever it is sent."""
        return any(said.id == answer_id and said.purpose == "decision" for said in self.served.model.log)

    def again(self) -> None:
        """Send the last answers once more, as a browser does that heard nothing: each is taken as before."""
        if self.last is not None:
            self.send(*self.last)

    @contextmanager
    def reply_lost(self, *, stored: bool) -> Iterator[None]:
        """The next answers are `stored`, or not, and the server's word of it is lost."""
        log = self.served.project.log
        real, is_lost = log.append_answers, False

        def lose(*args: Any, **kwargs: Any) -> Any:
            nonlocal is_lost
            if is_lost:
                return real(*args, **kwargs)
            is_lost = True
            if stored:
                real(*args, **kwargs)
            raise StorageError("The reply to a commit was lost", "locked")

        with mock.patch.object(log, "append_answers", lose):
            yield

    def answer_unheard(self, name: str, picks: Sequence[tuple[int, str]], *, stored: bool) -> None:
        """Answer, hear nothing of it, and send it again."""
        send, sent = self.send, []
        with mock.patch.object(self, "send", lambda name, answers: sent.append((name, answers))):
            self.answer(name, picks)
        for view_name, answers in sent:
            view = self.view(view_name)
            if view is None or not answers:
                continue
            with self.reply_lost(stored=stored):
                settled = take(self.served.project, view, answers_of({"pending": answers}), self.person)
            shown = self.cards[view_name].get("item")
            if settled["message"]:
                assert not settled["acked"]
            ids = {answer["id"] for answer in answers}
            self._explain(self.served.read(), answers, ids, ids)
            after = send(view_name, answers)
            if after is not None and shown is not None and stored:
                self._went_on(after, answers)

    # The other pages

    def press(self, word: str) -> None:
        """Use the plain widgets."""
        if self.plain is None or self.plain._session is not self.session:
            self.plain = PlainCard(self.served.project, self.session, self.person)
        drawn = self.plain.draw()
        drawn.sent()
        drawn.at, self.plain._pressed_at = drawn.at - 10, -math.inf  # nobody presses at once
        before = self.served.model.ids()
        answer = self.plain._undo(drawn) if word == "undo" else self.plain._answer(drawn, word)
        self.plain.press(drawn, word)
        new = self.served.read()
        if answer is None:
            assert not new
            return
        full = {"undoes": None, "corrects": None, "selection": None, "session": self.session_id} | answer
        assert drawn.is_done
        acked = {answer["id"]} if not self.plain.message else set()
        self._explain(new, [full], acked, before)

    def review(self, view: str, line: str = "") -> dict[str, Any]:
        """Open Review; what it counts is what the model counts."""
        page = Review(self.session, self.person).page(Asked(view, line), UTC)
        json.dumps(page, allow_nan=False)
        items = self.served.model.items(self.concept)
        if self.person.is_owner:
            assert page["views"]["all"] == len(items)
            assert page["views"]["contested"] == sum(its.is_contested for its in items.values())
            for word in ("yes", "no", "skip", "unsure"):
                assert page["views"][word] == sum(its.status == word for its in items.values())
        else:
            assert page["views"]["all"] == sum(self.name in its.votes for its in items.values())
        return page

    def correct_in_review(self, place: int, word: str) -> None:
        """Change what is listed, or take it back: one's own; an owner may speak of any item."""
        page = self.review("all")
        if not page["rows"]:
            return
        item = page["rows"][place % len(page["rows"])]["item"]
        own = [
            said
            for said in self.served.model.in_force(self.concept, item)
            if said.annotator == self.name and said.purpose != "decision"
        ]
        answer = self.blank() | {"item": item, "answer": word}
        if word == "undo":
            if not own:
                return
            answer["undoes"] = own[-1].id
        elif own:
            answer["corrects"] = own[-1].id
        before, settled = self.served.model.ids(), correct(Review(self.session, self.person), [answer])
        assert settled["message"] is None
        is_other_session = word == "undo" and own[-1].session != self.session_id
        fate = "refused" if is_other_session else "taken"
        self._settled([answer], settled, before, {answer["id"]: fate})

    def pages(self, views: Sequence[str] = VIEWS) -> None:
        """The pages beside, Review in these views: none of them fails, whatever was said."""
        session = self.session
        shown = progress(session)
        json.dumps(shown, allow_nan=False)
        counts = self.served.model.counts(self.concept)
        assert shown["labels"] == counts["labels"]
        assert shown["counts"]["yes"] == counts["yes"]
        for view in views:
            self.review(view)
        people = team(session, self.person, UTC)
        json.dumps(people, allow_nan=False)
        items = self.served.model.items(self.concept)
        for row in people["people"]:
            assert row["items"] == sum(row["name"] in its.votes for its in items.values())
        if self.person.is_owner:
            assert people["contested"] == sum(its.is_contested for its in items.values())

    def search(self, text: str) -> None:
        """Look for items by name."""
        found = self.served.project.found(self.session)
        found.ask({"id": str(uuid.uuid4()), "text": text, "first": 0})
        self.look("found")

    def look_for(self, like: str) -> None:
        """Look for what is similar."""
        self.served.project.similar_to(self.session).ask({"id": str(uuid.uuid4()), "like": like, "first": 0})
        self.look("similar")

    def says(self, item: int, word: str) -> None:
        """Join what others said of an item, as Review lets owners."""
        answer = self.blank() | {"item": item, "answer": word}
        before = self.served.model.ids()
        settled = take(self.served.project, self.session, [answer], self.person)
        self._settled([answer], settled, before, {answer["id"]: "taken"})

    def says_what_cannot_be(self, item: int) -> None:
        """Answer about an item that nobody can be asked about: it is refused in a sentence."""
        answer = self.blank() | {"item": item, "answer": "yes"}
        before = self.served.model.ids()
        settled = take(self.served.project, self.session, [answer], self.person)
        self._settled([answer], settled, before, {answer["id"]: "refused"})
