"""Perplexity: how well a model predicts every next token of a text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
from tpuc_ops.arrays import Array

Logits = Callable[[Sequence[int]], Array]
"""The logits behind each token of a window: [tokens, vocabulary]."""


def perplexity(logits: Logits, windows: Iterable[Sequence[int]]) -> float:
    """Return the exponential of the mean of -log of the probabilities of all next tokens in windows."""
    losses = np.concatenate([losses_of(logits(window), window) for window in windows])
    return float(np.exp(losses.mean()))


def losses_of(logits: Array, window: Sequence[int]) -> Array:
    """Return -log of the probability of each token but the first."""
    rows = logits[: len(window) - 1].astype(np.float64)
    largest = rows.max(-1, keepdims=True)
    sums = np.log(np.exp(rows - largest).sum(-1)) + largest[:, 0]
    return sums - rows[np.arange(len(rows)), np.asarray(window[1:])]
