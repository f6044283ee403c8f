"""A family as a package of somebody else would bring it."""

from __future__ import annotations

from tpuc_llm.checkpoint import Checkpoint
from tpuc_llm.families.llama import Llama
from tpuc_llm.family import Reader, Shape


class Mistral(Llama):
    """`MistralForCausalLM` without a sliding window: a Llama."""

    def shape(self, checkpoint: Checkpoint) -> Shape:
        Reader.of(checkpoint).require("sliding_window", [None])
        return super().shape(checkpoint)
