"""Gemma: a Llama with scaled embeddings, norms that multiply by one more than their weight, and a GELU gate."""

from __future__ import annotations

import dataclasses

import numpy as np
from tpuc_ops.arrays import Array

from tpuc_llm.checkpoint import Checkpoint
from tpuc_llm.families.llama import Llama
from tpuc_llm.family import BlockWeights, Factors, Linear, Norm, Shape


class Gemma(Llama):
    """`GemmaForCausalLM`, the first generation."""

    activations = ("gelu_pytorch_tanh", "gelu")

    def shape(self, checkpoint: Checkpoint) -> Shape:
        return dataclasses.replace(super().shape(checkpoint), activation="gelu_tanh")

    def embedding(self, checkpoint: Checkpoint) -> Array:
        return super().embedding(checkpoint) * np.float32(self.shape(checkpoint).hidden ** 0.5)

    def block(self, checkpoint: Checkpoint, index: int) -> BlockWeights:
        found = super().block(checkpoint, index)
        return dataclasses.replace(
            found, attention_norm=_larger(found.attention_norm), mlp_norm=_larger(found.mlp_norm)
        )

    def head(self, checkpoint: Checkpoint) -> tuple[Factors, Linear]:
        norm, head = super().head(checkpoint)
        return _larger(norm), head


def _larger(factors: Factors) -> Array:
    """Return factors of RMSNorm that are stored as what they exceed 1 by."""
    assert not isinstance(factors, Norm)
    return factors + 1
