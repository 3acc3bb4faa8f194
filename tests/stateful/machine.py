"""What people do with a project, in any order: the rules of a Hypothesis state machine.

No rule's arguments depend on what is served, so that a sequence means the same when it is repeated or
shrunk: places are counted modulo what is there.
"""

from __future__ import annotations

import contextlib
import csv
import io
import sys
import tempfile
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from closecall.app.exchange.importing import import_labels
from closecall.app.sessions.reset import start_afresh
from closecall.app.sessions.review import VIEWS
from closecall.core.duplicates.files import Kind
from closecall.core.errors import InputError
from tests.projects import find_groups
from tests.stateful.people import WORDS, Tab
from tests.stateful.served import LEASE_SECONDS, Served

NAMES = ("Ada", "Bob", "Cleo")
STRATEGIES = ("exhaustive", "random", "margin-index", "mixture", "likely-positive")
COMPARE_EVERY = 5
"""Steps after which all questions are compared, not only those that were answered."""

VERIFY_EVERY = 30
"""Steps after which the log is replayed."""

who = st.integers(0, 5)
place = st.integers(0, 99)
word = st.sampled_from(WORDS)
picks = st.lists(st.tuples(place, word), min_size=1, max_size=6)
VIEW = st.sampled_from(("one", "one", "grid", "classes", "blind", "found", "similar", "decide"))
CARD = st.sampled_from(("one", "classes", "blind", "decide"))
share = st.sampled_from((0.0, 0.3, 1.0))


