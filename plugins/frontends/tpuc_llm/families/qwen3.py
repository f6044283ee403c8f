"""Qwen3: a Llama that normalizes the queries and keys of each head."""

from __future__ import annotations

from tpuc_llm.families.llama import Llama


class Qwen3(Llama):
    """`Qwen3ForCausalLM`."""

    qk_norm = True
