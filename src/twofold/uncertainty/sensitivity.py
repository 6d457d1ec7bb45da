"""Sensitivity of a function to its inputs: shares of its variance (total effects).

``T_j = E[(p(x) − p(x'))²] / (2 Var p(x))``, where ``x'`` is ``x`` with its column j taken from
another row of the data (Jansen 1999; the total effect of Sobol's analysis). For independent columns
``T_j`` is the share of the variance that remains if all columns but j are known: 0 for a column
without effect. The shares add up to 1 without interactions, and to more with them, because an
interaction counts for each of its columns.

Dependent columns are permuted all the same, which creates rows far from all data, where the values
of ``p`` count too. ``T_j`` then describes how ``p``, as a function, reacts to column j over its
range in the data, not how much of the variance within the data column j explains; of two correlated
columns, both may have large shares, or both small ones.
"""

from collections.abc import Callable, Sequence

import numpy as np


def total_effects(
    function: Callable[[np.ndarray], np.ndarray],
    x: np.ndarray,
    donors: np.ndarray,
    groups: Sequence[Sequence[int]] | None = None,
) -> np.ndarray:
    """``T_j`` of each column of ``x [N, D]``, or of each of the ``groups`` of columns: ``[D]`` or,
    for P functions at once, ``[D, P]``.

    ``function`` maps ``[N, D]`` to ``[N]`` or ``[N, P]``; columns of row i are replaced by those of
    row ``donors[i]``. All effects are zero for a function that is constant over the rows.
    """
    if x.ndim != 2 or len(x) < 2:
        raise ValueError(f"expected x [N, D] with at least 2 rows to swap, got shape {x.shape}")
    themselves = np.count_nonzero(donors == np.arange(len(donors)))
    if donors.shape != (len(x),) or themselves:
        raise ValueError(
            f"expected one other row for each of the {len(x)} rows, got {donors.shape} donors, "
            f"{themselves} of them the row itself; make them with other_rows"
        )
    values = np.asarray(function(x), np.float64)
    variance = np.var(values, axis=0, ddof=1)
    effects = []
    for columns in [[j] for j in range(x.shape[1])] if groups is None else groups:
        other = x.copy()
        other[:, columns] = x[donors][:, columns]
        changes = np.asarray(function(other), np.float64) - values
        effects.append(np.mean(np.square(changes), axis=0) / 2.0)
    varies = variance > 0.0
    return np.where(varies, np.array(effects) / np.where(varies, variance, 1.0), 0.0)


def other_rows(rng: np.random.Generator, rows: int) -> np.ndarray:
    """For each row a different one, each used once: its successor in a random order."""
    order = rng.permutation(rows)
    donors = np.empty(rows, int)
    donors[order] = np.roll(order, 1)
    return donors
