"""A question's classifier."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Model:
    """A linear classifier, trained on a question's current labels.

    Parameters
    ----------
    coef : sequence of float
        The weights w, one per feature.
    intercept : float
        The bias b.
    about : dict
        The description of the classifier, such as the features and the numbers of labels.
    """

    coef: Sequence[float]
    intercept: float
    about: dict[str, Any]

    def scores(self, X: Any) -> Any:
        """Return the scores Xw + b. Positive scores predict yes.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_items, n_features)
            Features, computed in the same way as the features of the project's pool, and scaled to unit norm.

        Returns
        -------
        scores : numpy.ndarray of shape (n_items,)

        Raises
        ------
        ValueError
            If `X` has another number of features than the classifier.
        """
        import numpy as np

        rows = X if hasattr(X, "dot") else np.asarray(X)
        if rows.ndim != 2 or rows.shape[1] != len(self.coef):
            raise ValueError(f"X must have the shape (n_items, {len(self.coef)}), got {tuple(rows.shape)}")
        return np.asarray(rows.dot(np.asarray(self.coef, dtype=np.float64))) + self.intercept
