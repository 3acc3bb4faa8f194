"""Replay a project's log: for every selection, train, select and rank again, and compare with the log."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple, Self

import click
import numpy as np

from closecall.app.display.phrases import counted
from closecall.app.engine.audit import frames_then, has_frame
from closecall.app.engine.choosing import choose, draw_wanted
from closecall.app.engine.kept_groups import KeptGroups
from closecall.app.engine.model_predictions import ConceptPredictions
from closecall.app.engine.selection_parameters import (
    AUDIT,
    BATCH,
    GROUP_RULE,
    INCOMPLETE,
    LASSO,
    OF_THE_QUERY,
    OVERLAP,
    PART,
    PREDICTED,
    SEARCH,
    SIMILAR,
    WORDS,
    description_of,
    sought_by,
)
from closecall.app.projects.config import ProjectFile
from closecall.app.projects.descriptions import FIRST
from closecall.app.projects.intake import why_no_row
from closecall.app.verification import audits, lassos, predictions, similar_searches, word_searches
from closecall.app.verification.imported import check_imported
from closecall.app.verification.pools import Pools
from closecall.app.verification.replay import Replay, Standings, replays_of
from closecall.app.verification.report import Findings, name_of_ranks, named
from closecall.core.errors import InputError
from closecall.core.evaluation.rank import BruteForce, scores_of
from closecall.core.pool.name_index import Names
from closecall.core.pool.pool import Pool
from closecall.core.selection import (
    PoolExhausted,
    QueryStrategy,
    Selection,
    make_strategy,
    strategy_of_log,
)
from closecall.storage import (
    AnswerRecord,
    ConceptRecord,
    Concepts,
    Database,
    LabelLog,
    SelectionRecord,
)
from closecall.storage.groupings import Groupings
from closecall.storage.predictions import Predictions

REMEMBERED_AT_ONCE = 16
"""Maximum number of hyperplanes in one call of `QueryStrategy.remember`, which scans the pool once per call.

The object returned for each hyperplane takes 4 MB per million items.
"""


def verify_project(project: Path, *, as_json: bool = False) -> int:
    """Verify the project and print the findings; return the exit code, 1 if there are disagreements, else 0.

    Raises
    ------
    InputError, StorageError
        If the project can't be read.
    """
    file = ProjectFile.read(project)
    findings = Findings()
    with Database.open(file.labels(project), read_only=True) as database:
        log = LabelLog(database)
        end = _End.of(log)
        pools = Pools(project, file)  # after `end`, so they have all items of the log up to there
        concepts = Concepts(database)
        kept = KeptGroups(Groupings(database))
        for concept in concepts.all():
            _verify_concept(project, log, end, concepts, concept, kept, pools, findings)
    if as_json:
        click.echo(json.dumps(findings.summary()))
    else:
        findings.show()
    return 1 if findings.problems else 0


class _End(NamedTuple):
    """The end of the log when the replay began: the `seq` of the last answer and of the last selection.

    The project may be labeled meanwhile, and the log is read in several transactions.
    """

    answers: int
    selections: int

    @classmethod
    def of(cls, log: LabelLog) -> Self:
        """Read the answers' end first, so that each answer's selection is included."""
        answers, last = log.position(), log.last_shown()
        return cls(answers, last.seq if last is not None else 0)

    def answers_in(self, log: LabelLog, concept_id: int) -> list[AnswerRecord]:
        """Return the concept's answers up to the end."""
        return list(log.answers_after(concept_id, through=self.answers))

    def selections_in(self, log: LabelLog, concept_id: int) -> list[SelectionRecord]:
        """Return the concept's selections up to the end, except those based on later answers."""
        found = log.selections(concept_id, through=self.selections)
        return [selection for selection in found if selection.trained_through <= self.answers]


