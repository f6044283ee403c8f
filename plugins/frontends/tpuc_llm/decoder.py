"""The networks of a decoder: embedding, one block for a whole prompt or for the next token, and the head.

Names, order and shapes of inputs and outputs are those that the vendor's language-model programs expect. S is the
sequence length, H the hidden size, n the number of key and value heads, d their size.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from tpuc.api import Module, StringAttr, Value
from tpuc_ops.arrays import Array

from tpuc_llm.family import BlockWeights, Factors, Linear, Shape
from tpuc_llm.graphs import Graph, rotary_tables

SCORE_BYTES = 4
MOST_TOGETHER = 1 << 19
"""Bytes of the scores of all heads. Larger ones cross DDR several times where heads are computed together: on BM1684X a
block of SmolLM2 with a prompt of 512 tokens takes 1,651,402 cycles together, 742,121 head by head; one of stories260k
with 128 tokens (524,288 bytes) 77,999 and 104,427, because its heads of 8 numbers are slow to load.
"""
ROWS = 128
"""Tokens of a long prompt whose scores are computed together."""
MASKED = -10000.0
"""Added to the scores of positions that a token must not see, as the vendor's converter does."""
OUTPUTS = ("output_states", "k_cache", "v_cache")


@dataclass(frozen=True)
class Rotation:
    """Cosines and sines of the positions of the tokens: [sequences, tokens, 1, d]."""

    cosines: Value
    sines: Value

    def apply(self, graph: Graph, x: Value, name: str) -> Value:
        """Rotate pairs (i, i + d / 2) of the last dimension of [sequences, tokens, heads, d]."""
        axis, size = x.tensor.rank - 1, x.tensor.dims[-1]
        low = graph.part(x, axis, 0, size // 2, f"{name}_low")
        high = graph.part(x, axis, size // 2, size, f"{name}_high")
        turned = graph.mul(graph.concat([high, low], axis, f"{name}_turned"), self.sines, f"{name}_sines")
        return graph.add(graph.mul(x, self.cosines, f"{name}_cosines"), turned, name)


@dataclass(frozen=True)
class Attended:
    """What a block computed: the states behind it, and the keys and values of its tokens: [sequences,
    tokens, n, d].
    """

    states: Value
    keys: Value
    values: Value


@dataclass(frozen=True)
class Block:
    """One block over `tokens` tokens of each of `sequences`, in a graph."""

    graph: Graph
    shape: Shape
    weights: BlockWeights
    tokens: int
    prefix: str = ""
    sequences: int = 1

    def _rotation(self, positions: Value, context: int) -> Rotation | None:
        """Look up the tables of `context` positions by position numbers; None if nothing is rotated."""
        own = self.weights.frequencies
        frequencies = self.shape.frequencies if own is None else own
        if not len(frequencies):
            return None
        tables = rotary_tables(frequencies, context, self.shape.rope_factor)
        found = [
            self.graph.reshape(
                self.graph.rows(table, positions, f"{self.prefix}{name}"),
                (self.sequences, self.tokens, 1, self.shape.head_size),
                f"{self.prefix}{name}_per_token",
            )
            for name, table in zip(("cosines", "sines"), tables, strict=True)
        ]
        return Rotation(*found)

    def attend(
        self,
        x: Value,
        positions: Value,
        mask: Value,
        context: int,
        history: tuple[Value, Value] | None = None,
        name_of_states: str = "",
    ) -> Attended:
        """Append attention and MLP behind states [sequences, tokens, H] at positions [sequences, tokens] out of
        `context`; `mask` is added to scores [sequences, 1, tokens, keys]. `history` are keys and values of the tokens
        before, for one token of each sequence.
        """
        graph, weights, eps, name = self.graph, self.weights, self.shape.norm_eps, self.prefix
        if weights.positions is not None:
            x = graph.add(x, graph.rows(weights.positions[:context], positions, f"{name}places"), f"{name}placed")
        h = graph.norm(x, weights.attention_norm, eps, f"{name}attention_norm")
        # Small matrices first: while their products are computed, the large one loads.
        k = self._heads(graph.linear(h, weights.k, f"{name}k"), self.shape.kv_heads, weights.k_norm, "k")
        v = graph.linear(h, weights.v, f"{name}v")
        rotation = self._rotation(positions, context)
        mask = self._in_window(mask, positions, context)
        q = self._heads(graph.linear(h, weights.q, f"{name}q"), self.shape.heads, weights.q_norm, "q")
        if rotation is not None:
            q = rotation.apply(graph, q, f"{name}q_rotated")
            k = rotation.apply(graph, k, f"{name}k_cache")
        v = graph.reshape(v, (self.sequences, self.tokens, self.shape.kv_heads, self.shape.head_size), f"{name}v_cache")
        attended = graph.linear(self._context(q, k, v, mask, history), weights.o, f"{name}o")
        x = graph.add(x, self._ended(attended, weights.attention_end_norm, "attention_end"), f"{name}attention_states")
        h = graph.norm(x, weights.mlp_norm, eps, f"{name}mlp_norm")
        done = self._ended(graph.linear(self._gated(h), weights.down, f"{name}down"), weights.mlp_end_norm, "mlp_end")
        return Attended(graph.add(x, done, name_of_states or f"{name}output_states"), k, v)

    def _gated(self, h: Value) -> Value:
        """Return what the last product of the MLP reads."""
        graph, weights, name, kind = self.graph, self.weights, self.prefix, self.shape.activation
        if weights.gate is None:
            return graph.activated(graph.linear(h, weights.up, f"{name}up"), kind, f"{name}up_{kind}")
        gate = graph.activated(graph.linear(h, weights.gate, f"{name}gate"), kind, f"{name}gate_{kind}")
        return graph.mul(gate, graph.linear(h, weights.up, f"{name}up"), f"{name}gated")

    def _ended(self, x: Value, factors: Array | None, name: str) -> Value:
        return x if factors is None else self.graph.norm(x, factors, self.shape.norm_eps, f"{self.prefix}{name}_norm")

    def _in_window(self, mask: Value, positions: Value, context: int) -> Value:
        """Mask the tokens that lie the block's window or more before a token."""
        window, keys = self.weights.window, mask.tensor.dims[-1]
        if not window or context <= window:
            return mask
        places = np.arange(keys)
        hidden = np.subtract.outer(np.arange(context), places) >= window
        if keys > context:  # behind a history: the last key is the token itself
            hidden[:, context:] = False
        band = np.where(hidden, np.float32(MASKED), np.float32(0))
        found = self.graph.rows(band, positions, f"{self.prefix}window")
        found = self.graph.reshape(found, mask.tensor.dims, f"{self.prefix}window_mask")
        return self.graph.add(mask, found, f"{self.prefix}mask_in_window")

    def _heads(self, x: Value, count: int, norm: Array | None, name: str) -> Value:
        x = self.graph.reshape(
            x, (self.sequences, self.tokens, count, self.shape.head_size), f"{self.prefix}{name}_heads"
        )
        if norm is None:
            return x
        return self.graph.norm(x, norm, self.shape.norm_eps, f"{self.prefix}{name}_norm")

    def _context(self, q: Value, k: Value, v: Value, mask: Value, history: tuple[Value, Value] | None) -> Value:
        """Attention itself."""
        if history is not None:
            return self._with_history(q, k, v, mask, history)
        if self.shape.heads * self.tokens * k.tensor.dims[1] * SCORE_BYTES > MOST_TOGETHER:
            return self._by_head(q, k, v, mask)
        return self._together(q, k, v, mask)

    def _with_history(self, q: Value, k: Value, v: Value, mask: Value, history: tuple[Value, Value]) -> Value:
        """One token of each sequence behind a history, which is read where it is: only scores are put together."""
        graph, name, shape = self.graph, self.prefix, self.shape
        heads, group, size = shape.kv_heads, shape.group, shape.head_size
        length = history[0].tensor.dims[1]
        q = graph.reshape(q, (self.sequences, heads, group, size), f"{name}q_rows")
        parts = {"history": history, "own": (k, v)}
        by_head = (0, 2, 1, 3)
        scores = [
            graph.product(
                q, graph.permute(one, by_head, f"{name}{part}_keys"), f"{name}{part}_products", transposed=True
            )
            for part, (one, _) in parts.items()
        ]
        joined = graph.scaled(graph.concat(scores, 3, f"{name}products"), shape.score_scale, f"{name}scores")
        joined = graph.capped(joined, shape.score_cap, f"{name}capped")
        shares = graph.softmax(graph.add(joined, mask, f"{name}masked_scores"), f"{name}shares")
        ends = {"history": (0, length), "own": (length, length + 1)}
        sums = [
            graph.product(
                graph.part(shares, 3, *ends[part], f"{name}{part}_shares"),
                graph.permute(one, by_head, f"{name}{part}_values"),
                f"{name}{part}_context",
            )
            for part, (_, one) in parts.items()
        ]
        context = graph.add(sums[0], sums[1], f"{name}context_rows")
        return graph.reshape(context, (self.sequences, 1, shape.heads * size), f"{name}context")

    def _by_head(self, q: Value, k: Value, v: Value, mask: Value) -> Value:
        """One head after another, for some tokens at a time: their scores stay in local memory, and those of later
        tokens are not computed.
        """
        graph, name, shape = self.graph, self.prefix, self.shape
        q = graph.scaled(q, shape.score_scale, f"{name}q_scaled")
        mask = graph.reshape(mask, mask.tensor.dims[1:], f"{name}mask_rows")
        keys = [self._head(k, one, f"{name}keys_{one}") for one in range(shape.kv_heads)]
        values = [self._head(v, one, f"{name}values_{one}") for one in range(shape.kv_heads)]
        queries = [self._head(q, one, f"{name}head_{one}_q") for one in range(shape.heads)]
        parts: list[Value] = []
        for first in range(0, self.tokens, ROWS):
            end = min(first + ROWS, self.tokens)
            rows = f"{name}rows_{first}_"
            seen = graph.part(graph.part(mask, 1, first, end, f"{rows}mask"), 2, 0, end, f"{rows}mask_seen")
            found: list[Value] = []
            for head, query in enumerate(queries):
                own, theirs = f"{rows}head_{head}_", head // shape.group
                query = graph.part(query, 1, first, end, f"{own}q")
                key = graph.part(keys[theirs], 1, 0, end, f"{own}keys")
                value = graph.part(values[theirs], 1, 0, end, f"{own}values")
                scores = graph.product(query, key, f"{own}products", transposed=True)
                scores = graph.capped(scores, shape.score_cap, f"{own}capped")
                shares = graph.softmax(graph.add(scores, seen, f"{own}scores"), f"{own}shares")
                found.append(graph.product(shares, value, f"{own}context"))
            parts.append(graph.concat(found, 2, f"{rows}context"))
        return graph.concat(parts, 1, f"{name}context")

    def _head(self, x: Value, head: int, name: str) -> Value:
        """One head of [1, tokens, heads, d]: [1, tokens, d]."""
        _, tokens, _, size = x.tensor.dims
        return self.graph.reshape(self.graph.part(x, 2, head, head + 1, f"{name}_4d"), (1, tokens, size), name)

    def _together(self, q: Value, k: Value, v: Value, mask: Value) -> Value:
        """All heads at once; the query heads of one key head are rows of one product."""
        graph, name, tokens, shape = self.graph, self.prefix, self.tokens, self.shape
        heads, group, size = shape.kv_heads, shape.group, shape.head_size
        q = graph.reshape(q, (tokens, heads, group, size), f"{name}q_grouped")
        q = graph.permute(q, (1, 2, 0, 3), f"{name}q_by_head")
        mask = graph.concat([mask] * group, 2, f"{name}mask_of_group")
        q = graph.reshape(q, (1, heads, group * tokens, size), f"{name}q_rows")
        scores = graph.product(q, graph.permute(k, (0, 2, 3, 1), f"{name}keys_by_head"), f"{name}products")
        scores = graph.capped(
            graph.scaled(scores, shape.score_scale, f"{name}scores"), shape.score_cap, f"{name}capped"
        )
        scores = graph.add(scores, mask, f"{name}masked_scores")
        shares = graph.softmax(scores, f"{name}shares")
        context = graph.product(shares, graph.permute(v, (0, 2, 1, 3), f"{name}values_by_head"), f"{name}context_rows")
        context = graph.reshape(context, (heads, group, tokens, size), f"{name}context_by_head")
        context = graph.permute(context, (2, 0, 1, 3), f"{name}context_by_token")
        return graph.reshape(context, (1, tokens, shape.heads * size), f"{name}context")


def block_inputs(shape: Shape, tokens: int, history: int, sequences: int = 1) -> Mapping[str, tuple[int, ...]]:
    """Return the inputs of a block network in order; with `history` rows of keys and values of tokens before."""
    keys = history + tokens if history else tokens
    inputs: dict[str, tuple[int, ...]] = {
        "input_states": (sequences, tokens, shape.hidden),
        "position_ids": (sequences, tokens),
        "attention_mask": (sequences, 1, tokens, keys),
    }
    if history:
        past = (sequences, history, shape.kv_heads, shape.head_size)
        inputs |= {"history_k": past, "history_v": past}
    return inputs


def block_network(
    source: str,
    name: str,
    shape: Shape,
    weights: BlockWeights,
    length: int,
    *,
    decode: bool,
    sequences: int = 1,
    last_norm: Factors | None = None,
) -> Module:
    """Build one block: for a prompt of `length` tokens, or to `decode` one token of each sequence behind a history of
    `length`.

    `last_norm`, the norm before the head, belongs to the last block.
    """
    tokens = 1 if decode else length
    graph = Graph(source, name, block_inputs(shape, tokens, length if decode else 0, sequences), OUTPUTS)
    block = Block(graph, shape, weights, tokens, sequences=sequences)
    given = graph.inputs
    history = (given["history_k"], given["history_v"]) if decode else None
    name_of_states = OUTPUTS[0] if last_norm is None else "block_states"
    positions, mask = given["position_ids"], given["attention_mask"]
    done = block.attend(given["input_states"], positions, mask, length, history, name_of_states)
    states = done.states
    if last_norm is not None:
        states = graph.norm(states, last_norm, shape.norm_eps, "last_norm")
    module = graph.module(dict(zip(OUTPUTS, (states, done.keys, done.values), strict=True)))
    if decode:  # programs bind the memory of the history, and that of its row for the outputs
        module.attributes["module.addr_mode"] = StringAttr("io_alone")
    return module


def embedding_network(source: str, name: str, table: Array, ids: tuple[int, int]) -> Module:
    """Build the lookup of token ids of the shape `ids`."""
    graph = Graph(source, name, {"input_ids": ids}, ("input_embeds",))
    return graph.module({"input_embeds": graph.rows(table, graph.inputs["input_ids"], "embedding")})


def head_network(source: str, shape: Shape, head: Linear, sequences: int) -> Module:
    """Build the logits of one token of each sequence."""
    graph = Graph(source, "lm_head", {"hidden_states": (sequences, shape.hidden)}, ("m_logits",))
    logits = graph.linear(graph.inputs["hidden_states"], head, "head")
    return graph.module({"m_logits": graph.capped(logits, shape.logit_cap, "capped_logits")})
