import numpy as np
import pytest

from closecall.core.learning.round import Labels, accuracy, is_positive, learn, select_next
from closecall.core.pool.build import build
from closecall.core.selection import PoolExhausted, make_strategy
from tests.fakes import FakeSource
from tests.yardsticks import play_round


@pytest.fixture
def pool(tmp_path):
    return build(FakeSource(600, 8, held_out=range(0, 600, 6)), tmp_path / "pool")


@pytest.fixture
def exhaustive(pool):
    return make_strategy("exhaustive").fit(pool)


def labels_for(pool, n, seed=0):
    """True answers about n random items of the pool."""
    ids = np.sort(np.random.default_rng(seed).choice(pool.ids, n, replace=False))
    return Labels.of(pool, ids, is_positive(pool.truth(ids), 1))


def test_no_hyperplane_before_a_yes_and_a_no(pool):
    """One kind of answer, or none, teaches nothing; the first pair does."""
    yes = pool.ids[is_positive(pool.truth(pool.ids), 1)]
    no = pool.ids[~is_positive(pool.truth(pool.ids), 1)]
    for ids, y in (([], []), (yes[:3], [True] * 3), (no[:3], [False] * 3)):
        trained = learn(Labels.of(pool, ids, y))
        assert trained.hyperplane is None
        assert trained.seconds is None
    trained = learn(Labels.of(pool, [yes[0], no[0]], [True, False]))
    assert trained.hyperplane is not None
    assert trained.seconds > 0


def test_a_round_selects_the_nearest_unlabeled_item(pool, exhaustive):
    """The item is the one that brute force finds, labeled and excluded items left out."""
    labels = labels_for(pool, 40)
    excluded = np.setdiff1d(pool.ids, labels.ids)[:100]
    result = play_round(pool, labels, exhaustive, exclude=excluded)
    margins = np.abs(result.trained.hyperplane.scores(pool.rows_of(pool.ids)))
    margins[np.isin(pool.ids, np.concatenate([labels.ids, excluded]))] = np.inf
    assert result.selection.ids.tolist() == [pool.ids[margins.argmin()]]


def test_a_round_does_not_depend_on_the_order_of_labels(pool, exhaustive):
    """The same labels, joined in another order, give the same hyperplane, bit for bit, and the same item."""
    first, second = labels_for(pool, 40, seed=1), labels_for(pool, 600 // 6, seed=2)
    apart = ~np.isin(second.ids, first.ids)
    second = Labels(second.ids[apart], second.X[apart], second.y[apart])
    one, other = play_round(pool, first + second, exhaustive), play_round(pool, second + first, exhaustive)
    assert one.trained.hyperplane.digest == other.trained.hyperplane.digest
    assert one.selection.ids.tolist() == other.selection.ids.tolist()


def test_a_batch_can_be_diverse(pool, exhaustive):
    """Whether there is a hyperplane or not, as if the strategy were asked itself."""
    hyperplane = learn(labels_for(pool, 40)).hyperplane
    found = select_next(pool, exhaustive, hyperplane, 5, diversity=0.9)
    assert found.ids.tolist() == exhaustive.select(hyperplane, 5, diversity=0.9).ids.tolist()
    assert found.ids.tolist() != exhaustive.select(hyperplane, 5).ids.tolist()
    anything = make_strategy("random").fit(pool).select(None, 5, diversity=0.9)
    assert select_next(pool, exhaustive, None, 5, diversity=0.9).ids.tolist() == anything.ids.tolist()


def test_without_a_hyperplane_items_come_at_random(pool, exhaustive):
    """Before there is a hyperplane the seed decides, and no labeled item comes back."""
    labels = Labels.of(pool, pool.ids[:500:2], np.ones(250, dtype=bool))
    drawn = {int(play_round(pool, labels, exhaustive, seed=seed).selection.ids[0]) for seed in range(30)}
    assert len(drawn) > 15
    assert not drawn & set(labels.ids.tolist())
    again = play_round(pool, labels, exhaustive, seed=3).selection.ids
    assert again == play_round(pool, labels, exhaustive, seed=3).selection.ids


def test_without_a_hyperplane_examples_lead(pool, exhaustive):
    """Positive examples, which have negative ids, bring what is most like them."""
    like = pool.ids[17]
    example = Labels(np.array([-1]), pool.rows_of([like]), np.array([True]))
    assert play_round(pool, example, exhaustive).selection.ids.tolist() == [like]


def test_several_are_like_the_examples(pool, exhaustive):
    """The most similar first, as brute force finds them, and no more than are left."""
    examples = pool.rows_of(pool.ids[[17, 40]])
    likeness = pool.rows_of(pool.ids) @ examples.mean(axis=0)
    best_first = pool.ids[np.argsort(-likeness, kind="stable")]
    found = select_next(pool, exhaustive, None, 12, examples=examples, exclude=best_first[3:5])
    assert found.ids.tolist() == np.delete(best_first, [3, 4])[:12].tolist()
    assert len(select_next(pool, exhaustive, None, 12, examples=examples, exclude=best_first[5:]).ids) == 5


def test_random_strategy_stays_random(pool):
    """A strategy that needs no hyperplane is asked itself, hyperplane or not."""
    strategy = make_strategy("random", random_state=5).fit(pool)
    found = select_next(pool, strategy, None, 3, seed=2)
    assert found.ids.tolist() == strategy.select(None, 3, seed=2).ids.tolist()


def test_an_exhausted_pool_says_so(pool, exhaustive):
    """With every item labeled there is nothing to select."""
    with pytest.raises(PoolExhausted):
        play_round(pool, labels_for(pool, len(pool)), exhaustive)


def test_accuracy_counts_the_right_side(pool):
    """Accuracy is the share of items on their true side; items of unknown truth do not count."""
    held_out = pool.held_out
    hyperplane = learn(labels_for(pool, 200)).hyperplane
    right = (hyperplane.scores(held_out.X) > 0) == (held_out.truth == 1)
    assert accuracy(hyperplane, held_out.X, held_out.truth, 1) == pytest.approx(right.mean())
    assert right.mean() > 0.8
    half = np.where(np.arange(len(held_out)) % 2, held_out.truth, -1)
    assert accuracy(hyperplane, held_out.X, half, 1) == pytest.approx(right[1::2].mean())
    assert accuracy(hyperplane, held_out.X, np.full(len(held_out), -1), 1) is None