class Labeling(RuleBasedStateMachine):
    """Several people label, and everything else is done that can be done."""

    def __init__(self) -> None:
        super().__init__()
        self.served: Served | None = None
        self.folder = tempfile.TemporaryDirectory(prefix="closecall-tests-stateful-")
        self.tabs: list[Tab] = []
        self.steps = 0
        self.imported: set[bytes] = set()

    @initialize(
        questions=st.integers(1, 3),
        owners=st.sampled_from(((), ("Ada",), ("Ada", "Bob"))),
        overlap=st.sampled_from((1, 1, 2, 3)),
        overlap_share=st.sampled_from((0.3, 1.0)),
        audit=share,
        segments=st.sampled_from((1, 2, None)),
        people=st.integers(2, 3),
        strategy=st.sampled_from(STRATEGIES),
        seed=st.integers(0, 99),
    )
    def begin(
        self,
        questions: int,
        owners: tuple[str, ...],
        overlap: int,
        overlap_share: float,
        audit: float,
        segments: int | None,
        people: int,
        strategy: str,
        seed: int,
    ) -> None:
        """A project with these settings, and a tab of each person's."""
        self.served = Served(
            Path(self.folder.name),
            questions=questions,
            owners=owners,
            overlap=overlap,
            overlap_share=overlap_share,
            segments=segments,
            seed=seed,
        )
        first = self.served.project.concepts()[0].id
        self.tabs = [Tab(self.served, name, first) for name in NAMES[:people]]
        for tab in self.tabs:
            self._use(tab, strategy)
            tab.session.set_audit_share(audit)

    def _tab(self, number: int) -> Tab:
        return self.tabs[number % len(self.tabs)]

    def _use(self, tab: Tab, strategy: str) -> None:
        assert self.served is not None
        self.served.wait_for(strategy)
        tab.session.set_strategy(strategy)

    # Labeling

    @rule(who=who, view=VIEW)
    def look(self, who: int, view: str) -> None:
        """Open a view, or let it run again."""
        self._tab(who).look(view)

    @rule(who=who, view=CARD, place=place, word=word, ahead=st.booleans())
    def answer(self, who: int, view: str, place: int, word: str, ahead: bool) -> None:
        """Answer the item in view, and maybe show at once what was sent ahead."""
        self._tab(who).answer(view, [(place, word)], ahead=ahead)

    @rule(who=who, word=word, undo=st.booleans())
    def answer_alike(self, who: int, word: str, undo: bool) -> None:
        """Give the item in view and its near-duplicates one answer, and maybe undo it at once."""
        assert self.served is not None
        if self.served.project.duplicates.current is None:
            find_groups(self.served.project, 4)
        self._tab(who).answer_alike(word, undo=undo)

    @rule(n=st.integers(1, 4))
    def answer_together(self, n: int) -> None:
        """Everybody answers some items truly, in turn."""
        for _ in range(n):
            for tab in self.tabs:
                self._answer_truly(tab)

    @rule(who=who, n=st.integers(2, 8), word=word)
    def answer_on(self, who: int, n: int, word: str) -> None:
        """Answer several items, one after another, truly but for the first."""
        tab = self._tab(who)
        tab.answer("one", [(0, word)])
        for _ in range(n):
            self._answer_truly(tab)

    def _answer_truly(self, tab: Tab) -> None:
        assert self.served is not None
        card = tab.look("one")
        assert card is not None
        if card["item"] is not None:
            tab.answer("one", [(0, self.served.truth(card["item"]["id"], tab.concept))])

    @rule(who=who, view=st.sampled_from(("grid", "found", "similar")), picks=picks)
    def answer_several(self, who: int, view: str, picks: list[tuple[int, str]]) -> None:
        """Answer some of the items in view in one go."""
        self._tab(who).answer(view, picks)

    @rule(who=who, word=st.sampled_from((*WORDS, "undo")))
    def press(self, who: int, word: str) -> None:
        """Use the plain widgets."""
        self._tab(who).press(word)

    @rule(who=who, text=st.sampled_from(("bar", "ring 0", "dot", "nothing", "")))
    def search(self, who: int, text: str) -> None:
        """Find items by name."""
        self._tab(who).search(text)

    @rule(who=who, like=st.sampled_from(("yes", "label", "0", "3", "50")))
    def look_for(self, who: int, like: str) -> None:
        """Find what is similar."""
        self._tab(who).look_for(like)

    @rule(who=who, view=VIEW, place=place)
    def undo(self, who: int, view: str, place: int) -> None:
        """Take back one of the last answers."""
        self._tab(who).undo(view, -1 - place % 3)

    @rule(who=who, view=VIEW, place=place, word=word)
    def correct(self, who: int, view: str, place: int, word: str) -> None:
        """Say something else of one of the last answers."""
        self._tab(who).correct(view, place, word)

    @rule(who=who, view=CARD, place=place, word=word, other=word, on_review=st.booleans())
    def correct_at_once(
        self, who: int, view: str, place: int, word: str, other: str, on_review: bool
    ) -> None:
        """Answer the item in view, and correct the answer before it was sent, maybe once Review is open."""
        self._tab(who).correct_at_once(view, place, word, other, on_review=on_review)

    @rule(who=who)
    def again(self, who: int) -> None:
        """Send the last answers again."""
        self._tab(who).again()

    @rule(who=who, view=VIEW, picks=picks, stored=st.booleans())
    def answer_unheard(self, who: int, view: str, picks: list[tuple[int, str]], stored: bool) -> None:
        """The server's reply is lost, and the browser sends its answers again."""
        picks = picks if view in ("grid", "found", "similar") else picks[:1]
        self._tab(who).answer_unheard(view, picks, stored=stored)

    @rule(who=who, place=place, word=st.sampled_from((*WORDS, "undo")))
    def correct_in_review(self, who: int, place: int, word: str) -> None:
        """Change an answer where all are listed."""
        self._tab(who).correct_in_review(place, word)

    @rule(who=who, kind=st.sampled_from(("far", "held out", "gap", "later", "negative")), place=place)
    def say_what_cannot_be(self, who: int, kind: str, place: int) -> None:
        """Answer about an item that nobody can be asked about."""
        assert self.served is not None
        item = self.served.impossible(kind, place)
        if item is not None:
            self._tab(who).says_what_cannot_be(item)

    # Settings

    @rule(who=who, strategy=st.sampled_from(STRATEGIES))
    def set_strategy(self, who: int, strategy: str) -> None:
        """Let another strategy choose."""
        self._use(self._tab(who), strategy)

    @rule(who=who, share=share)
    def set_audit_share(self, who: int, share: float) -> None:
        """Give the audit more rounds, or fewer; only owners may."""
        tab = self._tab(who)
        before = tab.session.concept.audit_share
        try:
            tab.session.set_audit_share(share, by=tab.person)
        except InputError:
            assert not tab.person.is_owner
            assert tab.session.concept.audit_share == before

    @rule(who=who, persons=st.integers(1, 3), share=st.sampled_from((0.3, 1.0)))
    def set_overlap(self, who: int, persons: int, share: float) -> None:
        """Let each item be for other numbers of people; only owners may."""
        assert self.served is not None
        tab = self._tab(who)
        try:
            self.served.project.set_overlap(persons, share, by=tab.person)
        except InputError:
            assert not tab.person.is_owner

    @rule(who=who, include=st.booleans())
    def revisit_skipped(self, who: int, include: bool) -> None:
        """Let skipped items come again."""
        self._tab(who).session.revisit_skipped(include)

    @rule(who=who, size=st.sampled_from((12, 20, 60)))
    def resize(self, who: int, size: int) -> None:
        """Show another number of items in the grid."""
        assert self.served is not None
        self.served.project.grid(self._tab(who).session).resize(size)

    @rule(who=who, place=place)
    def ask_another_question(self, who: int, place: int) -> None:
        """Turn to another question, archived or not, but to no side of a blind comparison."""
        assert self.served is not None
        everything = self.served.project.concepts(archived=True)
        concepts = [concept for concept in everything if "(blind" not in concept.name]
        tab = self._tab(who)
        self.tabs[self.tabs.index(tab)] = Tab(self.served, tab.name, concepts[place % len(concepts)].id)

    @rule(who=who)
    def open_another_tab(self, who: int) -> None:
        """The same person, at the same question, in another window."""
        assert self.served is not None
        if len(self.tabs) < 5:
            tab = self._tab(who)
            self.tabs.append(Tab(self.served, tab.name, tab.concept))

    @rule(who=who, place=place, word=word, other=word)
    def answer_in_two_tabs(self, who: int, place: int, word: str, other: str) -> None:
        """The same person finds the same in two tabs, and answers one of the items in both."""
        self.open_another_tab(who)
        tab = self._tab(who)
        alike = [one for one in self.tabs if (one.name, one.concept) == (tab.name, tab.concept)]
        for each in alike[:2]:
            each.search("bar")
        for each, said in zip(alike, (word, other), strict=False):
            each.answer("found", [(place, said)])

    @rule(who=who)
    def start_afresh(self, who: int) -> None:
        """Put the question away, and ask it again; only owners may."""
        assert self.served is not None
        tab = self._tab(who)
        concept = self.served.project.live_concept(tab.concept).record
        if len(self.served.project.concepts(archived=True)) > 8:
            return
        try:
            fresh = start_afresh(self.served.project, concept, by=tab.person)
        except InputError:
            assert not tab.person.is_owner
        else:
            assert fresh.question == concept.question
            self.tabs[self.tabs.index(tab)] = Tab(self.served, tab.name, fresh.id)

    # What comes from elsewhere

    @rule(lines=st.lists(st.tuples(place, word, st.sampled_from((*NAMES, "Dora"))), min_size=1, max_size=8))
    def import_labels(self, lines: list[tuple[int, str, str]]) -> None:
        """Read labels from a file, while nobody serves the project."""
        assert self.served is not None
        served = self.served
        concept = served.project.concepts()[0]
        ids = served.pool.ids.tolist()
        said = {(ids[place % len(ids)], name): word for place, word, name in lines}
        file = Path(self.folder.name) / f"labels {self.steps}.csv"
        with file.open("w", newline="") as stream:
            rows = csv.writer(stream)
            rows.writerow(["item", "label", "annotator", "concept"])
            rows.writerows([item, word, name, concept.name] for (item, name), word in said.items())
        is_again = file.read_bytes() in self.imported
        self.imported.add(file.read_bytes())
        served.close()
        told = io.StringIO()
        with redirect_stdout(told), redirect_stderr(told):
            import_labels(served.folder, file, form=None, concept=None, annotator="import")
        served.open()
        model = served.model
        was = {key: model.of(concept.id, key[0]).votes.get(key[1]) for key in said}
        for new in served.read():
            key = (new.item, new.annotator)
            assert said[key] == new.word != was[key]
            assert (new.purpose == "audit") == model.of(concept.id, new.item).is_audited
            assert new.purpose in ("audit", "import")
            model.take(new)
        for (item, name), word in said.items():
            # What a file said before it says once: what was said since then stays.
            assert is_again or model.of(concept.id, item).votes[name] == word
        for tab in self.tabs:
            tab.plain = None

    @rule(seconds=st.sampled_from((0.4 * LEASE_SECONDS, 2 * LEASE_SECONDS)))
    def pass_time(self, seconds: float) -> None:
        """Nobody does anything; leases may end."""
        assert self.served is not None
        self.served.seconds += seconds

    @rule()
    def restart(self) -> None:
        """Stop the server, and start it."""
        assert self.served is not None
        self.served.restart()

    @rule()
    def grow(self) -> None:
        """Publish another segment of the pool."""
        assert self.served is not None
        self.served.grow_by_one()

    @rule(size=st.integers(2, 4), kind=st.sampled_from(("near", "bursts")), ask_once=st.booleans())
    def find_groups(self, size: int, kind: Kind, ask_once: bool) -> None:
        """Find near-duplicates, or find them again, and set whether the queue asks about them only once."""
        assert self.served is not None
        find_groups(self.served.project, size, kind)
        self.served.project.set_ask_once(ask_once)

    # What holds after each step

    @invariant()
    def means_the_same(self) -> None:
        """The database means what the model means, no page fails, and now and then the log is replayed."""
        if self.served is None:
            return
        self.steps += 1
        served = self.served
        served.later.work()
        assert not served.later.errors, served.later.errors
        unsent = served.read()
        assert not unsent, f"nobody sent {unsent}"
        served.compare(everything=self.steps % COMPARE_EVERY == 0)
        held = served.project.leases.held()
        assert set(held) <= set(served.pool.ids.tolist()), "somebody holds what no one can have in view"
        self.tabs[self.steps % len(self.tabs)].pages([VIEWS[self.steps % len(VIEWS)]])
        if self.steps % VERIFY_EVERY == 0:
            served.verify()

    def teardown(self) -> None:
        """In the end all of it is replayed and exported."""
        try:
            if self.served is not None:
                served, self.served = self.served, None
                try:
                    if sys.exc_info()[0] is None:  # else a step failed, and its error is raised
                        served.compare()
                        for tab in self.tabs:
                            tab.pages()
                        served.verify()
                        served.export()
                finally:
                    served.end()
        finally:
            with contextlib.suppress(OSError):
                self.folder.cleanup()
