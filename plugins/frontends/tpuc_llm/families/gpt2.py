"""GPT-2: learned positions, norms with biases, and an MLP without a gate; matrices are stored [inputs, outputs]."""

from __future__ import annotations

import numpy as np
from tpuc_ops.arrays import Array

from tpuc_llm.checkpoint import Checkpoint
from tpuc_llm.family import BlockWeights, Factors, Family, Linear, Norm, Reader, Shape


class Gpt2(Family):
    """`GPT2LMHeadModel`."""

    reads_integers = False

    def shape(self, checkpoint: Checkpoint) -> Shape:
        config = Reader.of(checkpoint)
        config.require("activation_function", ["gelu_new", "gelu_pytorch_tanh"])
        config.require("scale_attn_weights", [True])
        config.require("tie_word_embeddings", [True])
        for key in ("scale_attn_by_inverse_layer_idx", "add_cross_attention"):
            config.require(key, [False])
        hidden, heads = config.extent("n_embd"), config.extent("n_head")
        if hidden % heads:
            raise config.refuse(f"{heads} heads cannot share {hidden} numbers. Check the file.")
        return Shape(
            layers=config.extent("n_layer"),
            hidden=hidden,
            heads=heads,
            kv_heads=heads,
            head_size=hidden // heads,
            inner=config.extent("n_inner", 4 * hidden),
            vocabulary=config.extent("vocab_size"),
            context=config.extent("n_positions", 1024),
            norm_eps=config.number("layer_norm_epsilon", 1e-5, most=1.0),
            frequencies=np.zeros(0),
            activation="gelu_tanh",
        )

    def embedding(self, checkpoint: Checkpoint) -> Array:
        shape = self.shape(checkpoint)
        return checkpoint.tensor(_place(checkpoint, "wte.weight"), (shape.vocabulary, shape.hidden))

    def block(self, checkpoint: Checkpoint, index: int) -> BlockWeights:
        shape = self.shape(checkpoint)
        hidden, inner = shape.hidden, shape.inner

        def tensor(part: str, *extents: int) -> Array:
            return checkpoint.tensor(_place(checkpoint, f"h.{index}.{part}"), extents)

        def linear(part: str, outputs: int, inputs: int) -> Linear:
            matrix = tensor(f"{part}.weight", inputs, outputs)
            return Linear(np.ascontiguousarray(matrix.T), tensor(f"{part}.bias", outputs))

        def norm(part: str) -> Norm:
            return Norm(tensor(f"{part}.weight", hidden), tensor(f"{part}.bias", hidden))

        joined = linear("attn.c_attn", 3 * hidden, hidden)
        assert joined.bias is not None
        parts = [slice(first, first + hidden) for first in range(0, 3 * hidden, hidden)]
        q, k, v = (Linear(joined.weight[part], joined.bias[part]) for part in parts)
        places = checkpoint.tensor(_place(checkpoint, "wpe.weight"), (shape.context, hidden)) if index == 0 else None
        return BlockWeights(
            attention_norm=norm("ln_1"),
            q=q,
            k=k,
            v=v,
            o=linear("attn.c_proj", hidden, hidden),
            mlp_norm=norm("ln_2"),
            gate=None,
            up=linear("mlp.c_fc", inner, hidden),
            down=linear("mlp.c_proj", hidden, inner),
            positions=places,
        )

    def head(self, checkpoint: Checkpoint) -> tuple[Factors, Linear]:
        hidden = self.shape(checkpoint).hidden
        weight, bias = (checkpoint.tensor(_place(checkpoint, f"ln_f.{part}"), (hidden,)) for part in ("weight", "bias"))
        return Norm(weight, bias), Linear(self.embedding(checkpoint))


def _place(checkpoint: Checkpoint, name: str) -> str:
    """Return a tensor's name, which older files state without the model's."""
    return name if checkpoint.has(name) else f"transformer.{name}"
