"""A decoder in plain numpy: what its weights compute, for measuring and for quantizing them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from tpuc_ops.arrays import Array
from tpuc_ops.functions import tanh_gelu

from tpuc_llm.family import BlockWeights, Factors, Linear, Norm, Shape
from tpuc_llm.graphs import rotary_tables


@dataclass(frozen=True)
class Arithmetic:
    """Windows of `tokens` tokens each, from position 0 on."""

    shape: Shape
    tokens: int

    def block(self, weights: BlockWeights, states: Array) -> Array:
        """Return the states behind a block: [windows, tokens, hidden]."""
        return self.value("output_states", weights, states)

    def value(self, name: str, weights: BlockWeights, states: Array) -> Array:
        """Return a value of a block by its name, one that products read or the `output_states`. What it does not need
        is not computed.
        """
        return next(found for one, found in self._values(weights, states) if one == name)

    def _values(self, weights: BlockWeights, states: Array) -> Iterator[tuple[str, Array]]:
        shape, count = self.shape, len(states)
        if weights.positions is not None:
            states = states + weights.positions[: self.tokens]
        normed = self.norm(states, weights.attention_norm)
        yield "attention_norm", normed
        sizes = {"q": shape.heads, "k": shape.kv_heads, "v": shape.kv_heads}
        q, k, v = (
            product(normed, getattr(weights, name)).reshape(count, self.tokens, heads, shape.head_size)
            for name, heads in sizes.items()
        )
        if weights.q_norm is not None and weights.k_norm is not None:
            q, k = self.norm(q, weights.q_norm), self.norm(k, weights.k_norm)
        frequencies = shape.frequencies if weights.frequencies is None else weights.frequencies
        if len(frequencies):
            q, k = self._turned(q, frequencies), self._turned(k, frequencies)
        context = self._attention(q, k, v, weights.window)
        yield "context", context
        states = states + self._ended(product(context, weights.o), weights.attention_end_norm)
        second = self.norm(states, weights.mlp_norm)
        yield "mlp_norm", second
        up = product(second, weights.up)
        gate = up if weights.gate is None else product(second, weights.gate)
        active = tanh_gelu(gate) if shape.activation == "gelu_tanh" else gate / (1 + np.exp(-gate))
        gated = active if weights.gate is None else active * up
        yield "gated", gated
        yield "output_states", states + self._ended(product(gated, weights.down), weights.mlp_end_norm)

    def _ended(self, x: Array, factors: Array | None) -> Array:
        return x if factors is None else self.norm(x, factors)

    def norm(self, x: Array, factors: Factors) -> Array:
        """RMSNorm over the last dimension, or a norm with a bias."""
        if isinstance(factors, Norm):
            x = x - x.mean(-1, keepdims=True)
            scale = np.sqrt(np.square(x).mean(-1, keepdims=True) + np.float32(self.shape.norm_eps))
            return x / scale * factors.weight + factors.bias
        return x / np.sqrt(np.square(x).mean(-1, keepdims=True) + np.float32(self.shape.norm_eps)) * factors

    def _turned(self, x: Array, frequencies: Array) -> Array:
        cosines, sines = rotary_tables(frequencies, self.tokens, self.shape.rope_factor)
        half = self.shape.head_size // 2
        turned = np.concatenate([x[..., half:], x[..., :half]], -1)
        return x * cosines[:, None] + turned * sines[:, None]

    def _attention(self, q: Array, k: Array, v: Array, window: int) -> Array:
        shape, (count, tokens) = self.shape, q.shape[:2]
        rows = q.reshape(count, tokens, shape.kv_heads, shape.group, shape.head_size).transpose(0, 2, 3, 1, 4)
        keys, values = (one.transpose(0, 2, 1, 3)[:, :, None] for one in (k, v))
        scores = capped(rows @ keys.swapaxes(-1, -2) * np.float32(shape.score_scale), shape.score_cap)
        seen = np.tri(tokens, dtype=bool)
        if window:
            seen &= ~np.tri(tokens, k=-window, dtype=bool)
        scores = np.where(seen, scores, np.float32(-np.inf))
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        shares /= shares.sum(-1, keepdims=True)
        return (shares @ values).transpose(0, 3, 1, 2, 4).reshape(count, tokens, -1)


def capped(x: Array, cap: float) -> Array:
    """``cap * tanh(x / cap)``, or x if the cap is 0."""
    return np.float32(cap) * np.tanh(x / np.float32(cap)) if cap else x


def product(x: Array, linear: Linear) -> Array:
    """``x @ weight.T + bias``."""
    result = x @ linear.weight.T
    return result if linear.bias is None else result + linear.bias
