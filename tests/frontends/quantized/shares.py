"""Stated softmaxes by random choice of shapes, axes, ranges and types: each between casts, with an op behind it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx

from tests.frontends.quantized.clipping import Array, Graph, runtime

_SHAPES = (
    (2, 12),
    (2, 5, 6),
    (1, 4, 5, 6),
    (2, 6, 4, 4),
    (1, 2, 3, 4, 3),
    (1, 3, 17, 17),
    (4, 100),
    (1, 700),
    (3, 32, 33),
)
_LEAST = 1e-3


@dataclass(frozen=True)
class Shares:
    """The network, its arrays, and the scale of every output."""

    model: onnx.ModelProto
    inputs: dict[str, Array]
    steps: dict[str, float]

    def wanted(self) -> dict[str, Array]:
        """What ONNX Runtime computes in floats between the casts."""
        return runtime(self.model, self.inputs)


def draw_shares(seed: int, count: int, op: str = "Softmax") -> Shares:
    """So many networks in one. What is larger in magnitude than a step of the stated type stays in it: clipping of
    either end, symmetric types and whole ranges take turns.
    """
    rng, graph = np.random.default_rng(seed), Graph()
    inputs, steps, dims = dict[str, Array](), dict[str, float](), dict[str, tuple[int, ...]]()
    for index in range(count):
        shape = _SHAPES[int(rng.integers(len(_SHAPES)))]
        axis = int(rng.integers(1, len(shape)))
        spread = np.exp(rng.uniform(-2, 3.5))
        x = rng.normal(rng.uniform(-1, 1), spread, shape).astype(np.float32)
        kind, is_symmetric = np.dtype(str(rng.choice(["uint8", "int8"]))), bool(rng.random() < 0.3)
        read, _ = _stored(graph, f"x{index}", x, _range(rng, x), kind, is_symmetric)
        exponentials = np.exp(x - x.max(axis, keepdims=True))
        share = exponentials / exponentials.sum(axis, keepdims=True)
        values = np.log(share + np.float32(1e-30)) if op == "LogSoftmax" else share
        low, high = _range(rng, values)
        limits = (low, high) if op == "LogSoftmax" else (0.0, 255 / 256 if rng.random() < 0.3 else high)
        made = graph.do(op, [read], f"y{index}", axis=axis)
        read, step = _stored(graph, made, values, limits, kind, is_symmetric)
        behind = graph.do("Abs", [read], f"z{index}")
        scale, zero = graph.constant(f"z{index}_scale", np.float32(step)), graph.constant(f"z{index}_zero", np.uint8(0))
        whole = graph.do("QuantizeLinear", [behind, scale, zero], f"z{index}_q")
        name = graph.do("DequantizeLinear", [whole, scale, zero], f"o{index}")
        inputs[f"x{index}"], steps[name], dims[name] = x, step, shape
    return Shares(graph.model({name: x.shape for name, x in inputs.items()}, dims), inputs, steps)


def _range(rng: np.random.Generator, values: Array) -> tuple[float, float]:
    """The range of the values, or what percentile calibration leaves of it."""
    low, high = np.quantile(values, [rng.choice([0, 0.05]), 1 - rng.choice([0, 0.05])])
    return float(low), float(high)


def _stored(
    graph: Graph, name: str, values: Array, limits: tuple[float, float], kind: np.dtype[np.generic], is_symmetric: bool
) -> tuple[str, float]:
    low, high = min(limits[0], 0.0), max(limits[1], 0.0)
    if is_symmetric:
        high = max(-low, high, _LEAST)
        low = -high
    scale = np.float32(max(high - low, _LEAST) / 255)
    bounds = np.iinfo(kind.name)
    zero = np.rint(bounds.min - low / scale).clip(bounds.min, bounds.max)
    return graph.stored(name, float(scale), zero.astype(kind)), float(scale)