def _verify_concept(
    project: Path,
    log: LabelLog,
    end: _End,
    concepts: Concepts,
    concept: ConceptRecord,
    kept: KeptGroups,
    pools: Pools,
    findings: Findings,
) -> None:
    answers, selections = end.answers_in(log, concept.id), end.selections_in(log, concept.id)
    findings.answers += len(answers)
    findings.selections += len(selections)
    by_id = {selection.id: selection for selection in selections}
    by_description: dict[str, list[SelectionRecord]] = {}
    for record in selections:
        by_description.setdefault(description_of(record), []).append(record)
    opened = {description: pools.under(description) for description in by_description}
    undone = {answer.undoes for answer in answers}
    for answer in answers:
        if answer.answer != "undo" and answer.id not in undone and not pools.may_have_row(answer.item):
            findings.problems.append(
                f"{why_no_row(pools.current, answer.item)}, but answer {answer.id} is about it: it is ignored"
            )
        selection = by_id.get(answer.selection_id or "")
        if answer.selection_id and selection is None:
            findings.problems.append(f"Answer {answer.id} names a selection that the log does not have")
        elif selection is not None and selection.item != answer.item:
            findings.problems.append(
                f"Answer {answer.id} is about item {answer.item}, its selection showed item {selection.item}"
            )
    sessions = log.sessions(concept.id)
    findings.imported += check_imported(answers, sessions, findings)
    annotators = {session.id: session.annotator for session in sessions}
    for description, pool in opened.items():
        own, store = by_description[description], concepts.under(description)
        if isinstance(pool, Pool):
            _replay(project, log, store, concept, answers, own, annotators, kept, pool, findings)
        else:
            findings.problems.append(
                f"{counted(len(own), 'selection')} under the description {description or FIRST} can't be "
                f"repeated: {pool}"
            )


def _replay(
    project: Path,
    log: LabelLog,
    concepts: Concepts,
    concept: ConceptRecord,
    answers: Sequence[AnswerRecord],
    selections: Sequence[SelectionRecord],
    annotators: Mapping[str, str],
    kept: KeptGroups,
    pool: Pool,
    findings: Findings,
) -> None:
    """Repeat `selections`: all selections of the concept that were made with the pool's features."""
    by_id = {selection.id: selection for selection in selections}
    standings = Standings(concept.id, answers, annotators, kept, pool)
    replays = sorted(replays_of(concepts, concept, by_id, standings, findings), key=_index_of)
    drawn = [selection for selection in selections if selection.why == "audit" and has_frame(selection)]
    frames = frames_then(pool, concepts, concept, answers, drawn)
    fitted: dict[str, QueryStrategy] = {}
    for index, group in groupby(replays, key=_index_of):
        own = list(group)
        try:
            then = pool.prefix(index[0])
        except InputError:
            findings.problems.append(
                f"{counted(len(own), 'selection')} from {index[0]:,} items can't be repeated: "
                f"the pool has {len(pool):,}"
            )
            continue
        if index[1] == AUDIT:
            findings.problems += [
                f"Round {replay.record.round}: the audit's selection does not say what it was drawn from"
                for replay in own
                if not has_frame(replay.record)
            ]
            framed = [replay for replay in own if has_frame(replay.record)]
            findings.choices += len(framed)
            findings.problems += audits.draw_again(framed, then, frames)
            for replay in framed:
                _scores(replay, then, findings)
        elif index[1] == SEARCH:
            _search_again(own, then, findings)
        elif index[1] in (SIMILAR, WORDS, LASSO, PREDICTED):
            findings.choices += len(own)
            if index[1] == SIMILAR:
                findings.problems += similar_searches.search_again(
                    own, pool, log, concept, project, concepts.description
                )
            elif index[1] == WORDS:
                findings.problems += word_searches.search_again(own, then)
            elif index[1] == PREDICTED:
                before, present = findings.replaced, ConceptPredictions(Predictions(log.database), concept.id)
                findings.problems += predictions.select_again(own, then, present, findings)
                findings.choices -= findings.replaced - before
            else:
                findings.problems += lassos.select_again(own, pool, then)
            for replay in own:
                if replay.hyperplane is not None:
                    _scores(replay, pool, findings)
        elif index[1] == OVERLAP:
            _ask_again(own, then, findings)
        else:
            _reselect(own, index, then, fitted, findings)


