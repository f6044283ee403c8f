"""Quantize a decoder block by block: every block sees what the quantized blocks before it give for a text."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tpuc_ops.arrays import Array

from tpuc_llm.arithmetic import Arithmetic
from tpuc_llm.family import BlockWeights, Linear
from tpuc_llm.quantization import Quantizer
from tpuc_llm.rounding import Feedback

TOKENS, WINDOW, TOGETHER = 16384, 256, 4
"""Tokens of the text that are looked at, in windows, so many of which are computed at once."""
SOURCES: Mapping[str, tuple[str, ...]] = {
    "attention_norm": ("q", "k", "v"),
    "context": ("o",),
    "mlp_norm": ("gate", "up"),
    "gated": ("down",),
}
"""The products that read a value, by the value's name."""


@dataclass
class BlockCalibration:
    """The states in front of the next block: [windows, tokens, hidden]."""

    arithmetic: Arithmetic
    quantizer: Quantizer
    states: Array

    def quantized(self, weights: BlockWeights) -> BlockWeights:
        """Return the next block with its matrices as integers, and go on to the states behind it."""
        moments: dict[str, Array] = {}
        for first in range(0, len(self.states), TOGETHER):
            values = self.arithmetic.block(weights, self.states[first : first + TOGETHER])
            for name in SOURCES:
                moments[name] = moments.get(name, 0) + second_moments(values[name])
        found = {
            part: Feedback(self.quantizer, moments[name]).linear(getattr(weights, part))
            for name, parts in SOURCES.items()
            for part in parts
        }
        done = dataclasses.replace(weights, **found)
        for first in range(0, len(self.states), TOGETHER):
            part = slice(first, first + TOGETHER)
            self.states[part] = self.arithmetic.block(done, self.states[part])["output_states"]
        return done

    def head(self, linear: Linear, norm: Array, quantizer: Quantizer) -> Linear:
        """Return the head with its matrix as integers."""
        moments = second_moments(self.arithmetic.norm(self.states, norm))
        return Feedback(quantizer, moments).linear(linear)


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
