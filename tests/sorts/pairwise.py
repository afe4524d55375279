"""NeuralSort's ranked values and their gradient from the pairwise definition, in extended precision."""

from __future__ import annotations

import numpy as np


def ranked_values_and_gradients(
    scores: np.ndarray, values: np.ndarray, weights: np.ndarray, temperature: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """``P̂ @ values``, the gradients of ``weights @ P̂ @ values`` by scores and values, with sign(0) = 0, and a bound.

    The bound is that on the score gradient's own rounding: the definition subtracts logits of size Lσ/τ.

    Scores and values are ``[L]``, weights ``[k]``. Everything is a plain transcription of Eq. relaxed_perm and of the
    chain rule, in numpy's longdouble.
    """
    s, g, w = (np.asarray(x, dtype=np.longdouble) for x in (scores, values, weights))
    tau = np.longdouble(temperature)
    length, k = len(s), len(w)
    rank = np.arange(1, k + 1)
    distances = np.abs(s[:, None] - s[None, :])
    logits = ((length + 1 - 2 * rank)[:, None] * s - distances.sum(1)) / tau
    top = logits.argmax(1)
    p = np.exp(logits - logits.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    # g_r − v_i by way of the row's heaviest item, which keeps its digits where P̂ is nearly hard.
    to_top = g - g[top][:, None]
    shift = (p * to_top).sum(1, keepdims=True)
    u = w[:, None] * p * (to_top - shift) / tau
    total = u.sum(0)
    sign = np.sign(s[:, None] - s[None, :])
    gradient = u.T @ (length + 1 - 2 * rank) - total * sign.sum(1) - sign @ total
    rounding = np.finfo(np.longdouble).eps * length * float(np.abs(u).sum(1).max())
    bound = rounding * (1 + float(np.abs(length * s / tau).max() + distances.sum(1).max() / tau))
    return g[top] + shift[:, 0], gradient, w @ p, bound
