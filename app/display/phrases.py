"""Wording of numbers and questions on the pages."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from unicodedata import bidirectional

from closecall.core.files.sizes import bytes_in_words as bytes_in_words
from closecall.core.pool.build_progress import Progress
from closecall.storage import ConceptRecord

NAMES_SHOWN = 12


def growth(progress: Progress) -> str:
    """Return a pool's progress: "612,000 of 1,000,000 items, 4,950 items/s, about 1 min 18 s left"."""
    parts = [f"{progress.done:,} of {progress.total:,} items"]
    if progress.state == "stopped":
        parts.append("stopped")
    elif progress.per_second:
        parts.append(f"{progress.per_second:,.0f} items/s")
    if progress.state == "building" and progress.seconds_left is not None:
        parts.append(f"about {duration(progress.seconds_left)} left")
    return ", ".join(parts)


def short_growth(progress: Progress, word: str = "item") -> str:
    """Return a pool's progress in short: "Preparing items: 61 %, 1 min 18 s left"."""
    share = f"Preparing {word}s: {100 * done_share(progress):.0f} %"
    if progress.state == "stopped":
        return f"{share}, stopped"
    return share if progress.seconds_left is None else f"{share}, {duration(progress.seconds_left)} left"


def preparation(strategy: str, share: float, *, again: bool) -> str:
    """Return the progress of an index: "Margin index is being prepared: 45 %"."""
    return f"{strategy} is being {'built again' if again else 'prepared'}: {100 * share:.0f} %"


def engine(share: float) -> str:
    """Return the progress of compiling the kernels: "Preparing the engine: 40 %"."""
    return f"Preparing the engine: {100 * share:.0f} %"


def done_share(progress: Progress) -> float:
    """Return the finished share of the work, 0 … 1."""
    return min(1.0, progress.done / progress.total) if progress.total else 0.0


_ASKED = (
    r"(?:is|are) (?:this|it|that|these|they|there)",
    r"(?:does|do) (?:this|it|that|these|they|the (?:image|picture|photo|photograph))"
    r"(?: (?:image|picture|photo|photograph))? (?:show|contain|depict|include|have)",
    r"(?:can|do) (?:you|we|i) see",
)
"""Patterns of the beginnings of questions about a class, before the article."""

_WHERE = (
    r"(?: (?:here|visible)|(?: (?:visible|shown))? (?:in|on|at) "
    r"(?:it|(?:this|the) (?:image|picture|photo|photograph|frame|scene)))"
)
"""Pattern of the ends of such questions, after the class."""

_CLASS = re.compile(rf"(?:{'|'.join(_ASKED)}) (?:an? |the |any |some )?(.+?){_WHERE}?", re.IGNORECASE)


def of_several(question: str) -> str:
    """Return a question about many items: "Which of these are a 7?" for "Is this a 7?"."""
    for start in ("Is this ", "Is it "):
        if question.startswith(start):
            return f"Which of these are {question.removeprefix(start)}"
    return question


def of_class(question: str, name: str) -> str:
    """Return the display name of the positive class: "7" for "Is this a 7?", "dog" for "Is there a dog?".

    By default, a concept's `name` begins with the question. Any other name is returned as it is.
    """
    stem = question.strip(" ?")
    if not name.startswith(stem):
        return name
    found = _CLASS.fullmatch(stem)
    return found[1] if found else stem


def told_apart(names: Sequence[str]) -> list[str]:
    """Return names without the words that all of them begin or end with, so that they differ at a glance.

    "Does anyone wear a hat" and "Does anyone wear a tie" become "hat" and "tie". At least one word of each
    name stays. A single name, and names that share no such words, are returned as they are.
    """
    split = [name.split() for name in names]
    most = min(map(len, split), default=1) - 1
    if len(split) < 2:
        return list(names)
    first = _n_shared(split, most)
    last = _n_shared([words[::-1] for words in split], most - first)
    return [" ".join(words[first : len(words) - last]) for words in split] if first or last else list(names)


def _n_shared(split: Sequence[Sequence[str]], most: int) -> int:
    """Return the length of the common prefix of all lists, at most `most`."""
    same = 0
    while same < most and len({words[same] for words in split}) == 1:
        same += 1
    return same


def described(texts: Sequence[str], excluded: Sequence[str]) -> str:
    """Return a search by words as one text: "a fox at night; a red fox, but not a dog"."""
    without = f", but not {'; '.join(excluded)}" if excluded else ""
    return "; ".join(texts) + without


def of_group(kind: str, n: int) -> str:
    """Return what an item in a group of `n` is: "One of 3 near-duplicates", "One of 7 shots of a burst"."""
    return f"One of {n:,} shots of a burst" if kind == "bursts" else f"One of {n:,} near-duplicates"


