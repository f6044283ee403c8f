"""What a family of decoders has to say: its shape, and where its weights are.

A family is one file; an entry point of the group `tpuc.llm_families`, named like the `model_type` of `config.json`,
names its class.
"""

from __future__ import annotations

import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

import numpy as np
from tpuc.api import Unsupported
from tpuc_ops.arrays import Array

from tpuc_llm.checkpoint import Checkpoint
from tpuc_llm.integers import Integers


@dataclass(frozen=True)
class Shape:
    """The extents and constants of a decoder.

    `frequencies` are radians per position, one for each pair (i, i + head_size / 2) of a head's elements; `rope_factor`
    multiplies cosines and sines.
    """

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_size: int
    inner: int
    vocabulary: int
    context: int
    norm_eps: float
    frequencies: Array
    rope_factor: float = 1.0
    activation: str = "silu"
    """Of the gate: silu, or gelu_tanh."""
    score_factor: float | None = None
    """Multiplies scores; by default the reciprocal square root of `head_size`."""
    score_cap: float = 0.0
    logit_cap: float = 0.0
    """Scores and logits become ``cap * tanh(x / cap)``; 0 leaves them as they are."""

    @property
    def group(self) -> int:
        """Query heads that read one key and value head."""
        return self.heads // self.kv_heads

    @property
    def score_scale(self) -> float:
        """What scores are multiplied by."""
        return self.head_size**-0.5 if self.score_factor is None else self.score_factor


@dataclass(frozen=True)
class Linear:
    """A product with `weight: [outputs, inputs]`, and a bias if there is one.

    `integers` is the matrix as it is stored, where it is quantized.
    """

    weight: Array
    bias: Array | None = None
    integers: Integers | None = None

    def rows(self, first: int, end: int) -> Linear:
        """Return the product with some of the outputs."""
        part = slice(first, end)
        bias, stored = self.bias, self.integers
        return Linear(
            self.weight[part], None if bias is None else bias[part], None if stored is None else stored.rows(part)
        )

    def scaled(self, factor: float) -> Linear:
        """Return the product times a factor; scales of integers are rounded once more where files store them."""
        bias, stored, times = self.bias, self.integers, np.float32(factor)
        kept = None if stored is None else stored.scaled(factor)
        return Linear(self.weight * times, None if bias is None else bias * times, kept)


@dataclass(frozen=True)
class Norm:
    """A norm that subtracts the mean and adds a bias."""

    weight: Array
    bias: Array


Factors: TypeAlias = "Array | Norm"
"""The factors of RMSNorm, or a norm with a bias."""


@dataclass(frozen=True)
class BlockWeights:
    """The weights of one block. Without a `gate`, the activation is that of `up`.

    `q_norm` and `k_norm` normalize each head before rotation; `attention_end_norm` and `mlp_end_norm` what is added to
    the states. `positions`, rows by position, are added to the states in front of the block. `frequencies` replace
    those of the shape. Tokens see the `window` tokens up to their own, all if it is 0.
    """

    attention_norm: Factors
    q: Linear
    k: Linear
    v: Linear
    o: Linear
    mlp_norm: Factors
    gate: Linear | None
    up: Linear
    down: Linear
    q_norm: Array | None = None
    k_norm: Array | None = None
    attention_end_norm: Array | None = None
    mlp_end_norm: Array | None = None
    positions: Array | None = None
    frequencies: Array | None = None
    window: int = 0


class Family(ABC):
    """Decoders whose `config.json` has one `model_type`."""

    api_version: ClassVar[int] = 1
    reads_integers: ClassVar[bool] = True
    """Folders may store matrices as integers."""

    @abstractmethod
    def shape(self, checkpoint: Checkpoint) -> Shape:
        """Return the extents. Raises Unsupported for what the configuration asks for and is not built."""

    @abstractmethod
    def embedding(self, checkpoint: Checkpoint) -> Array:
        """Return the embedding table: [vocabulary, hidden]."""

    @abstractmethod
    def block(self, checkpoint: Checkpoint, index: int) -> BlockWeights:
        """Return the weights of one block."""

    @abstractmethod
    def head(self, checkpoint: Checkpoint) -> tuple[Factors, Linear]:
        """Return the last norm and the head, a matrix [vocabulary, hidden]."""


