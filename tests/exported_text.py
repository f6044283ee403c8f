"""Small text networks with random weights, drawn node by node as torch.onnx writes them: dynamic lengths, chains of
Shape, Gather, Unsqueeze and Concat before each Reshape, masks by Equal, Where and Expand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

Array = NDArray[Any]
VOCABULARY, LENGTH, HIDDEN, HEADS, INNER, LAYERS, EOS = 600, 12, 32, 4, 64, 2, 599
HEAD = HIDDEN // HEADS
LOWEST = float(np.finfo(np.float32).min)
DIMS = {"batch": 1, "sequence": LENGTH, "past": 4, "frames": 10}
"""What the symbols of the networks stand for in tests."""


class Export:
    """The nodes and weights of a network."""

    def __init__(self, opset: int = 14) -> None:
        self.opset = opset
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.inputs: dict[str, tuple[int, Sequence[int | str]]] = {}
        self.random = np.random.default_rng(7)

    def ids(self, name: str, *dims: int | str) -> str:
        """An input of int64."""
        self.inputs[name] = TensorProto.INT64, dims
        return name

    def numbers(self, name: str, *dims: int | str) -> str:
        """An input of floats."""
        self.inputs[name] = TensorProto.FLOAT, dims
        return name

    def op(self, kind: str, *inputs: str, outputs: int = 1, **attributes: object) -> str:
        """A node; gives the name of its first result."""
        names = [f"/{kind}_{len(self.nodes)}_output_{index}" for index in range(outputs)]
        self.nodes.append(helper.make_node(kind, inputs, names, name=f"/{kind}_{len(self.nodes)}", **attributes))
        return names[0]

    def weight(self, *dims: int, spread: float | None = None, near: float = 0.0) -> str:
        """Random numbers; products keep their spread."""
        spread = dims[0] ** -0.5 if spread is None else spread
        return self.initializer(near + self.random.normal(0, spread, dims).astype(np.float32))

    def initializer(self, array: Array) -> str:
        name = f"onnx::{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def constant(self, value: Any, kind: Any = np.float32) -> str:
        """A Constant node, as for each number in Python code."""
        return self.op("Constant", value=numpy_helper.from_array(np.asarray(value, kind)))

    def whole(self, *values: int) -> str:
        return self.constant(values, np.int64)

    def size(self, x: str, axis: int) -> str:
        """A scalar."""
        return self.op("Gather", self.op("Shape", x), self.constant(axis, np.int64), axis=0)

    def shape(self, *parts: str | int) -> str:
        """A shape of sizes and numbers."""
        rows = [
            self.whole(part) if isinstance(part, int) else self.op("Unsqueeze", part, self.whole(0)) for part in parts
        ]
        return self.op("Concat", *rows, axis=0)

    def expand(self, x: str, *parts: str | int) -> str:
        """To a shape in which -1 stands for the extent that is there."""
        shape = self.shape(*parts)
        one = helper.make_tensor("value", TensorProto.INT64, [1], [1])
        ones = self.op("ConstantOfShape", self.op("Shape", shape), value=one)
        is_kept = self.op("Equal", shape, self.op("Mul", ones, self.constant(-1, np.int64)))
        return self.op("Expand", x, self.op("Where", is_kept, ones, shape))

    def cast(self, x: str, to: int) -> str:
        return self.op("Cast", x, to=to)

    def unsqueeze(self, x: str, *axes: int) -> str:
        for axis in axes:
            x = self.op("Unsqueeze", x, self.whole(axis))
        return x

    def slice(self, x: str, axis: int, start: int, end: int | str) -> str:
        stop = self.whole(end) if isinstance(end, int) else self.op("Unsqueeze", end, self.whole(0))
        return self.op("Slice", x, self.whole(start), stop, self.whole(axis), self.whole(1))

    def linear(self, x: str, source: int, target: int, *, bias: bool = True) -> str:
        y = self.op("MatMul", x, self.weight(source, target))
        return self.op("Add", self.weight(target, spread=0.1), y) if bias else y

    def layer_norm(self, x: str) -> str:
        scale, bias = self.weight(HIDDEN, spread=0.1, near=1.0), self.weight(HIDDEN, spread=0.1)
        if self.opset >= 17:
            return self.op("LayerNormalization", x, scale, bias, axis=-1, epsilon=1e-5)
        centered = self.op("Sub", x, self.mean(x))
        square = self.mean(self.op("Pow", centered, self.constant(2.0)))
        root = self.op("Sqrt", self.op("Add", square, self.constant(1e-5)))
        return self.op("Add", self.op("Mul", self.op("Div", centered, root), scale), bias)

    def mean(self, x: str) -> str:
        if self.opset >= 18:
            return self.op("ReduceMean", x, self.whole(-1), keepdims=1)
        return self.op("ReduceMean", x, axes=[-1], keepdims=1)

    def rms_norm(self, x: str) -> str:
        square = self.mean(self.op("Pow", x, self.constant(2.0)))
        root = self.op("Sqrt", self.op("Add", square, self.constant(1e-6)))
        normal = self.op("Mul", x, self.op("Div", self.constant(1.0), root))
        return self.op("Mul", self.weight(HIDDEN, spread=0.1, near=1.0), normal)

    def gelu(self, x: str) -> str:
        erf = self.op("Erf", self.op("Div", x, self.constant(2**0.5)))
        y = self.op("Mul", x, self.op("Add", erf, self.constant(1.0)))
        return self.op("Mul", y, self.constant(0.5))

    def quick_gelu(self, x: str) -> str:
        return self.op("Mul", x, self.op("Sigmoid", self.op("Mul", x, self.constant(1.702))))

    def silu(self, x: str) -> str:
        return self.op("Mul", x, self.op("Sigmoid", x))

    def heads(self, x: str, heads: int = HEADS) -> str:
        shape = self.shape(self.size(x, 0), self.size(x, 1), heads, HEAD)
        return self.op("Transpose", self.op("Reshape", x, shape), perm=[0, 2, 1, 3])

    def attend(
        self, q: str, k: str, v: str, mask: Callable[[str], str] | None = None, *, scale: bool = True, bias: bool = True
    ) -> str:
        """The rest of attention by heads."""
        scores = self.op("MatMul", q, self.op("Transpose", k, perm=[0, 1, 3, 2]))
        if scale:
            scores = self.op("Div", scores, self.constant(HEAD**0.5))
        shares = self.op("Softmax", mask(scores) if mask else scores, axis=-1)
        y = self.op("Transpose", self.op("MatMul", shares, v), perm=[0, 2, 1, 3])
        y = self.op("Reshape", y, self.shape(self.size(y, 0), self.size(y, 1), HIDDEN))
        return self.linear(y, HIDDEN, HIDDEN, bias=bias)

    def attention(self, x: str, mask: Callable[[str], str] | None, source: str = "", **options: bool) -> str:
        """Of x to itself or to another source."""
        bias = options.get("bias", True)
        made = [self.heads(self.linear(one, HIDDEN, HIDDEN, bias=bias)) for one in (x, source or x, source or x)]
        return self.attend(made[0], made[1], made[2], mask, **options)

    def mlp(self, x: str, gate: Callable[[str], str]) -> str:
        return self.linear(gate(self.linear(x, HIDDEN, INNER)), INNER, HIDDEN)

    def added(self, *parts: str) -> Callable[[str], str]:
        """A mask that is added to the scores."""

        def add(scores: str) -> str:
            for part in parts:
                scores = self.op("Add", scores, part)
            return scores

        return add

    def masked(self, mask: str, lowest: float = LOWEST) -> str:
        """A mask of 1 and 0 as what is added to scores."""
        wide = self.cast(self.unsqueeze(mask, 1, 2), TensorProto.FLOAT)
        return self.op("Mul", self.op("Sub", self.constant(1.0), wide), self.constant(lowest))

    def causal(self, length: str) -> str:
        """A triangle of the lowest number, made of its length."""
        full = self.op(
            "ConstantOfShape",
            self.shape(length, length),
            value=helper.make_tensor("value", TensorProto.FLOAT, [1], [LOWEST]),
        )
        return self.unsqueeze(self.op("Trilu", full, self.constant(1, np.int64), upper=1), 0, 1)

    def positions(self, ids: str, most: int = 64) -> str:
        """Rows of a table of positions, chosen by a slice of a constant."""
        numbers = self.initializer(np.arange(most)[None])
        return self.op("Gather", self.weight(most, HIDDEN, spread=0.5), self.slice(numbers, 1, 0, self.size(ids, 1)))

    def save(self, path: Path, outputs: Mapping[str, str]) -> Path:
        """With results under these names."""
        for name, value in outputs.items():
            self.nodes.append(helper.make_node("Identity", [value], [name]))
        graph = helper.make_graph(
            self.nodes,
            "main_graph",
            [helper.make_tensor_value_info(name, kind, dims) for name, (kind, dims) in self.inputs.items()],
            [onnx.ValueInfoProto(name=name) for name in outputs],
            self.weights,
        )
        opsets = [helper.make_opsetid("", self.opset)]
        onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
        return path


def bert(path: Path, *, opset: int = 14, pooled: str = "pooler", roberta: bool = False) -> Path:
    """BERT with its pooler; MiniLM with the mean over words; RoBERTa with positions that are counted."""
    g = Export(opset)
    ids = g.ids("input_ids", "batch", "sequence")
    mask = g.ids("attention_mask", "batch", "sequence")
    words = g.op("Gather", g.weight(VOCABULARY, HIDDEN, spread=0.5), ids)
    if roberta:
        there = g.cast(g.op("Not", g.op("Equal", ids, g.constant(1, np.int64))), TensorProto.INT32)
        counted = g.op("Mul", g.op("CumSum", there, g.constant(1, np.int64)), there)
        places = g.op("Add", g.cast(counted, TensorProto.INT64), g.constant(1, np.int64))
        x = g.op("Add", words, g.op("Gather", g.weight(300, HIDDEN, spread=0.5), places))
        kinds = g.op("GatherElements", g.initializer(np.arange(300)[None] % 2), places, axis=1)
        x = g.op("Add", x, g.op("Gather", g.weight(2, HIDDEN, spread=0.5), kinds))
    else:
        types = g.ids("token_type_ids", "batch", "sequence")
        x = g.op("Add", words, g.op("Gather", g.weight(2, HIDDEN, spread=0.5), types))
        x = g.op("Add", x, g.positions(ids))
    x = g.layer_norm(x)
    added = g.added(g.masked(mask))
    for _ in range(LAYERS):
        x = g.layer_norm(g.op("Add", g.attention(x, added), x))
        x = g.layer_norm(g.op("Add", g.mlp(x, g.gelu), x))
    if pooled == "pooler":
        first = g.op("Gather", x, g.constant(0, np.int64), axis=1)
        return g.save(path, {"last_hidden_state": x, "pooler_output": g.op("Tanh", g.linear(first, HIDDEN, HIDDEN))})
    wide = g.op("Expand", g.unsqueeze(mask, -1), g.op("Shape", x))
    wide = g.cast(wide, TensorProto.FLOAT)
    total = g.op("ReduceSum", g.op("Mul", x, wide), g.whole(1), keepdims=0)
    count = g.op("Clip", g.op("ReduceSum", wide, g.whole(1), keepdims=0), g.constant(1e-9))
    mean = g.op("Div", total, count)
    length = g.op("Clip", g.op("ReduceL2", mean, axes=[1], keepdims=1), g.constant(1e-12))
    return g.save(path, {"sentence_embedding": g.op("Div", mean, g.op("Expand", length, g.op("Shape", mean)))})


def distilbert(path: Path) -> Path:
    """Scores of padding are replaced, not added to."""
    g = Export(14)
    ids, mask = g.ids("input_ids", "batch", "sequence"), g.ids("attention_mask", "batch", "sequence")
    x = g.layer_norm(g.op("Add", g.op("Gather", g.weight(VOCABULARY, HIDDEN, spread=0.5), ids), g.positions(ids)))

    def fill(scores: str) -> str:
        empty = g.op("Equal", mask, g.constant(0.0, np.int64))
        shape = g.shape(g.size(ids, 0), 1, 1, g.size(ids, 1))
        wide = g.op("Expand", g.op("Reshape", empty, shape), g.op("Shape", scores))
        return g.op("Where", g.cast(wide, TensorProto.BOOL), g.constant(LOWEST), scores)

    for _ in range(LAYERS):
        x = g.layer_norm(g.op("Add", g.attention(x, fill), x))
        x = g.layer_norm(g.op("Add", g.mlp(x, g.gelu), x))
    return g.save(path, {"last_hidden_state": x})


def clip_text(path: Path, *, pick: str = "largest", opset: int = 16) -> Path:
    """The word at the end is chosen by the largest token number, or by the number of the end itself."""
    g = Export(opset)
    ids = g.ids("input_ids", "batch", "sequence")
    flat = g.op("Reshape", ids, g.shape(-1, g.size(ids, 1)))
    x = g.op("Add", g.op("Gather", g.weight(VOCABULARY, HIDDEN, spread=0.5), flat), g.positions(flat))
    added = g.added(g.causal(g.size(flat, 1)))
    for _ in range(LAYERS):
        x = g.op("Add", x, g.attention(g.layer_norm(x), added))
        x = g.op("Add", x, g.mlp(g.layer_norm(x), g.quick_gelu))
    x = g.layer_norm(x)
    numbers = g.cast(ids, TensorProto.INT32)
    if pick == "equal":
        numbers = g.cast(g.op("Equal", numbers, g.constant(EOS, np.int32)), TensorProto.INT32)
    place = g.op("ArgMax", numbers, axis=-1, keepdims=0)
    batch = g.op("Range", g.constant(0, np.int64), g.size(x, 0), g.constant(1, np.int64))
    pair = g.op("Concat", g.unsqueeze(batch, -1), g.unsqueeze(place, -1), axis=-1)
    end = g.op("GatherND", x, pair)
    return g.save(path, {"text_embeds": g.linear(end, HIDDEN, HIDDEN, bias=False), "last_hidden_state": x})


def t5_encoder(path: Path, *, gated: bool = False) -> Path:
    """A bias by buckets of distances, computed from the length, and no scale of the scores."""
    g = Export(13)
    ids, mask = g.ids("input_ids", "batch", "sequence"), g.ids("attention_mask", "batch", "sequence")
    x = g.op("Gather", g.weight(VOCABULARY, HIDDEN, spread=0.5), ids)
    length = g.size(x, 1)
    row = g.op("Range", g.constant(0, np.int64), length, g.constant(1, np.int64))
    distance = g.op("Sub", g.unsqueeze(row, 0), g.unsqueeze(row, 1))
    ahead = g.op("Mul", g.cast(g.op("Greater", distance, g.constant(0, np.int64)), 7), g.constant(16, np.int64))
    far = g.op("Abs", distance)
    near = g.op("Less", far, g.constant(8, np.int64))
    log = g.op("Log", g.op("Div", g.cast(far, TensorProto.FLOAT), g.constant(8.0)))
    log = g.op("Mul", g.op("Div", log, g.constant(float(np.log(16)))), g.constant(8.0))
    large = g.op("Add", g.cast(log, 7), g.constant(8, np.int64))
    most = g.op("ConstantOfShape", g.op("Shape", large), value=helper.make_tensor("value", 7, [1], [15]))
    bucket = g.op("Add", ahead, g.op("Where", near, far, g.op("Min", large, most)))
    bias = g.op("Gather", g.weight(32, HEADS, spread=0.5), bucket)
    bias = g.op("Unsqueeze", g.op("Transpose", bias, perm=[2, 0, 1]), g.whole(0))
    bias = g.op("Add", bias, g.masked(mask))
    for _ in range(LAYERS):
        x = g.op("Add", x, g.attention(g.rms_norm(x), g.added(bias), scale=False, bias=False))
        y = g.rms_norm(x)
        up = g.linear(y, HIDDEN, INNER, bias=False)
        inner = g.op("Mul", g.gelu(up), g.linear(y, HIDDEN, INNER, bias=False)) if gated else g.op("Relu", up)
        x = g.op("Add", x, g.linear(inner, INNER, HIDDEN, bias=False))
    return g.save(path, {"last_hidden_state": g.rms_norm(x)})


def whisper_decoder(path: Path) -> Path:
    """Words attend to those before them and to the audio; the table of words is read as rows and as a matrix."""
    g = Export(17)
    ids = g.ids("input_ids", "batch", "sequence")
    audio = g.numbers("encoder_hidden_states", "batch", "frames", HIDDEN)
    table = g.weight(VOCABULARY, HIDDEN, spread=0.3)
    flat = g.op("Reshape", ids, g.shape(-1, g.size(ids, 1)))
    x = g.op("Gather", table, flat)
    x = g.op("Add", x, g.slice(g.weight(64, HIDDEN, spread=0.3), 0, 0, g.size(ids, 1)))
    added = g.added(g.causal(g.size(ids, 1)))
    for _ in range(LAYERS):
        x = g.op("Add", x, g.attention(g.layer_norm(x), added))
        x = g.op("Add", x, g.attention(g.layer_norm(x), None, audio))
        x = g.op("Add", x, g.mlp(g.layer_norm(x), g.gelu))
    return g.save(path, {"logits": g.op("MatMul", g.layer_norm(x), g.op("Transpose", table, perm=[1, 0]))})


def llama(path: Path, *, past: bool = False) -> Path:
    """Rotary positions that are an input, fewer heads of keys than of queries, a mask of positions and padding; with
    `past`, keys and values of earlier words are inputs and outputs.
    """
    g = Export(14)
    ids, whole = g.ids("input_ids", "batch", "sequence"), "total" if past else "sequence"
    mask, places = g.ids("attention_mask", "batch", whole), g.ids("position_ids", "batch", "sequence")
    x = g.op("Gather", g.weight(VOCABULARY, HIDDEN, spread=0.5), ids)
    speeds = g.initializer((1e4 ** (-np.arange(0, HEAD, 2) / HEAD)).astype(np.float32)[None, :, None])
    wide = g.expand(speeds, g.size(places, 0), -1, 1)
    angles = g.op("MatMul", wide, g.cast(g.unsqueeze(places, 1), TensorProto.FLOAT))
    angles = g.op("Transpose", angles, perm=[0, 2, 1])
    angles = g.op("Concat", angles, angles, axis=-1)
    cosine, sine = (g.op("Unsqueeze", g.op(kind, angles), g.whole(1)) for kind in ("Cos", "Sin"))
    there = g.op("Range", g.constant(0, np.int64), g.size(mask, 1), g.constant(1, np.int64))
    later = g.op("Greater", g.unsqueeze(there, 0, 0), g.unsqueeze(places, -1))
    triangle = g.op("Where", later, g.constant(LOWEST), g.constant(0.0))
    triangle = g.unsqueeze(triangle, 1)
    padding = g.op("Equal", g.unsqueeze(mask, 1, 2), g.constant(0, np.int64))
    bias = g.op("Where", g.op("Expand", padding, g.op("Shape", triangle)), g.constant(LOWEST), triangle)

    def rotate(y: str) -> str:
        half = g.op("Neg", g.slice(y, 3, HEAD // 2, 2**63 - 1))
        turned = g.op("Concat", half, g.slice(y, 3, 0, HEAD // 2), axis=-1)
        return g.op("Add", g.op("Mul", y, cosine), g.op("Mul", turned, sine))

    def repeat(y: str) -> str:
        shape = g.size(y, 0), HEADS // 2, 2, g.size(y, 2), HEAD
        joined = g.shape(g.size(y, 0), HEADS, g.size(y, 2), HEAD)
        return g.op("Reshape", g.expand(g.op("Unsqueeze", y, g.whole(2)), *shape), joined)

    results: dict[str, str] = {}
    for layer in range(LAYERS):
        y = g.rms_norm(x)
        q = rotate(g.heads(g.linear(y, HIDDEN, HIDDEN, bias=False)))
        k, v = (g.heads(g.linear(y, HIDDEN, HIDDEN // 2, bias=False), HEADS // 2) for _ in range(2))
        k = rotate(k)
        if past:
            names = [f"past_key_values.{layer}.{word}" for word in ("key", "value")]
            old = [g.numbers(name, "batch", HEADS // 2, "past", HEAD) for name in names]
            k, v = (g.op("Concat", before, now, axis=2) for before, now in zip(old, (k, v), strict=True))
            results |= {f"present.{layer}.key": k, f"present.{layer}.value": v}
        y = g.attend(q, repeat(k), repeat(v), g.added(bias), bias=False)
        x = g.op("Add", x, y)
        y = g.rms_norm(x)
        up, gate = (g.linear(y, HIDDEN, INNER, bias=False) for _ in range(2))
        x = g.op("Add", x, g.linear(g.op("Mul", g.silu(gate), up), INNER, HIDDEN, bias=False))
    return g.save(path, {"logits": g.linear(g.rms_norm(x), HIDDEN, VOCABULARY, bias=False), **results})


@dataclass(frozen=True)
class TextNetwork:
    """How one is written, and what its symbols stand for."""

    write: Callable[[Path], Path]
    dims: Mapping[str, int]

    def fed(self, path: Path, seed: int = 0) -> dict[str, Array]:
        """One sentence: words, the end, padding."""
        random, feed = np.random.default_rng(seed), dict[str, Array]()
        words = int(random.integers(LENGTH // 2, LENGTH + 1))
        words = min(words, self.dims["sequence"])
        for one in onnx.load(path, load_external_data=False).graph.input:
            dims = [self.dims[d.dim_param] if d.dim_param else d.dim_value for d in one.type.tensor_type.shape.dim]
            feed[one.name] = _sample(one.name, dims, words, random, self.dims.get("past", 0))
        return feed


def _sample(name: str, dims: Sequence[int], words: int, random: np.random.Generator, past: int) -> Array:
    if name == "input_ids":
        ids = np.full(dims, 1, np.int64)
        ids[:, :words] = random.integers(2, EOS, (dims[0], words))
        ids[:, words - 1] = EOS
        return ids
    if name == "attention_mask":
        return (np.arange(dims[1]) < words + past).astype(np.int64)[None].repeat(dims[0], 0)
    if name == "token_type_ids":
        return (np.arange(dims[1]) > words // 2).astype(np.int64)[None].repeat(dims[0], 0)
    if name == "position_ids":
        return past + np.arange(dims[1], dtype=np.int64)[None].repeat(dims[0], 0)
    return random.normal(size=dims).astype(np.float32)


_PLAIN = {"batch": 1, "sequence": LENGTH}
TEXT: Mapping[str, TextNetwork] = {
    "bert": TextNetwork(bert, _PLAIN),
    "bert 17": TextNetwork(partial(bert, opset=17), _PLAIN),
    "minilm": TextNetwork(partial(bert, pooled="mean"), _PLAIN),
    "roberta": TextNetwork(partial(bert, roberta=True), _PLAIN),
    "distilbert": TextNetwork(distilbert, _PLAIN),
    "clip largest": TextNetwork(clip_text, _PLAIN),
    "clip equal": TextNetwork(partial(clip_text, pick="equal", opset=18), _PLAIN),
    "t5": TextNetwork(t5_encoder, _PLAIN),
    "t5 gated": TextNetwork(partial(t5_encoder, gated=True), _PLAIN),
    "whisper": TextNetwork(whisper_decoder, {**_PLAIN, "frames": 10}),
    "llama": TextNetwork(llama, _PLAIN),
    "llama past": TextNetwork(partial(llama, past=True), {"batch": 1, "sequence": 1, "past": 15, "total": 16}),
}
