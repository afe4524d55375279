"""NeuralSort by its definition, with the pairwise matrix: the oracle of the tests."""

from __future__ import annotations

import torch
from torch import Tensor

from pirank.lists import check_k, check_scores
from pirank.sorts.base import check_temperature


def naive_neural_sort(scores: Tensor, temperature: float, k: int | None = None) -> Tensor:
    r"""The first k rows of NeuralSort's relaxed permutation matrix, as the paper's Eq. relaxed_perm defines it.

    .. math::
        \hat P_{i,\cdot} = \operatorname{softmax}\bigl[((L + 1 - 2i)\, s - A_s \mathbf 1) / \tau\bigr],
        \qquad [A_s]_{ij} = |s_i - s_j|

    It needs O(L²) time and memory, and loses digits where L is large: use :class:`~pirank.sorts.NeuralSort`.

    Args:
        scores: ``[..., L]``.
        temperature: τ, above 0.
        k: how many rows; None: all L; at most L.

    Returns:
        ``[..., k, L]``, columns in the order of the input items.

    Example:
        >>> naive_neural_sort(torch.tensor([1.0, 3.0]), temperature=1.0)
        tensor([[0.1192, 0.8808],
                [0.8808, 0.1192]])

    References:
        Grover, Wang, Zweig, Ermon: Stochastic optimization of sorting networks via continuous relaxations, ICLR 2019.
    """
    check_scores(scores)
    check_temperature(temperature)
    check_k(k)
    length = scores.shape[-1]
    distances = (scores[..., :, None] - scores[..., None, :]).abs().sum(-1)
    rank = torch.arange(1, (length if k is None else min(k, length)) + 1, device=scores.device)
    coefficient = (length + 1 - 2 * rank).to(scores.dtype)
    logits = coefficient[:, None] * scores[..., None, :] - distances[..., None, :]
    return torch.softmax(logits / temperature, dim=-1)
