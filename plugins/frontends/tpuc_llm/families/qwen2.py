"""Qwen2 and Qwen2.5: a Llama with biases on queries, keys and values."""

from __future__ import annotations

from tpuc_llm.families.llama import Llama


class Qwen2(Llama):
    """`Qwen2ForCausalLM`."""

    q_bias = True
