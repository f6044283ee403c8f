"""Granite: a Llama with multipliers as MiniCPM has them, and one of its own for scores."""

from __future__ import annotations

import dataclasses

from tpuc_llm.checkpoint import Checkpoint
from tpuc_llm.families.minicpm import MiniCpm, Multipliers
from tpuc_llm.family import Reader, Shape


class Granite(MiniCpm):
    """`GraniteForCausalLM`."""

    def shape(self, checkpoint: Checkpoint) -> Shape:
        factor = Reader.of(checkpoint).number("attention_multiplier", 1.0)
        return dataclasses.replace(super().shape(checkpoint), score_factor=factor)

    def multipliers(self, checkpoint: Checkpoint) -> Multipliers:
        config = Reader.of(checkpoint)
        return Multipliers(
            config.number("embedding_multiplier", 1.0),
            config.number("residual_multiplier", 1.0),
            1 / config.number("logits_scaling", 1.0),
        )
