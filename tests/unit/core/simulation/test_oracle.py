import numpy as np
import pytest

from closecall.core.errors import InputError
from closecall.core.experiment import Oracle


def mod_three(items):
    """Classes 0, 1, 2 by turns; unknown from item 100,000 on."""
    return np.where(items < 100_000, items % 3, -1).astype(np.int16)


def test_without_noise_it_tells_the_truth():
    """A noiseless oracle says yes to the positive class and to no other."""
    assert Oracle(mod_three, 1)([0, 1, 2, 4]).tolist() == [False, True, False, True]


def test_one_item():
    """A single id is answered, too."""
    assert Oracle(mod_three, 2)(5).tolist() == [True]


@pytest.mark.parametrize("noise", [0.05, 0.3])
def test_noise_is_the_probability_of_a_wrong_answer(noise):
    """The share of wrong answers is binomial around `noise`, among yes and no alike (to five sigma)."""
    items = np.arange(60_000)
    wrong = Oracle(mod_three, 1, noise=noise, seed=4)(items) != Oracle(mod_three, 1)(items)
    for these in (items % 3 == 1, items % 3 != 1):
        n = these.sum()
        assert abs(wrong[these].mean() - noise) < 5 * np.sqrt(noise * (1 - noise) / n)


def test_it_repeats_itself():
    """An answer depends on the seed and the item alone, not on what was asked before or together with it."""
    items = np.arange(1000)
    answers = Oracle(mod_three, 1, noise=0.3, seed=1)(items)
    oracle = Oracle(mod_three, 1, noise=0.3, seed=1)
    backwards = [bool(oracle(item)[0]) for item in items[::-1]]
    assert backwards[::-1] == answers.tolist()
    assert (Oracle(mod_three, 1, noise=0.3, seed=2)(items) != answers).any()


def test_unknown_truth_is_refused():
    """It does not invent an answer where the class is unknown."""
    with pytest.raises(InputError, match="item 100001: its class is unknown"):
        Oracle(mod_three, 1)([3, 100_001])


@pytest.mark.parametrize("noise", [-0.1, 1.1, float("nan")])
def test_noise_must_be_a_probability(noise):
    """Noise outside 0 … 1 is refused."""
    with pytest.raises(InputError, match="noise must be a probability from 0 to 1"):
        Oracle(mod_three, 1, noise=noise)
