"""Gemma: a Llama with scaled embeddings, norms that multiply by one more than their weight, and a GELU gate."""

from __future__ import annotations

import dataclasses

import numpy as np
from tpuc_ops.arrays import Array

from tpuc_llm.checkpoint import Checkpoint
from tpuc_llm.families.llama import Llama
from tpuc_llm.family import BlockWeights, Shape


class Gemma(Llama):
    """`GemmaForCausalLM`, the first generation."""

    activations = ("gelu_pytorch_tanh", "gelu")

    def shape(self, checkpoint: Checkpoint) -> Shape:
        return dataclasses.replace(super().shape(checkpoint), activation="gelu_tanh")

    def embedding(self, checkpoint: Checkpoint) -> Array:
        return super().embedding(checkpoint) * np.float32(self.shape(checkpoint).hidden ** 0.5)

    def block(self, checkpoint: Checkpoint, index: int) -> BlockWeights:
        found = super().block(checkpoint, index)
        return dataclasses.replace(found, attention_norm=found.attention_norm + 1, mlp_norm=found.mlp_norm + 1)

    def head(self, checkpoint: Checkpoint) -> tuple[Array, Array]:
        norm, _ = super().head(checkpoint)
        return norm + 1, super().embedding(checkpoint)
