"""Quantize a decoder block by block: every block sees what the quantized blocks before it give for a text."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from tpuc_ops.arrays import Array

from tpuc_llm.arithmetic import Arithmetic
from tpuc_llm.family import BlockWeights, Factors, Linear
from tpuc_llm.quantization import Quantizer
from tpuc_llm.rounding import Feedback

TOKENS, WINDOW, TOGETHER = 16384, 256, 4
"""Tokens of the text that are looked at, in windows, so many of which are computed at once."""
FIT_DAMPING = 0.3
"""Added to the diagonal of the second moments of a fit, as a share of its mean. Chosen on stories260k alone: 4 bits
cost 3.36 % of perplexity with 0.3, 4.24 with 1, 4.42 with 0.03, mean of both halves of one text.
"""
SOURCES: Mapping[str, tuple[str, ...]] = {
    "attention_norm": ("q", "k", "v"),
    "context": ("o",),
    "mlp_norm": ("gate", "up"),
    "gated": ("down",),
}
"""The products that read a value, by the value's name."""


@dataclass
class BlockCalibration:
    """The states in front of the next block: [windows, tokens, hidden], of the quantized model and of the float one."""

    arithmetic: Arithmetic
    quantizer: Quantizer
    states: Array
    exact: Array

    def quantized(self, weights: BlockWeights, wide: Collection[str] = ()) -> BlockWeights:
        """Return the next block with its matrices as integers, those of `wide` of 8 bits, and go on to the states
        behind it.

        Matrices are first fitted so that the inputs that they get give what the float model computes.
        """
        done = weights
        for name, parts in SOURCES.items():
            moments, missing = self._moments(done, weights, name)
            for part in parts:
                linear = getattr(weights, part)
                if linear is None or linear.integers is not None:
                    continue
                fitted = dataclasses.replace(linear, weight=linear.weight + fit(linear.weight, moments, missing))
                quantizer = self.quantizer.of_projection(part, self.arithmetic.shape, wide)
                done = dataclasses.replace(done, **{part: Feedback(quantizer, moments).linear(fitted)})
        for place in self._places():
            self.states[place] = self.arithmetic.block(done, self.states[place])
            self.exact[place] = self.arithmetic.block(weights, self.exact[place])
        return done

    def _moments(self, done: BlockWeights, weights: BlockWeights, name: str) -> tuple[Array, Array]:
        """Return the second moments of a value, and those of what it lacks from the float model's with itself."""
        size = {"context": weights.o, "gated": weights.down}.get(name, weights.q).weight.shape[1]
        moments, missing = np.zeros((size, size), np.float32), np.zeros((size, size), np.float32)
        for place in self._places():
            found, wanted = (
                self.arithmetic.value(name, block, states[place]).reshape(-1, size)
                for block, states in ((done, self.states), (weights, self.exact))
            )
            moments += found.T @ found
            missing += (wanted - found).T @ found
        return moments, missing

    def _places(self) -> Iterator[slice]:
        for first in range(0, len(self.states), TOGETHER):
            yield slice(first, first + TOGETHER)

    def head(self, linear: Linear, norm: Factors, quantizer: Quantizer) -> Linear:
        """Return the head with its matrix as integers."""
        moments = second_moments(self.arithmetic.norm(self.states, norm))
        return Feedback(quantizer, moments).linear(linear)


def fit(weight: Array, moments: Array, missing: Array) -> Array:
    """Return what to add to a matrix so that its inputs give what other inputs would, by least squares."""
    damped = moments + np.eye(len(moments), dtype=np.float32) * (FIT_DAMPING * np.diag(moments).mean() or 1.0)
    return np.linalg.solve(damped, (weight @ missing).T).T.astype(np.float32)


def second_moments(values: Array) -> Array:
    """Return the sums of products of all pairs in the last dimension."""
    rows = values.reshape(-1, values.shape[-1])
    return rows.T @ rows


def windows(ids: Sequence[int], length: int, begin: int | None) -> list[list[int]]:
    """Cut the ids of a text into windows of `length`, each behind the begin token if there is one."""
    first = [] if begin is None else [begin]
    plain = list(ids[1:] if begin is not None and list(ids[:1]) == first else ids)
    step = length - len(first)
    return [[*first, *plain[at : at + step]] for at in range(0, len(plain) - step + 1, step)]
