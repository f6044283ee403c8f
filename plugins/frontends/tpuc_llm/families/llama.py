"""Llama and its relatives: RMSNorm before attention and before a gated MLP, rotary positions, grouped heads."""

from __future__ import annotations

from tpuc_ops.arrays import Array

from tpuc_llm.checkpoint import Checkpoint
from tpuc_llm.family import BlockWeights, Factors, Family, Linear, Reader, Shape

EMBEDDING = "model.embed_tokens.weight"
LONGEST_HEAD = 1 << 16
"""Elements of a head; known models have at most 256."""


class Llama(Family):
    """`LlamaForCausalLM`, Llama 2 to 3.2, SmolLM."""

    activations = ("silu",)
    q_bias = False
    qk_norm = False

    def shape(self, checkpoint: Checkpoint) -> Shape:
        config = Reader.of(checkpoint)
        config.require("hidden_act", self.activations)
        config.require("mlp_bias", [False])
        config.require("attention_bias", [self.q_bias])
        config.require("use_sliding_window", [False])
        config.require("tie_word_embeddings", [False, True])
        hidden, heads = config.extent("hidden_size"), config.extent("num_attention_heads")
        kv_heads = config.extent("num_key_value_heads", heads)
        head_size = config.extent("head_dim", hidden // heads, LONGEST_HEAD)
        if heads % kv_heads or head_size % 2:
            raise config.refuse(f"{heads} heads of {head_size} cannot share {kv_heads} key heads. Check the file.")
        return Shape(
            layers=config.extent("num_hidden_layers"),
            hidden=hidden,
            heads=heads,
            kv_heads=kv_heads,
            head_size=head_size,
            inner=config.extent("intermediate_size"),
            vocabulary=config.extent("vocab_size"),
            context=config.extent("max_position_embeddings", 2048),
            norm_eps=config.number("rms_norm_eps", 1e-6, most=1.0),
            frequencies=config.frequencies(head_size),
        )

    def embedding(self, checkpoint: Checkpoint) -> Array:
        shape = self.shape(checkpoint)
        return checkpoint.tensor(EMBEDDING, (shape.vocabulary, shape.hidden))

    def block(self, checkpoint: Checkpoint, index: int) -> BlockWeights:
        shape, name = self.shape(checkpoint), f"model.layers.{index}"
        hidden, inner, size = shape.hidden, shape.inner, shape.head_size
        wide, narrow = shape.heads * size, shape.kv_heads * size

        def linear(part: str, outputs: int, inputs: int, *, has_bias: bool = False) -> Linear:
            weight = checkpoint.tensor(f"{name}.{part}.weight", (outputs, inputs))
            bias = checkpoint.tensor(f"{name}.{part}.bias", (outputs,)) if has_bias else None
            return Linear(weight, bias, checkpoint.integers(f"{name}.{part}.weight"))

        def norm(part: str, extent: int) -> Array:
            return checkpoint.tensor(f"{name}.{part}.weight", (extent,))

        return BlockWeights(
            attention_norm=norm("input_layernorm", hidden),
            q=linear("self_attn.q_proj", wide, hidden, has_bias=self.q_bias),
            k=linear("self_attn.k_proj", narrow, hidden, has_bias=self.q_bias),
            v=linear("self_attn.v_proj", narrow, hidden, has_bias=self.q_bias),
            o=linear("self_attn.o_proj", hidden, wide),
            mlp_norm=norm("post_attention_layernorm", hidden),
            gate=linear("mlp.gate_proj", inner, hidden),
            up=linear("mlp.up_proj", inner, hidden),
            down=linear("mlp.down_proj", hidden, inner),
            q_norm=norm("self_attn.q_norm", size) if self.qk_norm else None,
            k_norm=norm("self_attn.k_norm", size) if self.qk_norm else None,
        )

    def head(self, checkpoint: Checkpoint) -> tuple[Factors, Linear]:
        shape = self.shape(checkpoint)
        norm = checkpoint.tensor("model.norm.weight", (shape.hidden,))
        is_tied = checkpoint.config.get("tie_word_embeddings", not checkpoint.has("lm_head.weight"))
        name = EMBEDDING if is_tied else "lm_head.weight"
        weight = checkpoint.tensor(name, (shape.vocabulary, shape.hidden))
        return norm, Linear(weight, None, checkpoint.integers(name))
