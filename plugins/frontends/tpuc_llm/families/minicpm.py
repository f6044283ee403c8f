"""MiniCPM: a Llama that multiplies embeddings, what blocks add to the states, and logits; all that is in the weights.

Source: Hu et al., "MiniCPM: Unveiling the Potential of Small Language Models", https://arxiv.org/abs/2404.06395.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from tpuc_ops.arrays import Array

from tpuc_llm.checkpoint import Checkpoint
from tpuc_llm.families.llama import Llama
from tpuc_llm.family import BlockWeights, Factors, Linear, Norm, Reader, Shape


@dataclasses.dataclass(frozen=True)
class Multipliers:
    """Of embeddings, of what attention and MLP add to the states, and of logits."""

    embedding: float
    added: float
    logits: float


class MiniCpm(Llama):
    """`MiniCPMForCausalLM` with dense attention and one MLP."""

    def shape(self, checkpoint: Checkpoint) -> Shape:
        config = Reader.of(checkpoint)
        config.require("num_experts", [0, None])
        config.require("sparse_config", [None])
        return super().shape(checkpoint)

    def multipliers(self, checkpoint: Checkpoint) -> Multipliers:
        """Return what the configuration says."""
        config, shape = Reader.of(checkpoint), self.shape(checkpoint)
        return Multipliers(
            config.number("scale_emb", 1.0),
            config.number("scale_depth", 1.0) / shape.layers**0.5,
            config.number("dim_model_base", 1.0) / shape.hidden,
        )

    def embedding(self, checkpoint: Checkpoint) -> Array:
        return super().embedding(checkpoint) * np.float32(self.multipliers(checkpoint).embedding)

    def block(self, checkpoint: Checkpoint, index: int) -> BlockWeights:
        found, factor = super().block(checkpoint, index), self.multipliers(checkpoint).added
        return dataclasses.replace(found, o=found.o.scaled(factor), down=found.down.scaled(factor))

    def head(self, checkpoint: Checkpoint) -> tuple[Factors, Linear]:
        norm, head = super().head(checkpoint)
        assert not isinstance(norm, Norm)
        return norm * np.float32(self.multipliers(checkpoint).logits), head