@dataclass(frozen=True)
class Reader:
    """Typed access to `config.json`; refusals name the folder and the key."""

    checkpoint: Checkpoint
    values: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @staticmethod
    def of(checkpoint: Checkpoint) -> Reader:
        return Reader(checkpoint, checkpoint.config)

    def refuse(self, what: str) -> Unsupported:
        """The error for a configuration that is not built."""
        return Unsupported(f"{self.checkpoint.said_in}: {what}")

    def extent(self, key: str, default: int | None = None, most: int = (1 << 31) - 1) -> int:
        """Return a whole number from 1 to `most`."""
        value = self.values.get(key)
        value = default if value is None else value
        if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= most:
            raise self.refuse(
                f"{key} is {_short(value)}, it has to be a whole number from 1 to {most:,}. Check the file."
            )
        return value

    def number(self, key: str, default: float | None = None, most: float = sys.float_info.max) -> float:
        """Return a number above 0, and up to `most`."""
        value = self.values.get(key)
        value = default if value is None else value
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= most:
            limit = f" and at most {most:g}" if most < sys.float_info.max else ""
            raise self.refuse(f"{key} is {_short(value)}, it has to be a number above 0{limit}. Check the file.")
        return float(value)

    def numbers(self, key: str, count: int) -> Array:
        """Return so many finite numbers above 0."""
        found = np.asarray(self.values.get(key, []), np.float64)
        if found.shape != (count,) or not (np.isfinite(found) & (found > 0)).all():
            raise self.refuse(f"{key} has to be {count} numbers above 0. Check the file.")
        return found

    def require(self, key: str, values: Sequence[Any]) -> None:
        """Refuse a value of a key that is there and none of these."""
        if key in self.values and self.values[key] not in values:
            shown = " or ".join(str(value) for value in values)
            raise self.refuse(
                f"{key} is {_short(self.values[key])}, and only {shown} is built here. Choose another model."
            )

    def frequencies(self, head_size: int) -> Array:
        """Return the radians per position of every pair; scaled rotary positions are refused by name.

        Source: Su et al., "RoFormer", https://arxiv.org/abs/2104.09864.
        """
        rope: Any = self.values.get("rope_parameters") or self.values.get("rope_scaling") or {}
        if not isinstance(rope, dict):
            raise self.refuse(f"rope_scaling is {_short(rope)}, it has to be an object. Check the file.")
        inner = Reader(self.checkpoint, {**rope})
        for one in (self, inner):
            one.require("partial_rotary_factor", [1.0])
        kind = inner.values.get("rope_type") or inner.values.get("type") or "default"
        base = inner.number("rope_theta", self.number("rope_theta", 10000.0))
        with np.errstate(over="ignore"):
            plain = base ** (-np.arange(head_size // 2) / (head_size / 2))
        if not np.isfinite(plain).all():
            raise self.refuse(f"rope_theta is {base!r}, which makes rotary positions infinite. Check the file.")
        if kind == "default":
            return plain
        if kind == "llama3":
            return _llama3(inner, plain)
        if kind == "linear":
            return plain / inner.number("factor")
        if kind == "factors":
            return plain / inner.numbers("factors", len(plain))
        raise self.refuse(
            f"rotary positions of type {_short(kind)} are not built; default, linear, and llama3 are. Choose another "
            "model."
        )


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}..."


def _llama3(rope: Reader, plain: Array) -> Array:
    """Scale low frequencies by `factor`, keep high ones, and blend between them (Llama 3.1's published rule)."""
    factor, original = rope.number("factor"), rope.number("original_max_position_embeddings")
    low, high = rope.number("low_freq_factor"), rope.number("high_freq_factor")
    if low >= high:
        raise rope.refuse(f"low_freq_factor is {low!r}, it has to be below high_freq_factor, {high!r}. Check the file.")
    turns = original * plain / (2 * math.pi)
    share = np.clip((turns - low) / (high - low), 0.0, 1.0)
    return plain * (share + (1 - share) / factor)
