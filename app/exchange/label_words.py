"""Interpret a word in a file: yes, no, unsure, skip, or the name of a class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from closecall.app.projects.questions import meant_by
from closecall.app.projects.spelling import folded
from closecall.app.sessions.classes import labels_of
from closecall.core.errors import InputError
from closecall.storage import ConceptRecord
from closecall.storage.claims import Claim
from closecall.storage.records import AnswerWord
from closecall.storage.tabular import shown

NONE_OF_THEM = "none"
"""A word that means no for every concept."""

_OURS: dict[str, AnswerWord] = {"yes": "yes", "no": "no", "unsure": "unsure", "skip": "skip"}
_OTHERS: dict[str, AnswerWord] = {
    **dict.fromkeys(("true", "y", "t", "1", "positive"), "yes"),
    **dict.fromkeys(("false", "n", "f", "0", "negative", NONE_OF_THEM), "no"),
}


class Meaning:
    """An interpreter that turns the words in a file into answers about the concepts of a project.

    Class names take precedence over synonyms of yes and no: if the classes are digits, "1" is a class and not
    a synonym of yes.

    Parameters
    ----------
    concepts : sequence of ConceptRecord
        All concepts of the project: a file may name any of them.
    offered : sequence of ConceptRecord
        The active concepts, to which class names apply if the file names no concept.
    only : ConceptRecord or None
        The concept that the whole file is about, if a concept was chosen.
    classes : sequence of str
        The pool's classes. A class other than the positive class of a concept means no for this concept.
    asked : mapping, optional
        The names of the concepts that the file has answers about, each with its `Claim.is_certain`. A skip
        that names no concept is about these concepts or, if there are none, about all active concepts.
    """

    def __init__(
        self,
        concepts: Sequence[ConceptRecord],
        offered: Sequence[ConceptRecord],
        only: ConceptRecord | None,
        classes: Sequence[str],
        asked: Mapping[str, bool] | None = None,
    ) -> None:
        self._concepts, self._all = list(offered), list(concepts)
        self._meant: dict[str, list[ConceptRecord]] = {}  # by the name in the file
        self._only = only or (offered[0] if len(offered) == 1 else None)
        self._is_named = only is not None
        self._renamed: str | None = None  # the file's name of the concept, if it isn't the project's
        self._asked = [found[0] for name in asked or () if len(found := self._called(name)) == 1]
        self._class_of = {its["concept"]: folded(its["name"]) for its in labels_of(offered)}
        for concept in offered:
            if concept.positive_class is not None:
                self._class_of[concept.id] = folded(concept.positive_class)
        self._shown = sorted({*classes, *(c.positive_class for c in concepts if c.positive_class)})
        known = {*classes, *(its["name"] for its in labels_of(concepts))}
        self._classes = {folded(name) for name in known} | set(self._class_of.values())

    def of(self, claim: Claim, file: object) -> list[tuple[ConceptRecord, AnswerWord]]:
        """Return the answers that a line of the file gives, one per concept.

        A class name may answer several questions (concepts).

        Raises
        ------
        InputError
            If the concept or the word is unknown; the message names the file and the line.
        """
        where = f"{file}, {claim.place}"
        if claim.is_general and claim.concept is None and self._only is None:
            return [(its, _OURS[claim.word]) for its in self._asked or self._concepts]
        concept = self._concept(claim, where)
        word = folded(claim.word)
        if concept is not None:
            return [(concept, self._word(concept, word, claim, where))]
        if word not in _OURS and (word == NONE_OF_THEM or word in self._classes):
            return [(its, "yes" if self._class_of[its.id] == word else "no") for its in self._concepts]
        raise InputError(
            f"{where}: {shown(claim.word)} does not say which concept it is about: choose one with --concept "
            f"({', '.join(concept.name for concept in self._concepts)})"
        )

    def _concept(self, claim: Claim, where: str) -> ConceptRecord | None:
        if claim.concept is None:
            return self._only
        found = self._called(claim.concept)
        if self._only is not None and self._is_named:
            if found and claim.is_certain and self._only.id not in [its.id for its in found]:
                raise InputError(
                    f"{where}: it is about the concept {found[0].name!r}, but --concept is "
                    f"{self._only.name!r}"
                )
            self._require_one_name(claim, where)
            return self._only
        if len(found) != 1 and not claim.is_certain:
            return self._only
        if len(found) > 1:
            raise InputError(
                f"{where}: {shown(claim.concept)} could be each of the concepts "
                f"{', '.join(repr(its.name) for its in found)}: write the name as it is there"
            )
        if not found:
            raise InputError(
                f"{where}: there is no concept {shown(claim.concept)} in this project: add it, or choose one "
                f"with --concept: {', '.join(map(repr, (its.name for its in self._concepts)))}"
            )
        return found[0]

    def _called(self, name: str) -> list[ConceptRecord]:
        if name not in self._meant:
            self._meant[name] = meant_by(name, self._all, self._concepts)
        return self._meant[name]

    def _require_one_name(self, claim: Claim, where: str) -> None:
        """Raise InputError if the claim names another concept than earlier claims in the file.

        Otherwise, labels of several concepts would become labels of the concept chosen with --concept.
        """
        if not claim.is_certain:
            return
        if self._renamed is not None and folded(claim.concept or "") != folded(self._renamed):
            raise InputError(
                f"{where}: it is about the concept {shown(claim.concept)}, but earlier labels are about "
                f"{shown(self._renamed)}: with --concept, a file can have labels of one concept only. Export "
                "each concept into a file of its own, with export --concept"
            )
        self._renamed = self._renamed or claim.concept

    def _word(self, concept: ConceptRecord, word: str, claim: Claim, where: str) -> AnswerWord:
        if word in _OURS:
            return _OURS[word]
        if word == self._class_of[concept.id]:
            return "yes"
        if word in self._classes:
            return "no"
        if word in _OTHERS:
            return _OTHERS[word]
        classes = ", ".join(self._shown[:12]) + (", …" if len(self._shown) > 12 else "")
        allowed = "yes, no, unsure, skip" + (f" or a class ({classes})" if classes else "")
        raise InputError(f"{where}: the label must be {allowed}, got {shown(claim.word)}")
