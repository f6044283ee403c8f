"""Phi-3: a Llama that stores queries, keys and values in one matrix, and the gate with what it gates."""

from __future__ import annotations

import dataclasses

from tpuc_llm.checkpoint import Checkpoint
from tpuc_llm.families.llama import Llama
from tpuc_llm.family import BlockWeights, Linear, Reader, Shape


class Phi3(Llama):
    """`Phi3ForCausalLM` with rotary positions of the default type."""

    def shape(self, checkpoint: Checkpoint) -> Shape:
        config, shape = Reader.of(checkpoint), super().shape(checkpoint)
        if config.values.get("sliding_window") is None:
            return shape
        return dataclasses.replace(shape, context=min(shape.context, config.extent("sliding_window")))

    def block(self, checkpoint: Checkpoint, index: int) -> BlockWeights:
        shape, name = self.shape(checkpoint), f"model.layers.{index}"
        hidden, inner = shape.hidden, shape.inner
        wide, narrow = shape.heads * shape.head_size, shape.kv_heads * shape.head_size

        def parts(part: str, sizes: tuple[int, ...], inputs: int) -> list[Linear]:
            place = f"{name}.{part}.weight"
            whole = Linear(checkpoint.tensor(place, (sum(sizes), inputs)), None, checkpoint.integers(place))
            ends = [sum(sizes[: place + 1]) for place in range(len(sizes))]
            return [whole.rows(end - size, end) for end, size in zip(ends, sizes, strict=True)]

        q, k, v = parts("self_attn.qkv_proj", (wide, narrow, narrow), hidden)
        gate, up = parts("mlp.gate_up_proj", (inner, inner), hidden)
        (o,), (down,) = parts("self_attn.o_proj", (hidden,), wide), parts("mlp.down_proj", (hidden,), inner)
        norms = [
            checkpoint.tensor(f"{name}.{part}.weight", (hidden,))
            for part in ("input_layernorm", "post_attention_layernorm")
        ]
        return BlockWeights(norms[0], q, k, v, o, norms[1], gate, up, down)
