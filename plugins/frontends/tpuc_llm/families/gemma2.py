"""Gemma 2: a Gemma with norms behind attention and MLP too, capped scores and logits, and windows in some blocks."""

from __future__ import annotations

import dataclasses
from typing import Any

from tpuc_ops.arrays import Array

from tpuc_llm.checkpoint import Checkpoint
from tpuc_llm.families.gemma import Gemma
from tpuc_llm.family import BlockWeights, Reader, Shape

FULL, SLIDING = "full_attention", "sliding_attention"


class Gemma2(Gemma):
    """`Gemma2ForCausalLM`."""

    period = 2
    """Every so many blocks, one sees all tokens where `layer_types` is not given."""

    def shape(self, checkpoint: Checkpoint) -> Shape:
        config, shape = Reader.of(checkpoint), super().shape(checkpoint)
        config.require("hidden_activation", self.activations)
        config.require("use_bidirectional_attention", [False, None])
        return dataclasses.replace(
            shape,
            score_factor=config.number("query_pre_attn_scalar", shape.head_size) ** -0.5,
            score_cap=_cap(config, "attn_logit_softcapping"),
            logit_cap=_cap(config, "final_logit_softcapping"),
        )

    def block(self, checkpoint: Checkpoint, index: int) -> BlockWeights:
        config, found = Reader.of(checkpoint), super().block(checkpoint, index)
        hidden, name = self.shape(checkpoint).hidden, f"model.layers.{index}"

        def norm(part: str) -> Array:
            return checkpoint.tensor(f"{name}.{part}.weight", (hidden,)) + 1

        return dataclasses.replace(
            found,
            attention_end_norm=norm("post_attention_layernorm"),
            mlp_norm=norm("pre_feedforward_layernorm"),
            mlp_end_norm=norm("post_feedforward_layernorm"),
            window=config.extent("sliding_window", 4096) if self.slides(config, index) else 0,
        )

    def slides(self, config: Reader, index: int) -> bool:
        """Return whether a block sees a window only. Raises Unsupported for types of blocks that are not known."""
        listed: Any = config.values.get("layer_types")
        if listed is None:
            return bool((index + 1) % config.extent("sliding_window_pattern", self.period))
        kinds: list[Any] = [*listed] if isinstance(listed, list) else []
        if index >= len(kinds) or kinds[index] not in (FULL, SLIDING):
            raise config.refuse(f"layer_types has to name {FULL} or {SLIDING} for every block. Check the file.")
        return bool(kinds[index] == SLIDING)


def _cap(config: Reader, key: str) -> float:
    return 0.0 if config.values.get(key) is None else config.number(key)
