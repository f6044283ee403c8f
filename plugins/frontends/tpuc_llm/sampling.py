"""Networks that choose the next token from logits, with the names, inputs and outputs of the vendor's programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from tpuc.api import Module, StringAttr, Value
from tpuc_ops import top

from tpuc_llm.graphs import Graph

GREEDY, SAMPLE = "greedy_head", "sample_head"
MOST_CHOSEN = 50
"""Tokens that `sample_head` draws from, as in the vendor's files."""
_REFUSED = -1e4
"""Added to the scaled logits of tokens beyond the `top_k` likeliest ones."""


class Choice(Graph):
    """A network that orders each row of numbers [sequences, n] and chooses among them."""

    def likeliest(self, x: Value, name: str) -> Value:
        """Return the place of the largest number: [sequences, 1]."""
        return self._builder.build(top.Arg(axis=1), [x], name)

    def largest(self, x: Value, count: int, names: Sequence[str]) -> Sequence[Value]:
        """Return the largest numbers, largest first, and their places: [sequences, count] each."""
        return self._builder.build_all(top.TopK(axis=1, K=count), [x], names)

    def elements(self, x: Value, places: Value, name: str) -> Value:
        return self._builder.build(top.GatherElements(axis=1), [x, places], name)

    def replaced(self, x: Value, places: Value, numbers: Value, name: str) -> Value:
        """Return x with other numbers at some places."""
        return self._builder.build(top.ScatterElements(axis=1), [x, places, numbers], name)

    def where_negative(self, x: Value, then: Value, otherwise: Value, name: str) -> Value:
        negative = self._builder.build(top.CompareConst(mode="Less", const_val=0.0), [x], f"{name}_where")
        return self._builder.build(top.Where(), [negative, then, otherwise], name)

    def compared(self, mode: str, left: Value, right: Value, name: str) -> Value:
        """Return 1 where the comparison holds, else 0."""
        return self._builder.build(top.Compare(mode=mode), [left, right], name)

    def div(self, left: Value, right: Value, name: str) -> Value:
        return self._builder.build(top.Div(), [left, right], name)

    def sums_before(self, x: Value, name: str) -> Value:
        """Return the sum of all numbers before each one."""
        return self._builder.build(top.CumSum(axis=1, exclusive=True), [x], name)

    def total(self, x: Value, name: str) -> Value:
        return self._builder.build(top.Reduce(axes=(1,), mode="ReduceSum"), [x], name)


def greedy_network(source: str, logits: tuple[int, int]) -> Module:
    """Build the likeliest token of logits [sequences, vocabulary]: token_id [sequences, 1]. Of equal ones the first."""
    graph = Choice(source, GREEDY, {"m_logits": logits}, ("token_id",))
    return _io_alone(graph.module({"token_id": graph.likeliest(graph.inputs["m_logits"], "token_id")}))


def sample_inputs(logits: tuple[int, int], length: int) -> Mapping[str, tuple[int, ...]]:
    """Return the inputs of `sample_network` in order."""
    numbers = dict.fromkeys(("penalty", "temperature", "top_k", "top_p"), (logits[0], 1))
    return {"m_logits": logits, "input_ids": (logits[0], length), **numbers}


def sample_network(source: str, logits: tuple[int, int], length: int, count: int = MOST_CHOSEN) -> Module:
    """Build probabilities of the `count` likeliest tokens of logits [sequences, vocabulary], and their ids, likeliest
    first: [sequences, count].

    Logits of the tokens in `input_ids` [sequences, length] are divided by `penalty`, negative ones multiplied, however
    often a token occurs; an unfilled window repeats one of its tokens. Then come `temperature`, the `top_k` likeliest
    tokens, and of these the fewest that reach the share `top_p` together, at least one. The others have probability 0.
    """
    graph = Choice(source, SAMPLE, sample_inputs(logits, length), ("probs", "token"))
    given, count = graph.inputs, min(count, logits[1])
    before, ids, penalty = given["m_logits"], given["input_ids"], given["penalty"]
    seen = graph.elements(before, ids, "seen")
    lowered = graph.where_negative(
        seen, graph.mul(seen, penalty, "seen_below"), graph.div(seen, penalty, "seen_above"), "seen_penalized"
    )
    best, places = graph.largest(graph.replaced(before, ids, lowered, "penalized"), count, ("best", "token"))
    scaled = graph.div(best, given["temperature"], "scaled")
    numbers = graph.weight("ranks", np.arange(count, dtype=np.float32).reshape(1, count))
    late = graph.compared("GreaterOrEqual", numbers, given["top_k"], "late")
    shares = graph.softmax(graph.add(scaled, graph.scaled(late, _REFUSED, "late_refused"), "allowed"), "shares")
    reached = graph.sums_before(shares, "share_before")
    kept = graph.mul(shares, graph.compared("Less", reached, given["top_p"], "is_kept"), "kept_shares")
    shares = graph.div(kept, graph.total(kept, "kept_share"), "probs")
    return _io_alone(graph.module({"probs": shares, "token": places}))


def _io_alone(module: Module) -> Module:
    """Programs bind the memory of the logits."""
    module.attributes["module.addr_mode"] = StringAttr("io_alone")
    return module
