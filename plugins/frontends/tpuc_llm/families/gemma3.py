"""Gemma 3: a Gemma 2 that normalizes queries and keys, with other rotary positions in blocks that see a window."""

from __future__ import annotations

import dataclasses
from typing import Any

from tpuc_ops.arrays import Array

from tpuc_llm.checkpoint import Checkpoint
from tpuc_llm.families.gemma2 import FULL, SLIDING, Gemma2
from tpuc_llm.family import BlockWeights, Reader


class Gemma3(Gemma2):
    """`Gemma3ForCausalLM`, the models for text."""

    qk_norm = True
    period = 6

    def block(self, checkpoint: Checkpoint, index: int) -> BlockWeights:
        found, config = super().block(checkpoint, index), Reader.of(checkpoint)
        assert found.q_norm is not None
        assert found.k_norm is not None
        kind = SLIDING if self.slides(config, index) else FULL
        return dataclasses.replace(
            found,
            q_norm=found.q_norm + 1,
            k_norm=found.k_norm + 1,
            frequencies=_frequencies(config, kind, self.shape(checkpoint).head_size),
        )


def _frequencies(config: Reader, kind: str, head_size: int) -> Array:
    """Return the radians per position of one kind of blocks, which newer files state apart."""
    stated: Any = config.values.get("rope_parameters")
    if isinstance(stated, dict) and kind in stated:
        return Reader(config.checkpoint, {"rope_parameters": stated[kind]}).frequencies(head_size)
    if kind == SLIDING:
        base = config.number("rope_local_base_freq", 10000.0)
        return Reader(config.checkpoint, {"rope_theta": base}).frequencies(head_size)
    return Reader(config.checkpoint, {"rope_theta": 1e6, **config.values}).frequencies(head_size)