def _index_of(replay: Replay) -> tuple[int, str, str]:
    record = replay.record
    parameters = {name: value for name, value in record.parameters.items() if name not in OF_THE_QUERY}
    return record.items_total, record.strategy, json.dumps(parameters, sort_keys=True)


def _reselect(
    replays: Sequence[Replay],
    index: tuple[int, str, str],
    then: Pool,
    fitted: dict[str, QueryStrategy],
    findings: Findings,
) -> None:
    """Repeat the selections of one strategy, and rank the chosen items by brute force.

    `fitted` has the indexes built by earlier calls. If an index covers fewer items than the selections need,
    it is extended, as it was when the selections were made.
    """
    _, name, parameters = index
    try:
        strategy = _strategy_as_then(name, json.loads(parameters), then, fitted)
    except (InputError, TypeError) as error:
        findings.problems.append(f"The strategy {name} with {parameters} can't be made again: {error}")
        return
    for replay, memory in _with_memories(replays, strategy):
        record = replay.record
        if INCOMPLETE in record.parameters:
            findings.incomplete += 1
            if replay.hyperplane is not None:
                _scores(replay, then, findings)
            continue
        chosen = _choose_again(replay, then, strategy, memory)
        findings.choices += 1
        found = [int(item) for item in chosen.ids] if chosen else []
        logged = [other.item for other in replay.records]
        if found != logged:
            findings.problems.append(
                f"Round {record.round}: {record.strategy} chooses {named('item', found)}, "
                f"the log has {named('item', logged)}"
            )
        parts = list(chosen.parts) if chosen else []
        logged_parts = [other.parameters[PART] for other in replay.records if PART in other.parameters]
        if parts != logged_parts:
            findings.problems.append(
                f"Round {record.round}: {named('part', parts)} of {record.strategy} chooses, "
                f"the log has {named('part', logged_parts)}"
            )
        if replay.hyperplane is not None:
            for other, rank in zip(replay.records, _ranks(replay, then, findings), strict=True):
                findings.ranks.setdefault(name_of_ranks(other), []).append(rank)


def _search_again(replays: Sequence[Replay], then: Pool, findings: Findings) -> None:
    """Repeat the searches by name. Check that they find the logged items, and that all were eligible."""
    try:
        names = Names(then)
    except InputError as error:
        findings.problems.append(f"The names of the items can't be searched again: {error}")
        return
    for replay in replays:
        findings.choices += 1
        texts = {record.parameters[SEARCH]["text"] for record in replay.records}
        all_found = {text: names.search(text) for text in texts}
        for record in replay.records:
            text, place = record.parameters[SEARCH]["text"], record.parameters[SEARCH]["place"]
            found = all_found[text][place : place + 1].tolist()
            if found != [record.item]:
                findings.problems.append(
                    f"Round {record.round}: the search for {text!r} finds {named('item', found)} at place "
                    f"{place}, the log has {named('item', [record.item])}"
                )
            if record.item in replay.exclude:
                findings.problems.append(
                    f"Round {record.round}: item {record.item} was found by name, but had an answer or was "
                    f"in another session's view"
                )
        if replay.hyperplane is not None:
            _scores(replay, then, findings)


