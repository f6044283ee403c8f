"""One encoder block of BERT-base for several sequence lengths, and ViT-B/16, in ONNX with deterministic random weights.

python benchmarks/transformers.py NAME OUT.onnx [BATCH]
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HIDDEN, HEADS, INNER = 768, 12, 3072
LENGTHS = (64, 100, 128, 192, 197, 256, 384)
VIT_LAYERS, VIT_IMAGE, VIT_PATCH, VIT_CLASSES = 12, 224, 16, 1000
SEED = 7


class Graph:
    """Nodes and weights; products keep their spread."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self._random = np.random.default_rng(SEED)

    def constant(self, name: str, value: np.ndarray) -> str:
        self.weights.append(numpy_helper.from_array(value, name))
        return name

    def random(self, name: str, *shape: int, spread: float) -> str:
        return self.constant(name, self._random.normal(0, spread, shape).astype(np.float32))

    def node(self, kind: str, inputs: list[str], name: str, **attributes: object) -> str:
        self.nodes.append(helper.make_node(kind, inputs, [name], name=name, **attributes))
        return name

    def linear(self, x: str, name: str, source: int, target: int) -> str:
        y = self.node("MatMul", [x, self.random(f"{name}.w", source, target, spread=source**-0.5)], f"{name}.product")
        return self.node("Add", [y, self.random(f"{name}.b", target, spread=0.02)], name)

    def norm(self, x: str, name: str) -> str:
        scale = self.constant(f"{name}.scale", np.ones(HIDDEN, np.float32))
        bias = self.constant(f"{name}.bias", np.zeros(HIDDEN, np.float32))
        return self.node("LayerNormalization", [x, scale, bias], name, axis=-1, epsilon=1e-6)

    def gelu(self, x: str, name: str) -> str:
        """Written out, as exporters do."""
        root, one, half = (
            self.constant(f"{name}.{word}", np.array(value, np.float32))
            for word, value in (("root", 2**0.5), ("one", 1.0), ("half", 0.5))
        )
        erf = self.node("Erf", [self.node("Div", [x, root], f"{name}.div")], f"{name}.erf")
        y = self.node("Mul", [x, self.node("Add", [erf, one], f"{name}.add")], f"{name}.mul")
        return self.node("Mul", [y, half], name)

    def heads(self, x: str, name: str, order: list[int]) -> str:
        shape = self.constant(f"{name}.shape", np.array([0, 0, HEADS, HIDDEN // HEADS], np.int64))
        return self.node("Transpose", [self.node("Reshape", [x, shape], f"{name}.split")], name, perm=order)

    def attention(self, x: str, name: str) -> str:
        q, k, v = (self.linear(x, f"{name}.{part}", HIDDEN, HIDDEN) for part in "qkv")
        scores = self.node(
            "MatMul",
            [self.heads(q, f"{name}.qh", [0, 2, 1, 3]), self.heads(k, f"{name}.kh", [0, 2, 3, 1])],
            f"{name}.scores",
        )
        scale = self.constant(f"{name}.scale", np.array((HIDDEN // HEADS) ** 0.5, np.float32))
        weights = self.node("Softmax", [self.node("Div", [scores, scale], f"{name}.scaled")], f"{name}.soft", axis=-1)
        y = self.node("MatMul", [weights, self.heads(v, f"{name}.vh", [0, 2, 1, 3])], f"{name}.context")
        y = self.node("Transpose", [y], f"{name}.turn", perm=[0, 2, 1, 3])
        shape = self.constant(f"{name}.merged", np.array([0, 0, HIDDEN], np.int64))
        return self.linear(self.node("Reshape", [y, shape], f"{name}.merge"), f"{name}.out", HIDDEN, HIDDEN)

    def mlp(self, x: str, name: str) -> str:
        y = self.gelu(self.linear(x, f"{name}.up", HIDDEN, INNER), f"{name}.gelu")
        return self.linear(y, f"{name}.down", INNER, HIDDEN)

    def model(self, name: str, shape: list[int], output: str, result: list[int]) -> onnx.ModelProto:
        ends = [
            [helper.make_tensor_value_info(key, TensorProto.FLOAT, dims)]
            for key, dims in (("x", shape), (output, result))
        ]
        graph = helper.make_graph(self.nodes, name, ends[0], ends[1], self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
        model.ir_version = 8
        return model


def bert_block(length: int) -> Callable[[int], onnx.ModelProto]:
    """Attention and feed-forward part with norms behind their sums."""

    def build(batch: int = 1) -> onnx.ModelProto:
        graph = Graph()
        y = graph.norm(graph.node("Add", ["x", graph.attention("x", "attention")], "sum1"), "norm1")
        y = graph.norm(graph.node("Add", [y, graph.mlp(y, "mlp")], "sum2"), "norm2")
        return graph.model(f"bert{length}", [batch, length, HIDDEN], y, [batch, length, HIDDEN])

    return build


def vit_b(batch: int = 1) -> onnx.ModelProto:
    """Patches of 16 by 16, a class token, 12 layers with norms in front."""
    graph = Graph()
    fan = 3 * VIT_PATCH**2
    filters = graph.random("patch.w", HIDDEN, 3, VIT_PATCH, VIT_PATCH, spread=fan**-0.5)
    y = graph.node(
        "Conv", ["x", filters, graph.random("patch.b", HIDDEN, spread=0.02)], "patch",
        kernel_shape=[VIT_PATCH] * 2, strides=[VIT_PATCH] * 2,
    )  # fmt: skip
    patches = (VIT_IMAGE // VIT_PATCH) ** 2
    y = graph.node("Reshape", [y, graph.constant("flat", np.array([0, HIDDEN, patches], np.int64))], "rows")
    y = graph.node("Transpose", [y], "tokens", perm=[0, 2, 1])
    y = graph.node("Concat", [graph.random("class", batch, 1, HIDDEN, spread=0.02), y], "all", axis=1)
    y = graph.node("Add", [y, graph.random("position", 1, patches + 1, HIDDEN, spread=0.02)], "placed")
    for layer in range(VIT_LAYERS):
        name = f"layer{layer}"
        a = graph.attention(graph.norm(y, f"{name}.norm1"), f"{name}.attention")
        y = graph.node("Add", [y, a], f"{name}.sum1")
        y = graph.node("Add", [y, graph.mlp(graph.norm(y, f"{name}.norm2"), f"{name}.mlp")], f"{name}.sum2")
    y = graph.node("Gather", [graph.norm(y, "norm"), graph.constant("first", np.array(0, np.int64))], "token", axis=1)
    y = graph.linear(y, "classes", HIDDEN, VIT_CLASSES)
    return graph.model("vit_b", [batch, 3, VIT_IMAGE, VIT_IMAGE], y, [batch, VIT_CLASSES])


TRANSFORMERS: dict[str, Callable[[int], onnx.ModelProto]] = {
    **{f"bert{length}": bert_block(length) for length in LENGTHS},
    "vit_b": vit_b,
}


if __name__ == "__main__":
    Path(sys.argv[2]).write_bytes(
        TRANSFORMERS[sys.argv[1]](int(sys.argv[3]) if len(sys.argv) > 3 else 1).SerializeToString()
    )