def in_groups(n_items: int, n_groups: int) -> str:
    """Return a sentence about near-duplicates, such as "This pool has 3 groups with 15 items in all."."""
    return f"This pool has {counted(n_groups, 'group')} with {counted(n_items, 'item')} in all."


def counted(n: int, word: str, several: str | None = None) -> str:
    """Return a number of things: "1 item", "2,000 items".

    `several` is the plural if it is not `word` with an s.
    """
    return f"{n:,} {word if n == 1 else several or f'{word}s'}"


def labels_kept(n_labels: int) -> str:
    """Return a sentence that tells how many labels a reset keeps in the log."""
    stay = "stays" if n_labels == 1 else "stay"
    return f"{counted(n_labels, 'label')} {stay} in the log, for review, export and verify."


def ordinal(n: int) -> str:
    """Return a rank: "1st", "2nd", "13th", "1,155th"."""
    ending = "th" if n % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")
    return f"{n:,}{ending}"


def many_times(ratio: float) -> str:
    """Return a ratio, with one decimal below 10: "1.4 times", "72 times", "3,917 times"."""
    return f"{ratio:,.0f} times" if ratio >= 9.95 else f"{ratio:.1f} times"


def duration(seconds: float) -> str:
    """Return a duration of at least a second in its largest units: "1 h 5 min", "1 min 18 s", "4 s"."""
    whole = max(1, round(seconds))
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def cost(seconds: float, n_bytes: int) -> str:
    """Return an estimated time and memory, rounded: "about 10 min and 0.4 GB"."""
    memory = f"{n_bytes / 1e9:.1f} GB" if n_bytes >= 1e8 else f"{max(1, round(n_bytes / 1e6))} MB"
    return f"{about(seconds)} and {memory}"


def about(seconds: float) -> str:
    """Return an estimated duration of at least a second, rounded: "about 10 min"."""
    if seconds < 90:
        time = f"{max(1, round(seconds))} s" if seconds < 10 else f"{round(seconds, -1):.0f} s"
    else:
        time = f"{round(seconds / 60)} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
    return f"about {time}"


def isolated(name: str) -> str:
    """Return a name with marks around it, so that a name from right to left doesn't draw in what follows it.

    The marks (first strong isolate, pop directional isolate) are for plain text what <bdi> is for HTML. Names
    without letters from right to left are returned unchanged.
    """
    is_right_to_left = any(bidirectional(sign) in ("R", "AL") for sign in name)
    return f"\u2068{name}\u2069" if is_right_to_left else name


def as_sentence(message: str) -> str:
    """Return an error message with a capital letter, unless it begins with a name, such as that of a file."""
    return message[:1].upper() + message[1:] if re.match(r"[a-z]+[ ’']", message) else message


def some(names: Sequence[str]) -> str:
    """Return the first `NAMES_SHOWN` class names, and how many more there are; "no classes" for none."""
    if not names:
        return "no classes"
    more = len(names) - NAMES_SHOWN
    return ", ".join(names[:NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")


def chosen_by_predictions(model: str, order: str, threshold: float) -> str:
    """Return a phrase that says how a model's predictions choose items.

    See `app.engine.model_predictions.Choosing`.
    """
    if order == "doubtful":
        return f"Scores of {model} nearest to {threshold:g} first"
    return f"Where {model} and the classifier differ, farthest from the hyperplane first"


def none_by_predictions(model: str, order: str) -> str:
    """Return a sentence that says why a model's predictions choose no item."""
    if order == "doubtful":
        return f"No item with a score of {model} is left to answer."
    return f"{model} and the classifier differ about no item that is left to answer."


def name_of_question(
    concept: ConceptRecord, others: Iterable[ConceptRecord], labeled_now: Collection[int]
) -> str:
    """Return the text of an option: the question, and what tells the concept from others with this question.

    `labeled_now` has the ids of the concepts that are labeled now. If only one of them has the question, it
    needs no addition. A concept that was replaced by a reset is called old.
    """
    question, stem = concept.question, concept.question.strip(" ?")
    alike = [other.id for other in others if other.question == question]
    if len(alike) == 1 or [other for other in alike if other in labeled_now] == [concept.id]:
        return question
    if not concept.name.startswith(stem):
        return f"{question} ({concept.name})"
    addition = concept.name.removeprefix(stem).strip(" ()")
    is_old = concept.id not in labeled_now and (not addition or addition.isdecimal())
    words = [word for word in (addition, "old" if is_old else "") if word]
    return f"{question} ({', '.join(words)})" if words else question