def _ask_again(replays: Sequence[Replay], then: Pool, findings: Findings) -> None:
    """Repeat the draws of items that needed a further annotator."""
    for replay in replays:
        record = replay.record
        n = record.parameters.get(BATCH, {"n": 1})["n"]
        drawn = draw_wanted(replay.standing, record.leased, seed=record.seed, n=n)
        found, probability = (drawn[0].tolist(), drawn[1]) if drawn else ([], None)
        logged = [other.item for other in replay.records]
        findings.choices += 1
        if found != logged or any(other.probability != probability for other in replay.records):
            findings.problems.append(
                f"Round {record.round}: of the items that a further person is to answer, "
                f"{named('item', found)} is drawn with probability {probability}, "
                f"the log has {named('item', logged)} and {record.probability}"
            )
        if replay.hyperplane is not None:
            _scores(replay, then, findings)


def _strategy_as_then(
    name: str, parameters: dict[str, Any], then: Pool, fitted: dict[str, QueryStrategy]
) -> QueryStrategy:
    if name in ("example", "description"):
        return make_strategy("exhaustive").fit(then)  # any strategy that needs a hyperplane does the same
    strategy = strategy_of_log(name, parameters)
    key = json.dumps([strategy.index_name, strategy.index_params()], sort_keys=True)
    if key not in fitted:
        fitted[key] = make_strategy(strategy.index_name, **strategy.index_params()).fit(then)
    elif fitted[key].n_items < len(then):
        fitted[key] = fitted[key].extended(then)
    return strategy.sharing(fitted[key])


def _with_memories(replays: Sequence[Replay], strategy: QueryStrategy) -> Iterator[tuple[Replay, object]]:
    """Yield each selection with the result of `QueryStrategy.remember` that it used, or None."""
    for first in range(0, len(replays), REMEMBERED_AT_ONCE):
        some = replays[first : first + REMEMBERED_AT_ONCE]
        planes = {replay.remembered.digest: replay.remembered for replay in some if replay.remembered}
        memories = dict(zip(planes, strategy.remember(list(planes.values())), strict=True))
        for replay in some:
            yield replay, memories[replay.remembered.digest] if replay.remembered else None


def _choose_again(replay: Replay, then: Pool, strategy: QueryStrategy, memory: object) -> Selection | None:
    batch = replay.record.parameters.get(BATCH, {"n": 1, "diversity": 0.0})
    try:
        return choose(
            then,
            strategy,
            replay.trained,
            exclude=replay.exclude,
            seed=replay.record.seed,
            memory=memory,
            n=batch["n"],
            diversity=batch["diversity"],
            groups=replay.standing.groups,
            rule=replay.record.parameters.get(GROUP_RULE, 1),
        )
    except PoolExhausted:
        return None


def _ranks(replay: Replay, then: Pool, findings: Findings) -> list[int]:
    """Return the rank of each selected item, as defined in `Findings.ranks`."""
    scores = _scores(replay, then, findings)
    assert replay.hyperplane is not None
    keys = [np.negative if sought_by(record) == "likeliest" else np.abs for record in replay.records]
    of_pool = {key: BruteForce(then, replay.hyperplane, exclude=replay.exclude, key=key) for key in {*keys}}
    return [
        of_pool[key].rank(record.item) - int(np.count_nonzero(key(scores[:place]) < key(scores[place])))
        for place, (record, key) in enumerate(zip(replay.records, keys, strict=True))
    ]


def _scores(replay: Replay, then: Pool, findings: Findings) -> np.ndarray:
    """Return wᵀx + b of the selected items, of shape (n_items,), and compare its size with the log.

    The hyperplane is wᵀx + b = 0, and x is the feature vector of an item.
    """
    hyperplane = replay.hyperplane
    assert hyperplane is not None
    scores = scores_of(then.rows_of(np.array([record.item for record in replay.records])), hyperplane)
    for record, margin in zip(replay.records, np.abs(scores), strict=True):
        if record.margin is None or not np.isclose(margin, record.margin, rtol=1e-9, atol=1e-12):
            findings.problems.append(
                f"Round {record.round}: |wᵀx| is {margin:.9g}, the log has {record.margin}"
            )
    return scores
