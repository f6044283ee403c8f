"""Expand attention operators of ONNX Runtime (com.microsoft) into products and softmax."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tpuc_onnx.qlinear import cast_to_floats, to_float
from tpuc_onnx.script import Script

_HIDDEN = -10000.0
"""Added to masked scores if the node states no value."""

_NEVER = -3.0e38
"""Added to scores of later positions (causal mask)."""


@dataclass(frozen=True)
class Heads:
    """Names of queries, keys, and values, each `[batch, heads, length, size]`; `total`: number of keys and values."""

    script: Script
    query: str
    key: str
    value: str
    query_shape: tuple[int, ...]
    total: int
    value_size: int

    def attend(self, summands: Sequence[str], is_causal: bool, result: str) -> None:
        """Write scores plus `summands`, softmax, and the weighted values, as `[batch, length, heads * size]`."""
        script, (batch, heads, length, size) = self.script, self.query_shape
        scale = script.node.attributes.get("scale", 0.0) or 1 / math.sqrt(size)
        scores = script("MatMul", self.query, script("Transpose", self.key, perm=[0, 1, 3, 2]))
        scores = script("Mul", scores, script.constant("scale", np.float32(scale)))
        if is_causal:
            later = np.triu(np.full((length, self.total), _NEVER, np.float32), self.total - length + 1)
            summands = [*summands, script.constant("later", later[None, None])]
        for summand in summands:
            scores = script("Add", scores, summand)
        chosen = script("MatMul", script("Softmax", scores, axis=-1), self.value)
        rows = script("Transpose", chosen, perm=[0, 2, 1, 3])
        dims = script.constant("rows", np.array([batch, length, heads * self.value_size]))
        script("Reshape", rows, dims, result=result)


def attention(script: Script) -> None:
    """Expand Attention with one input, whose queries, keys, and values are one product."""
    _attention_of(script, script.node.inputs[0], script.node.inputs[1], 3, 4, 5)


def quantized_attention(script: Script) -> None:
    """Expand QAttention: input and matrix are stored integers."""
    inputs = (*script.node.inputs, *("",) * 9)[:9]
    x = cast_to_floats(script, inputs[0], inputs[3], inputs[6])
    weights = cast_to_floats(script, inputs[1], inputs[4], inputs[7], 1)
    _attention_of(script, x, weights, 5, 8, 9)


def _attention_of(script: Script, x: str, weights: str, mask: int, past: int, bias: int) -> None:
    attributes = script.node.attributes
    if attributes.get("do_rotary", 0) or attributes.get("past_present_share_buffer", 0):
        raise script.refused("do_rotary and past_present_share_buffer are not supported")
    batch, length, _ = script.shape(script.node.inputs[0])
    columns, heads = script.shape(script.node.inputs[1])[1], attributes["num_heads"]
    sizes = list(attributes.get("qkv_hidden_sizes", ()) or (columns // 3,) * 3)
    product = script("MatMul", x, weights)
    if script.has(2):
        product = script("Add", product, script.node.inputs[2])
    split = script.constant("sizes", np.array(sizes, np.int64))
    parts = script.many("Split", product, split, count=3, axis=-1)
    query, key, value = (
        _by_head(script, part, (batch, length, heads, size // heads)) for part, size in zip(parts, sizes, strict=True)
    )
    total, present = length, (*script.node.outputs, "")[1]
    if script.has(past):
        key, value, total = _after(script, past, key, value, length)
    if present:
        front = script.constant("front", [0])
        pair = [script("Unsqueeze", name, front) for name in (key, value)]
        script("Concat", *pair, result=present, axis=0)
    summands = _masks(script, mask, batch, length, total)
    if script.has(bias):
        summands.append(script.node.inputs[bias])
    made = Heads(script, query, key, value, (batch, heads, length, sizes[0] // heads), total, sizes[2] // heads)
    made.attend(summands, bool(attributes.get("unidirectional", 0)), script.node.outputs[0])


def _after(script: Script, past: int, key: str, value: str, length: int) -> tuple[str, str, int]:
    """Append keys and values to those of `past: [2, batch, heads, length, size]`; also return their number."""
    name = script.node.inputs[past]
    ones = script.constant("ones", np.array([1, 1]))
    old = [
        script("Squeeze", part, script.constant("front_axis", [0]))
        for part in script.many("Split", name, ones, count=2, axis=0)
    ]
    joined = [script("Concat", before, now, axis=2) for before, now in zip(old, (key, value), strict=True)]
    return joined[0], joined[1], script.shape(name)[3] + length


def _by_head(script: Script, name: str, dims: tuple[int, int, int, int]) -> str:
    """Rearrange `[batch, length, heads * size]` as `[batch, heads, length, size]`."""
    shape = script.constant(f"{name}_heads", np.array(dims))
    return script("Transpose", script("Reshape", name, shape), perm=[0, 2, 1, 3])


def _masks(script: Script, index: int, batch: int, length: int, total: int) -> list[str]:
    """Return the summand of the scores for a mask with ones for valid keys, or for a list of numbers of valid keys."""
    if not script.has(index):
        return []
    name = script.node.inputs[index]
    shape, low = script.shape(name), script.node.attributes.get("mask_filter_value", _HIDDEN)
    if shape == (batch,):
        places = script.constant("places", np.arange(total, dtype=np.float32)[None])
        column = script("Reshape", to_float(script, name), script.constant("column", np.array([batch, 1])))
        hidden = to_float(script, script("GreaterOrEqual", places, column))
    elif shape in ((batch, total), (batch, length, total)):
        one, positive = script.constant("one", np.float32(1)), script.constant("nothing", np.float32(0))
        counted = to_float(script, script("Greater", to_float(script, name), positive))
        hidden = script("Sub", one, counted)
    else:
        raise script.refused(f"a mask of shape {shape} is not supported; use one number or one row per image")
    dims = (batch, 1, length if len(shape) == 3 else 1, total)
    hidden = script("Reshape", hidden, script.constant("mask_dims", np.array(dims)))
    return [script("Mul", hidden, script.constant("low", np.float32(max(low, _NEVER))))]


def multi_head_attention(script: Script) -> None:
    """Expand attention with three inputs, or one packed input; keys and values may already be split into heads."""
    if script.has(8) or script.has(9) or any(script.node.outputs[3:]):
        raise script.refused("an in-place past, and scores as an output, are not supported")
    parts, shapes = _separate(script)
    for index, past in ((1, 6), (2, 7)):
        if script.has(past):
            parts[index] = script("Concat", script.node.inputs[past], parts[index], axis=2)
            batch, heads, length, size = shapes[index]
            shapes[index] = (batch, heads, script.shape(script.node.inputs[past])[2] + length, size)
        present = (*script.node.outputs, "", "")[index]
        if present:
            script("Identity", parts[index], result=present)
    (batch, _, length, _), (_, _, total, _) = shapes[0], shapes[1]
    summands = _masks(script, 4, batch, length, total)
    if script.has(5):
        summands.append(script.node.inputs[5])
    query, key, value = parts
    made = Heads(script, query, key, value, shapes[0], total, shapes[2][3])
    made.attend(summands, bool(script.node.attributes.get("unidirectional", 0)), script.node.outputs[0])


def _separate(script: Script) -> tuple[list[str], list[tuple[int, int, int, int]]]:
    """Return queries, keys, and values split into heads, with their bias, and their shapes."""
    heads = script.node.attributes["num_heads"]
    given = [script.node.inputs[index] for index in range(3) if script.has(index)]
    ranks = [len(script.shape(name)) for name in given]
    if ranks == [5]:
        parts, dims = _packed(script, given[0], 3)
        shapes = [dims] * 3
    elif ranks == [3, 5]:
        pair, dims = _packed(script, given[1], 2)
        parts, shapes = [given[0], *pair], [_split_shape(script, given[0], heads), dims, dims]
    elif ranks in ([3, 3, 3], [3, 4, 4]):
        parts, shapes = given, [_split_shape(script, name, heads) for name in given]
    else:
        raise script.refused(f"operands of {ranks} dimensions are not supported; use 3 dimensions each, or 5 if packed")
    biases = _biases(script, shapes) if script.has(3) else ["", "", ""]
    done: list[str] = []
    for name, dims, bias in zip(parts, shapes, biases, strict=True):
        if name in given and len(script.shape(name)) == 4:
            if bias:
                raise script.refused("a bias for keys that are already split into heads is not supported")
            done.append(name)
            continue
        batch, count, length, size = dims
        value = script("Add", name, bias) if bias else name
        done.append(_by_head(script, value, (batch, length, count, size)))
    return done, shapes


def _packed(script: Script, name: str, count: int) -> tuple[list[str], tuple[int, int, int, int]]:
    """Return the parts of `[batch, length, heads, count, size]`, each as `[batch, length, heads * size]`."""
    batch, length, heads, _, size = script.shape(name)
    dims = script.constant("part_dims", np.array([batch, length, heads * size]))
    ones = script.constant("part_sizes", np.ones(count, np.int64))
    parts = script.many("Split", name, ones, count=count, axis=3)
    return [script("Reshape", part, dims) for part in parts], (batch, heads, length, size)


def _split_shape(script: Script, name: str, heads: int) -> tuple[int, int, int, int]:
    shape = script.shape(name)
    if len(shape) == 4:
        batch, count, length, size = shape
        return batch, count, length, size
    batch, length, width = shape
    return batch, heads, length, width // heads


def _biases(script: Script, shapes: Sequence[tuple[int, int, int, int]]) -> list[str]:
    sizes = script.constant("bias_sizes", np.array([heads * size for _, heads, _, size in shapes]))
    return script.many("Split", script.node.inputs[3], sizes, count=3, axis=0)


def rotary_embedding(script: Script) -> None:
    """Expand RotaryEmbedding: rotate pairs of numbers by angles that depend on their positions."""
    attributes, dims = script.node.attributes, script.shape(script.node.inputs[0])
    if attributes.get("is_packed_batching", 0):
        raise script.refused("is_packed_batching is not supported")
    cos = script.node.inputs[2]
    half = script.shape(cos)[1]
    in_heads = len(dims) == 4
    if in_heads:
        batch, _, length, _ = dims
        x = script("Transpose", script.node.inputs[0], perm=[0, 2, 1, 3])
        size = dims[3]
    else:
        batch, length, width = dims
        heads = attributes.get("num_heads", 0)
        size = width // heads if heads else 2 * half
        rows = np.array([batch, length, width // size, size])
        x = script("Reshape", script.node.inputs[0], script.constant("rows", rows))
    places = _places(script, batch, length)
    turned = turn(script, x, places, script.node.inputs[2:4], (batch, length, size, half))
    if in_heads:
        script("Transpose", turned, result=script.node.outputs[0], perm=[0, 2, 1, 3])
    else:
        script("Reshape", turned, script.constant("dims", np.array(dims)), result=script.node.outputs[0])


def _places(script: Script, batch: int, length: int) -> str:
    """Return the position of every row: stated individually, or counted from one number."""
    name = script.node.inputs[1]
    if script.shape(name) == (batch, length) and (batch, length) != (1, 1):
        return name
    start = script.required(1, "the first place")
    return script.constant("places", np.broadcast_to(start.reshape(-1)[0] + np.arange(length), (batch, length)))


def turn(script: Script, x: str, places: str, caches: Sequence[str], extents: tuple[int, int, int, int]) -> str:
    """Rotate the first `2 * half` numbers of `x: [batch, length, heads, size]`."""
    batch, length, size, half = extents
    dims = script.constant(f"{x}_angles", np.array([batch, length, 1, half]))
    cos, sin = (script("Reshape", script("Gather", cache, places), dims) for cache in caches)
    rest, used = "", x
    if 2 * half < size:
        sizes = script.constant(f"{x}_used", np.array([2 * half, size - 2 * half]))
        used, rest = script.many("Split", x, sizes, count=2, axis=-1)
    name = "rotary_interleaved" if script.node.op_type == "GroupQueryAttention" else "interleaved"
    is_interleaved = bool(script.node.attributes.get(name, 0))
    left, right = _pairs(script, used, half, is_interleaved)
    first = script("Sub", script("Mul", left, cos), script("Mul", right, sin))
    second = script("Add", script("Mul", left, sin), script("Mul", right, cos))
    both = script("Concat", first, second, axis=-1)
    if is_interleaved:
        order = np.arange(2 * half).reshape(2, half).T.reshape(-1)
        both = script("Gather", both, script.constant(f"{x}_back", order), axis=-1)
    return script("Concat", both, rest, axis=-1) if rest else both


def _pairs(script: Script, x: str, half: int, is_interleaved: bool) -> Sequence[str]:
    if not is_interleaved:
        return script.many("Split", x, count=2, axis=-1, num_outputs=2)
    places = (np.arange(start, 2 * half, 2) for start in range(2))
    return [script("Gather", x, script.constant(f"{x}_every{i}", p), axis=-1) for i, p in enumerate(places)]


def group_query_attention(script: Script) -> None:
    """Expand attention over a whole text, in which several query heads share one key head."""
    attributes = script.node.attributes
    _check_plain(script)
    heads, groups = attributes["num_heads"], attributes["kv_num_heads"]
    batch, length, width = script.shape(script.node.inputs[0])
    if script.has(1):
        size = width // heads
        rows = list(script.node.inputs[:3])
    else:
        size = width // (heads + 2 * groups)
        sizes = script.constant("sizes", np.array([heads * size, groups * size, groups * size]))
        rows = script.many("Split", script.node.inputs[0], sizes, count=3, axis=-1)
    parts = [
        script("Reshape", name, script.constant(f"{name}_split", np.array([batch, length, count, size])))
        for name, count in zip(rows, (heads, groups, groups), strict=True)
    ]
    if attributes.get("do_rotary", 0):
        half = script.shape(script.node.inputs[7])[1]
        places = script.constant("places", np.broadcast_to(np.arange(length), (batch, length)))
        caches, extents = script.node.inputs[7:9], (batch, length, size, half)
        parts[:2] = [turn(script, part, places, caches, extents) for part in parts[:2]]
    query, key, value = (script("Transpose", part, perm=[0, 2, 1, 3]) for part in parts)
    for present, name in zip(script.node.outputs[1:], (key, value), strict=False):
        if present:
            script("Identity", name, result=present)
    order = script.constant("group_of_head", np.array([head // (heads // groups) for head in range(heads)]))
    key, value = (script("Gather", name, order, axis=1) if groups < heads else name for name in (key, value))
    summands = [script.node.inputs[10]] if script.has(10) else []
    made = Heads(script, query, key, value, (batch, heads, length, size), length, size)
    made.attend(summands, bool(attributes.get("causal", 1)), script.node.outputs[0])


def _check_plain(script: Script) -> None:
    """Raise for everything except a whole text without a past."""
    attributes, length = script.node.attributes, script.shape(script.node.inputs[0])[1]
    for index in (3, 4):
        if script.has(index) and 0 not in script.shape(script.node.inputs[index]):
            raise script.refused("past keys and values are not supported; export the network without a KV cache")
    last = script.required(5, "the list of lengths")
    if (last != length - 1).any():
        raise script.refused(f"its lengths minus 1 (seqlens_k) are {last.reshape(-1).tolist()}, not all {length - 1}")
    if any(script.has(index) for index in (9, *range(11, 17))) or any(script.node.outputs[3:]):
        raise script.refused("position ids, sinks, quantized keys, norms and scores as an output are not supported")
    stated = [name for name, plain in _PLAIN.items() if attributes.get(name, plain) != plain]
    if stated:
        raise script.refused(f"{stated[0]} = {attributes[stated[0]]} is not supported")


_PLAIN: Mapping[str, float] = {"local_window_size": -1, "softcap": 0.0, "qk_output": 0}

ATTENTION: Mapping[str, Callable[[Script], bool | None]] = {
    "com.microsoft::Attention": attention,
    "com.microsoft::GroupQueryAttention": group_query_attention,
    "com.microsoft::MultiHeadAttention": multi_head_attention,
    "com.microsoft::QAttention": quantized_attention,
    "com.microsoft::RotaryEmbedding": rotary_embedding,
}
