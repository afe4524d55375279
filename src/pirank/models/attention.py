"""A scorer that looks at all documents of a query: self-attention, crossed with a tower for each document."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pirank.models.mlp import MLP


class ListAttention(nn.Module):
    r"""Self-attention over the documents of a query, fused with a per-document tower by a latent cross.

    .. math:: s = w^\top \operatorname{relu}(h + h \odot c)

    with h the tower's last layer and c the document's view of its list. No positions: permuting the documents
    permutes the scores. Documents of other queries and padding take no part.

    Args:
        in_features: columns.
        hidden: the tower's widths.
        width: the attention's width.
        blocks: how many attention blocks.
        heads: attention heads; divides ``width``.
        dropout: in the tower and in the blocks.
        activation: the tower's.
        normalisation: the tower's.

    Example:
        >>> network = ListAttention(5).eval()
        >>> network(torch.rand(6, 5), offsets=torch.tensor([0, 2, 6])).shape
        torch.Size([6])

    References:
        Qin et al.: Are neural rankers still outperformed by gradient boosted decision trees? ICLR 2021.
    """

    def __init__(
        self,
        in_features: int,
        *,
        hidden: Sequence[int] = (128, 64),
        width: int = 64,
        blocks: int = 2,
        heads: int = 2,
        dropout: float = 0.1,
        activation: str = "relu",
        normalisation: str = "none",
    ) -> None:
        super().__init__()
        if not hidden:
            raise ValueError("hidden must name at least one width: the latent cross needs a layer to act on")
        if heads < 1 or width % heads:
            raise ValueError(f"width must be a multiple of heads, got width {width} and heads {heads}")
        self.tower = MLP(
            in_features, hidden=hidden, activation=activation, normalisation=normalisation, dropout=dropout
        )
        self.enter = nn.Linear(in_features, width)
        self.blocks = nn.ModuleList(AttentionBlock(width, heads, dropout) for _ in range(blocks))
        self.leave = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, hidden[-1]))

    def forward(self, features: Tensor, offsets: Tensor | None = None) -> Tensor:
        """``features [N, F]`` and ``offsets [Q + 1]`` to ``scores [N]``; without offsets: one query."""
        hidden = self.tower.hidden(features)
        context = self.enter(features)
        if offsets is None:
            context = self._attend(context[None], None)[0]
        else:
            lengths = offsets.diff()
            position = torch.arange(int(lengths.max()) if lengths.numel() else 0, device=features.device)
            mask = position < lengths[:, None]
            index = torch.where(mask, offsets[:-1, None] + position, 0)
            context = self._attend(context[index], mask)[mask] if len(features) else context
        cross = torch.relu(hidden + hidden * self.leave(context))
        scores: Tensor = self.tower.score(cross)
        return scores.squeeze(-1)

    def _attend(self, context: Tensor, mask: Tensor | None) -> Tensor:
        # A query without documents has no key to attend to: it sees its padding, which is thrown away.
        keys = None if mask is None else (mask | ~mask.any(-1, keepdim=True))[:, None, None, :]
        for block in self.blocks:
            context = block(context, keys)
        return context


class AttentionBlock(nn.Module):
    """Attention, then two layers, each after a layer norm and added to its input, ``[B, L, D]``."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.before_attention = nn.LayerNorm(width)
        self.queries_keys_values = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.feed_forward = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width)
        )
        self.drop = nn.Dropout(dropout)

    def forward(self, items: Tensor, keys: Tensor | None) -> Tensor:
        heads = self.queries_keys_values(self.before_attention(items)).unflatten(-1, (3, self.heads, -1))
        query, key, value = heads.permute(2, 0, 3, 1, 4).unbind(0)
        attended = F.scaled_dot_product_attention(
            query, key, value, attn_mask=keys, dropout_p=self.dropout if self.training else 0.0
        )
        items = items + self.drop(self.out(attended.transpose(1, 2).flatten(2)))
        added: Tensor = self.drop(self.feed_forward(items))
        return items + added
