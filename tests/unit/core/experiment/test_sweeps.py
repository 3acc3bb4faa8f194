"""Sweeps over the parameters of kernelized LSH: what they vary, what they keep, and what is chosen."""

from __future__ import annotations

import numpy as np
import pytest

from closecall.core.errors import InputError
from closecall.core.experiment.kernelized import (
    Form,
    Trials,
    codes_of,
    nearest,
    recall_of_nearest,
    retrieve_together,
)
from closecall.core.experiment.retrieval import retrieve
from closecall.core.experiment.sweeps import Sweep, sweeps
from closecall.core.hashing import KernelPCALSH, NystromLSH
from closecall.core.mercer import ChiSquared
from tests.unit.core.experiment.test_kernelized import BLOCKS, PARAMS, Q, X

VALUES = {"ranks": (4, 10), "scales": (2.0, 6.0), "sampled": (1, 15)}


@pytest.fixture(scope="module")
def trials() -> Trials:
    """Used up by two sweeps, from the origin and from the mean."""
    return Trials("chi2", X, Q, 5e-3, {"n_landmarks": 60, "n_functions": 64})


@pytest.fixture(scope="module", params=[False, True], ids=["origin", "mean"])
def found(trials: Trials, request: pytest.FixtureRequest) -> dict[str, Sweep]:
    centred = request.param
    return {sweep.figure: sweep for sweep in sweeps(trials, **VALUES, centred=centred)}


def test_a_sweep_varies_one_parameter(found):
    """Beside a form that has all others; scale and t at the rank that is best for the kernel itself."""
    centred = found["1"].base.centred
    plain, nystrom = (Form("chi2", centred=centred, family=family) for family in (Form.family, NystromLSH))
    low, rank = found["1"].chosen, found["1"].chosen.rank
    assert found["1"] == Sweep("1", (_with(plain, rank=4), _with(plain, rank=10)), plain, low)
    assert found["2a"].forms == (_with(nystrom, rank=4), _with(nystrom, rank=10))
    assert found["2a"].base == nystrom
    assert found["3"].forms == (_with(low, scale=2.0), _with(low, scale=6.0))
    assert found["3"].base == low == _with(plain, rank=rank)
    assert found["t"].forms == (_with(low, n_sampled=1), _with(low, n_sampled=15))
    assert found["t"].base == _with(low, family=KernelPCALSH)
    assert found["2b"].forms == (plain, low, found["3"].chosen, nystrom, found["2a"].chosen)
    assert (found["2b"].base, found["2b"].every) == (None, found["2b"].forms)


def test_the_best_on_the_other_queries_is_chosen(trials, found):
    """Of the sweep's own forms, whatever its base achieves."""
    for sweep in found.values():
        if sweep.chosen:
            assert sweep.chosen == max(sweep.forms, key=trials.recalls.__getitem__)
        assert set(sweep.every) <= trials.fitted.keys() == trials.recalls.keys()


def test_a_form_in_company_is_the_form_alone(trials, found):
    """Each has the recall of a family that is fitted for it alone."""
    neighbours, _ = nearest(ChiSquared(), [(0, X)], Q)
    for form in (found["2a"].forms[0], found["3"].forms[1], *found["t"].forms):
        alone = form.hasher(n_landmarks=60, n_functions=64).fit(X)
        recall = recall_of_nearest(alone.hash_points(X), alone.hash_queries(Q), neighbours, 15)
        assert recall == pytest.approx(trials.recalls[form])


def test_blocks_add_up_to_the_pool():
    """Counts and neighbours' distances are those of all codes at once."""
    neighbours, _ = nearest(ChiSquared(), BLOCKS, Q)
    forms = (Form("chi2", rank=9), Form("chi2", scale=3.0, n_sampled=7), Form("chi2", centred=True))
    hashers = [form.hasher(**PARAMS).fit(X) for form in forms]
    together = retrieve_together(hashers, BLOCKS, Q, neighbours)
    for one, codes, hasher in zip(together, codes_of(hashers, BLOCKS, len(X)), hashers, strict=True):
        whole = retrieve(codes, hasher.hash_queries(Q), neighbours[:, None])
        for name in ("rows", "alike", "neighbours"):
            np.testing.assert_array_equal(getattr(one, name), getattr(whole, name))


def test_a_form_sets_its_own_number_of_landmarks():
    """Instead of the one among the other parameters."""
    assert Form("chi2").hasher(**PARAMS).n_sampled == 15
    assert Form("chi2", n_sampled=7).hasher(**PARAMS).n_sampled == 7


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"ranks": (60,)}, "rank must be None or from 1 to 59"),
        ({"scales": (0.0,)}, "scale of a transformed kernel must be positive and finite, got 0.0"),
        ({"sampled": (60,)}, "n_sampled must be from 1 to 59"),
    ],
)
def test_values_out_of_range(trials, changed, message):
    """One sentence, with what is allowed."""
    with pytest.raises(InputError, match=message):
        sweeps(trials, **{**VALUES, **changed}, centred=False)


def _with(form: Form, **changed: object) -> Form:
    return Form(**{**vars(form), **changed})
