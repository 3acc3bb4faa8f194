"""Rows as bytes: the stored row is the formula's, near the row that was encoded, and read in any order."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.quantization.byte_rows import ByteRows, bytes_a_row, in_file_order
from closecall.core.quantization.codebook import FINE, Codebook
from closecall.core.quantization.quantizer import BLOCK
from tests.margin_kit import clustered_pool, features

SHAPES = [(500, 8), (700, 64), (600, 100), (400, 130)]


def as_file(rows) -> np.ndarray:
    """The bytes of a segment as they lie on disk."""
    return np.concatenate([np.ascontiguousarray(part).view(np.uint8).ravel() for part in in_file_order(rows)])


@pytest.fixture(scope="module", params=SHAPES, ids=str)
def stored(request):
    """Rows, their codebook, their bytes, and the segment that is read from a file."""
    n, d = request.param
    X = features(clustered_pool(n, d)).astype(np.float32)
    codebook = Codebook.fitted(X, 7)
    encoded = codebook.encoded(X)
    return X, codebook, encoded, ByteRows.of(as_file(encoded), n, codebook)


def points_of(codebook, encoded) -> np.ndarray:
    """P of every row, by the formula."""
    quantizer, n, d = codebook.quantizer, len(encoded.labels), codebook.n_features
    units = encoded.codes.reshape(n, -1)[:, :d].astype(np.float64)
    units[:, : codebook.n_fine] += encoded.fine / 256
    P = units * quantizer.steps.astype(np.float64)
    P[:, : quantizer.centroids.shape[1]] += quantizer.centroids[encoded.labels].astype(np.float64)
    return P


def rows_of(codebook, encoded) -> np.ndarray:
    """X of every row, by the formula, in float64."""
    quantizer = codebook.quantizer
    return points_of(codebook, encoded) @ quantizer.directions.T.astype(np.float64) + quantizer.centre


def test_rows_are_those_of_the_formula(stored):
    """In any order, more than once, and from a part of the rows."""
    X, codebook, encoded, segment = stored
    expected = rows_of(codebook, encoded)
    wanted = np.random.default_rng(0).integers(0, len(X), 300)
    assert np.abs(segment[wanted] - expected[wanted]).max() < 1e-6
    assert segment[wanted].dtype == np.float32
    assert np.abs(segment.decoded() - expected).max() < 1e-5
    assert np.abs(segment[20:90].decoded() - expected[20:90]).max() < 1e-5
    assert np.array_equal(segment[20:90][5:30][np.arange(25)], segment[np.arange(25, 50)])
    assert segment.shape == X.shape
    assert len(segment[20:90]) == 70
    assert len(segment[5:2]) == 0


def test_a_row_has_the_same_bits_wherever_it_is_read(stored):
    """Alone, or among others: a hyperplane trained on stored rows can be trained again."""
    X, _, _, segment = stored
    whole = segment[np.arange(len(X))]
    for row in (0, 7, len(X) - 1):
        assert np.array_equal(segment[np.array([row])][0], whole[row])


def test_rows_have_unit_norm(stored):
    """As those of any pool do, to within the rounding of the second bytes."""
    _, codebook, encoded, _ = stored
    assert np.abs(np.linalg.norm(rows_of(codebook, encoded), axis=1) - 1).max() < 5e-5


def test_rounding_is_by_less_than_half_a_step(stored):
    """Half a step in a coordinate with one byte; much less in one with two, which is scaled a little."""
    X, codebook, encoded, _ = stored
    quantizer = codebook.quantizer
    P = (X.astype(np.float64) - quantizer.centre) @ quantizer.directions.astype(np.float64)
    errors = np.abs(points_of(codebook, encoded) - P) / quantizer.steps
    assert errors[:, : codebook.n_fine].max() <= 0.15
    assert np.median(errors[:, : codebook.n_fine]) < 0.01
    assert codebook.n_features <= FINE or 0.4 < errors[:, FINE:].max() <= 0.5 + 1e-3


def test_the_first_byte_alone_is_that_of_the_margin_index(stored):
    """Otherwise a search by first bytes would look in the wrong place."""
    X, codebook, encoded, _ = stored
    alone = codebook.quantizer.encode(X, encoded.labels)
    apart = np.abs(alone - encoded.codes.reshape(len(X), -1).astype(np.int16))
    assert apart.max() <= 1
    assert (apart > 0).mean() < 1 / 128


def test_what_is_too_large_for_its_bytes_gets_the_largest(stored):
    """An outlier is moved towards the others, not wrapped around."""
    X, codebook, _, _ = stored
    steps = (codebook.quantizer.steps / 40).astype(np.float32)
    narrow = replace(codebook, quantizer=replace(codebook.quantizer, steps=steps))
    encoded = narrow.encoded(X)
    wanted = narrow.quantizer.coordinates(X, encoded.labels)
    codes = encoded.codes.reshape(len(X), -1)[:, : X.shape[1]]
    far = np.abs(wanted) > 300
    if codebook.n_features > FINE:  # then clipping changes the norm, and the first columns are scaled
        far[:, :FINE] = False
    assert far.mean() > 0.05
    assert np.array_equal(codes[far], 127 * np.sign(wanted[far]))
    assert np.isin(encoded.fine[far[:, : codebook.n_fine]], [0, 127]).all()


def test_scores_are_those_of_the_rows(stored):
    """By a scan, for several hyperplanes at once, and row by row; also of a part of the rows."""
    X, codebook, encoded, segment = stored
    rng = np.random.default_rng(1)
    planes = [Hyperplane(rng.standard_normal(X.shape[1]), bias) for bias in (0.0, 0.3, -1.0)]
    expected = np.array([rows_of(codebook, encoded) @ plane.normal + plane.bias for plane in planes])
    assert np.abs(segment.scores(planes) - expected).max() < 1e-4
    assert np.abs(segment[30:200].scores(planes[:1])[0] - expected[0, 30:200]).max() < 1e-4
    wanted = rng.integers(0, len(X), 60)
    for plane, scores in zip(planes, expected, strict=True):
        turned = codebook.turned(plane)
        assert np.abs(segment.rough_scores(wanted, turned) - scores[wanted]).max() < 1e-12
        inner = segment[50:].rough_scores(np.arange(9), turned)
        assert np.abs(inner - scores[50:59]).max() < 1e-12


def test_statistics_are_of_the_rows(stored):
    """Means and variances of the leading coordinates in each cluster, but for one average row."""
    _, codebook, encoded, _ = stored
    P = points_of(codebook, encoded)[:, :BLOCK]
    for cluster in range(len(codebook.means)):
        own = P[encoded.labels == cluster]
        if len(own) > 30:
            assert np.abs(codebook.means[cluster] - own.mean(axis=0)).max() < 0.1 * P.std()
            assert codebook.variances[cluster].sum() == pytest.approx(own.var(axis=0).sum(), rel=0.2)


def test_a_codebook_is_its_arrays(stored):
    """What is read back encodes alike."""
    X, codebook, encoded, _ = stored
    again = Codebook.from_arrays(codebook.arrays()).encoded(X)
    assert all(np.array_equal(one, other) for one, other in zip(encoded, again, strict=True))


def test_size_is_told_beforehand(stored):
    X, _, encoded, _ = stored
    assert len(as_file(encoded)) == len(X) * bytes_a_row(X.shape[1])


def test_damage_is_refused(stored):
    """Rows or clusters that do not exist would be read beyond the file."""
    X, codebook, encoded, segment = stored
    data, n = as_file(encoded), len(X)
    again = data.copy()
    again[segment.codes.nbytes : segment.codes.nbytes + 4 * n] = 0
    with pytest.raises(ValueError, match="rows without a place"):
        ByteRows.of(again, n, codebook)
    with pytest.raises(ValueError, match="bytes instead of"):
        ByteRows.of(data[:-1], n, codebook)
    start = segment.codes.nbytes
    for place, number in ((start, np.int32(n)), (start, np.int32(-1)), (start + 4 * n, np.uint16(7))):
        damaged = data.copy()
        damaged[place : place + number.nbytes] = np.frombuffer(number.tobytes(), np.uint8)
        with pytest.raises(ValueError, match="rows or clusters that do not exist"):
            ByteRows.of(damaged, n, codebook)


def test_no_rows_at_all(stored):
    """A segment may be empty: none of its items could be read."""
    X, codebook, _, _ = stored
    nothing = ByteRows.of(as_file(codebook.encoded(X[:0])), 0, codebook)
    assert nothing[np.arange(0)].shape == (0, X.shape[1])
    assert nothing.scores([Hyperplane(np.ones(X.shape[1]), 0.0)]).shape == (1, 0)
