"""A race: query strategies learn the same class from the same initial labels, each by its own selections.

This is the experiment of Jain et al. (NIPS 2010, section 4), run round by round. Each strategy has a *lane*:
the labels it selected and the SVM trained on them. In each round, every lane selects one item for its
hyperplane, the simulated annotator answers, and the lane's SVM is retrained.

Lanes take turns within a round on one thread, so that their times are measured under the same conditions; the
starting lane rotates from round to round. Apart from the times, a race depends only on the pool, the
strategies and the `Course`, and the results of a lane do not depend on the other lanes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from time import perf_counter, process_time

import numpy as np
from numpy.typing import NDArray

from closecall.core.duplicates import unrepeated_held_out
from closecall.core.errors import InputError, reason
from closecall.core.evaluation.held_out_scorer import Accuracy, HeldOutScorer
from closecall.core.evaluation.rank import BruteForce
from closecall.core.learning.round import Labels, is_positive, learn
from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.linear.svm import DEFAULT_C, ClassWeight
from closecall.core.numerics.blas import one_thread
from closecall.core.pool.pool import Pool
from closecall.core.selection import QueryStrategy
from closecall.core.simulation.drawing import Ids, ItemsByClass
from closecall.core.simulation.oracle import Oracle
from closecall.core.simulation.prevalence import hidden_positives, positive_classes


@dataclass(frozen=True)
class Course:
    """Settings of a race.

    Parameters
    ----------
    positive : int
        Index of the positive class.
    run : int
        Index of the repetition, from 0; each repetition draws its own initial labels.
    n_first : int
        Initial labels per class, all correct; 5 in Jain et al. See `ItemsByClass.per_class`.
    C, class_weight
        See `core.linear.svm.train`.
    noise : float
        Probability, 0 to 1, of a wrong answer. An item gets the same answer in every lane.
    seed : int
        Seed of initial labels, noise and random selections; not negative.
    prevalence : float or None
        Share of positives in the pool. If the class `positive` is more frequent, random items of it are
        hidden from the race. If it is rarer, random classes are positive, too. See
        `core.simulation.prevalence`. None for the class as it is.
    most_seconds : float or None
        Time limit per selection in seconds; None for no limit. A lane leaves the race if both the wall-clock
        time and the processor time of a selection exceed the limit. This selection still counts. Wall-clock
        time alone would depend on other load on the machine.
    """

    positive: int
    run: int = 0
    n_first: int = 5
    C: float = DEFAULT_C
    class_weight: ClassWeight = None
    noise: float = 0.0
    seed: int = 0
    most_seconds: float | None = None
    prevalence: float | None = None


@dataclass(frozen=True, eq=False)
class Turn:
    """Results of one lane in one round.

    Parameters
    ----------
    strategy : str
        Name of the lane.
    round : int
        Number of the round, from 1.
    n_labels : int
        Number of labels, including the label of this round.
    n_positives : int
        Number of positive labels among them.
    item : int
        Id of the selected item.
    answer : bool
        The annotator's answer, True for yes.
    margin : float
        |wᵀx + b| of the item when it was selected.
    rank : int or None
        Number of unlabeled items nearer to the hyperplane than the selected item. A rank takes a full scan,
        so it is computed only in the rounds 1, 2, 4, 8 …; None in the other rounds.
    scored : int
        Number of items that were scored in the selection.
    select_seconds, select_cpu_seconds : float
        Wall-clock time of the selection, and processor time of all threads.
    train_seconds, train_cpu_seconds : float
        Wall-clock and processor time of the training that follows, on all labels.
    accuracy : Accuracy
        Accuracy of the new hyperplane on the held-out items.
    hyperplane : Hyperplane
        Classifier trained on all labels so far.
    """

    strategy: str
    round: int
    n_labels: int
    n_positives: int
    item: int
    answer: bool
    margin: float
    rank: int | None
    scored: int
    select_seconds: float
    select_cpu_seconds: float
    train_seconds: float
    train_cpu_seconds: float
    accuracy: Accuracy
    hyperplane: Hyperplane


class Lane:
    """One strategy in a race.

    Attributes
    ----------
    name : str
        Key of the strategy in `Race(strategies)`.
    strategy : QueryStrategy
        Selects the items of the lane; fitted to the race's pool.
    labels : Labels
        The initial labels, followed by the labels of the items that the strategy selected, in that order.
    hyperplane : Hyperplane
        Classifier trained on these labels.
    failure : str or None
        Why the lane left the race, in one sentence; None while it is running.
    """

    def __init__(self, name: str, strategy: QueryStrategy, labels: Labels, hyperplane: Hyperplane) -> None:
        self.name = name
        self.strategy = strategy
        self.labels = labels
        self.hyperplane = hyperplane
        self.failure: str | None = None


class Race:
    """Strategies that learn the same class side by side.

    Parameters
    ----------
    pool : Pool
        The class of every item must be known.
    strategies : mapping of str to QueryStrategy
        Strategies by lane name, in the order of the lanes, each fitted to the pool. They are never modified.
    course : Course
        Settings of the race.
    items : ItemsByClass or None
        ``ItemsByClass(pool, course.n_first)``, given if several races share it. If None, the race creates it.

    Attributes
    ----------
    lanes : list of Lane
    round : int
        Number of rounds run.
    first : Labels
        Initial labels of all lanes.
    first_hyperplane : Hyperplane
        Classifier trained on the initial labels: round 0 of every lane.
    hidden : array of int64
        Positives of the pool that no lane can select, ascending; see `Course.prevalence`.
    accuracy_of : HeldOutScorer
        Computes the accuracy of hyperplanes on the held-out items.
    first_accuracy : Accuracy
        Accuracy of `first_hyperplane` on the held-out items.

    Raises
    ------
    InputError
        If an item's class is unknown, if the positive class has fewer than `n_first` items, if fewer than two
        classes have `n_first` items, or if the course has invalid values.
    """

    def __init__(
        self,
        pool: Pool,
        strategies: Mapping[str, QueryStrategy],
        course: Course,
        *,
        items: ItemsByClass | None = None,
    ) -> None:
        if not 0 <= course.positive < len(pool.classes):
            raise InputError(f"positive must be from 0 to {len(pool.classes) - 1}, got {course.positive}")
        if course.n_first < 1 or course.seed < 0 or course.run < 0:
            raise InputError(
                f"n_first must be at least 1 and seed and run at least 0, "
                f"got {course.n_first}, {course.seed} and {course.run}"
            )
        items = items or ItemsByClass(pool, course.n_first)
        if len(items) < len(pool):
            raise InputError(
                f"the class of {len(pool) - len(items)} items of the pool {pool.path} is unknown: "
                f"the simulated annotator can't answer for them"
            )
        if course.positive not in items.classes:
            raise InputError(
                f"{pool.classes[course.positive]} has fewer than {course.n_first} items "
                f"in the pool {pool.path}"
            )
        self.course = course
        self._pool = pool
        self._rng = np.random.default_rng([course.seed, course.positive, course.run])
        drawn = np.random.default_rng([course.seed, course.positive, course.run, 1])
        self._positives = positive_classes(items, course.positive, course.prevalence, drawn)
        self._oracle = Oracle(self._truth, course.positive, noise=course.noise, seed=course.seed)
        held_out = unrepeated_held_out(pool)
        held_out = replace(held_out, truth=self._merged(held_out.truth))
        self.accuracy_of = HeldOutScorer(held_out, course.positive, prevalence=course.prevalence)
        self.round = 0
        self.first = self._first_labels(items)
        self.hidden = self._hidden_items(drawn)
        with one_thread():
            self.first_hyperplane = self._learn(self.first)
            self.first_accuracy: Accuracy = self.accuracy_of([self.first_hyperplane])[0]
        self.lanes = [
            Lane(name, strategy, self.first, self.first_hyperplane) for name, strategy in strategies.items()
        ]

    @property
    def is_over(self) -> bool:
        """Whether all lanes have failed."""
        return all(lane.failure for lane in self.lanes)

    def is_positive(self, ids: Ids) -> NDArray[np.bool_]:
        """Return whether each item is positive in this race, of shape (n,)."""
        return is_positive(self._truth(ids), self.course.positive)

    def step(self) -> list[Turn]:
        """Run one round, and return one turn of each running lane, in the order of the lanes.

        BLAS is limited to one thread. An error in a lane is not raised, but recorded in `Lane.failure`.
        """
        self.round += 1
        seed = int(self._rng.integers(2**63))
        going = [lane for lane in self.lanes if lane.failure is None]
        first = self.round % max(len(going), 1)
        with one_thread():
            turns = {lane.name: self._turn(lane, seed) for lane in going[first:] + going[:first]}
            done = [turn for lane in going if (turn := turns[lane.name])]
            accuracies = self.accuracy_of([turn.hyperplane for turn in done])
        return [replace(turn, accuracy=own) for turn, own in zip(done, accuracies, strict=True)]

    def _turn(self, lane: Lane, seed: int) -> Turn | None:
        """Select an item, answer and train once. If the lane fails, return None."""
        try:
            excluded = self._excluded(lane)
            cpu, start = process_time(), perf_counter()
            selection = lane.strategy.select(
                lane.hyperplane,
                exclude=excluded,
                seed=seed,
                labels=lane.labels.items,
            )
            select_seconds, select_cpu = perf_counter() - start, process_time() - cpu
            item = int(selection.ids[0])
            rank = self._rank(lane, item) if self.round.bit_count() == 1 else None
            labels = lane.labels + Labels.of(self._pool, [item], self._oracle(item))
            cpu, start = process_time(), perf_counter()
            hyperplane = self._learn(labels)
            train_seconds, train_cpu = perf_counter() - start, process_time() - cpu
        except Exception as error:  # noqa: BLE001 - a third-party strategy may raise anything
            lane.failure = reason(error)
            return None
        took, most = min(select_seconds, select_cpu), self.course.most_seconds
        if most is not None and took > most:
            lane.failure = f"one selection took {took:.1f} s, which is over the limit of {most:g} s"
        lane.labels, lane.hyperplane = labels, hyperplane
        return Turn(
            strategy=lane.name,
            round=self.round,
            n_labels=len(labels),
            n_positives=int(labels.y.sum()),
            item=item,
            answer=bool(labels.y[-1]),
            margin=float(selection.margins[0]),
            rank=rank,
            scored=selection.scored,
            select_seconds=select_seconds,
            select_cpu_seconds=select_cpu,
            train_seconds=train_seconds,
            train_cpu_seconds=train_cpu,
            accuracy=Accuracy(None, None, None),
            hyperplane=hyperplane,
        )

    def _rank(self, lane: Lane, item: int) -> int:
        """Return the number of unlabeled items nearer to the lane's hyperplane than `item`."""
        return BruteForce(self._pool, lane.hyperplane, exclude=self._excluded(lane)).rank(item)

    def _excluded(self, lane: Lane) -> Ids:
        """Return the items that the lane can't select, ascending."""
        labeled = np.sort(lane.labels.ids)
        return np.union1d(labeled, self.hidden) if len(self.hidden) else labeled

    def _first_labels(self, items: ItemsByClass) -> Labels:
        ids = np.sort(items.per_class(self._rng, self.course.positive, self.course.n_first))
        return Labels.of(self._pool, ids, self.is_positive(ids))

    def _hidden_items(self, rng: np.random.Generator) -> Ids:
        """Return the positives that are hidden from all lanes, ascending. The first labels are not hidden."""
        if self.course.prevalence is None:
            return np.empty(0, dtype=np.int64)
        unlabeled = np.setdiff1d(self._pool.ids, self.first.ids)
        y = self.is_positive(unlabeled)
        return hidden_positives(unlabeled[y], int((~y).sum()), self.course.prevalence, rng)

    def _truth(self, ids: Ids) -> NDArray[np.integer]:
        return self._merged(self._pool.truth(ids))

    def _merged(self, truth: NDArray[np.int16]) -> NDArray[np.int16]:
        """Return classes in which those that count as positive have the index of the positive class."""
        if len(self._positives) == 1:
            return truth
        merged = np.where(np.isin(truth, self._positives), self.course.positive, truth)
        return merged.astype(np.int16)

    def _learn(self, labels: Labels) -> Hyperplane:
        hyperplane = learn(labels, C=self.course.C, class_weight=self.course.class_weight).hyperplane
        assert hyperplane is not None
        return hyperplane
