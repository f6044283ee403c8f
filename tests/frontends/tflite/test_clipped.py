"""Quantized TFLite operators whose results clip, also by a relu, on chips: what LiteRT gives, where it is installed."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tpuc.interpreter import Interpreter
from tpuc_driver.data import inputs_of
from tpuc_driver.session.running import as_stored

from tests.families import each
from tests.frontends.tflite.files import RELU, RELU6, SAME, VALID, Node, Tensor, constant, tflite_file
from tests.frontends.tflite.networks import NCHW, NHWC, read
from tests.models.rows import lower

litert = pytest.importorskip("ai_edge_litert.interpreter", reason="needs ai-edge-litert")

Array = NDArray[Any]
STEPS = {"bm1684x": 1.01, "c": 1.01, "cv181x": 1.76}
"""CV18xx gives floats of eight bits, half a step off at the largest bytes, and multiplies tensors in such."""
SHAPE = (1, 6, 5, 4)


@dataclass
class File:
    """Operators side by side, with inputs and outputs of their own."""

    rng: np.random.Generator
    tensors: list[Tensor] = field(default_factory=list[Tensor])
    nodes: list[Node] = field(default_factory=list[Node])
    inputs: dict[str, Tensor] = field(default_factory=dict[str, Tensor])
    outputs: dict[str, Tensor] = field(default_factory=dict[str, Tensor])

    def input(self, name: str, shape: tuple[int, ...] = SHAPE) -> Tensor:
        self.inputs[name] = self._tensor(name, shape, 0.05)
        return self.inputs[name]

    def _tensor(self, name: str, shape: tuple[int, ...], scale: float) -> Tensor:
        point = int(self.rng.choice([-128, 0, int(self.rng.integers(-128, 127))]))
        made = Tensor(name, shape, "INT8", None, (float(np.float32(scale)),), (point,))
        self.tensors.append(made)
        return made

    def weight(self, name: str, shape: tuple[int, ...], axis: int) -> Tensor:
        scales = [float(one) for one in self.rng.uniform(0.005, 0.02, shape[axis]).astype(np.float32)]
        whole = self.rng.integers(-127, 128, shape).astype(np.int8)
        made = constant(name, whole, scales, [0] * len(scales), axis)
        self.tensors.append(made)
        return made

    def do(self, op: str, operands: list[Tensor], shape: tuple[int, ...], reach: float, options: Any = None) -> None:
        """An operator whose results lie around `reach`, which its range covers in part."""
        name = f"y{len(self.outputs)}"
        self.outputs[name] = self._tensor(name, shape, reach / 127 * float(self.rng.uniform(0.2, 1.2)))
        new = [one for one in operands if one not in self.tensors]
        self.tensors += new
        self.nodes.append(Node(op, [one.name for one in operands], [name], options))

    def content(self) -> bytes:
        return tflite_file(self.tensors, self.nodes, list(self.inputs), list(self.outputs))


def drawn(seed: int) -> File:
    """One of each operator."""
    file = File(np.random.default_rng(seed))
    rng = file.rng

    def relu() -> int:
        return int(rng.choice([0, RELU, RELU6]))

    padding, step = int(rng.choice([SAME, VALID])), int(rng.choice([1, 2]))
    size = tuple(n * step if padding == SAME else (n - 1) * step + 3 for n in SHAPE[1:3])
    window = {"Padding": padding, "StrideH": step, "StrideW": step}
    shape = constant("shape", np.array([1, *size, 5], np.int32))
    plain = {"FusedActivationFunction": relu()}
    for name, extra in (("t0", {}), ("t1", {"FusedActivationFunction": RELU})):
        operands = [shape, file.weight(f"{name}w", (5, 3, 3, 4), 0), file.input(name)]
        file.do("TRANSPOSE_CONV", operands, (1, *size, 5), 6.0, ("TransposeConvOptions", {**window, **extra}))
    small = tuple(-(-n // step) if padding == SAME else (n - 3) // step + 1 for n in SHAPE[1:3])
    filters = file.weight("cw", (5, 3, 3, 4), 0)
    added = constant("cb", rng.integers(-2000, 2000, 5).astype(np.int32))
    file.do("CONV_2D", [file.input("c"), filters, added], (1, *small, 5), 6.0, ("Conv2DOptions", {**window, **plain}))
    operands = [file.input("d"), file.weight("dw", (1, 3, 3, 4), 3), constant("db", np.zeros(4, np.int32))]
    options = ("DepthwiseConv2DOptions", {**window, "DepthMultiplier": 1, "FusedActivationFunction": relu()})
    file.do("DEPTHWISE_CONV_2D", operands, (1, *small, 4), 3.0, options)
    operands = [file.input("f", (3, 12)), file.weight("fw", (7, 12), 0), constant("fb", np.zeros(7, np.int32))]
    file.do("FULLY_CONNECTED", operands, (3, 7), 4.0, ("FullyConnectedOptions", {"FusedActivationFunction": relu()}))
    for op in ("ADD", "SUB", "MUL"):
        operands = [file.input(f"{op}0"), file.input(f"{op}1")]
        file.do(op, operands, SHAPE, 6.0, (f"{op.title()}Options", {"FusedActivationFunction": relu()}))
    for op, reach in (("RELU", 6.0), ("RELU6", 6.0), ("TANH", 1.0), ("HARD_SWISH", 6.0), ("QUANTIZE", 6.0)):
        options = ("QuantizeOptions", {}) if op == "QUANTIZE" else None
        reach = 1.27 / 1.28 if op == "TANH" else reach
        file.do(op, [file.input(op)], SHAPE, reach, options)
    file.do("LEAKY_RELU", [file.input("l")], SHAPE, 6.0, ("LeakyReluOptions", {"Alpha": 0.1}))
    operands = [file.input("m"), constant("axes", np.array([1, 2], np.int32))]
    file.do("MEAN", operands, (1, 1, 1, 4), 2.0, ("ReducerOptions", {"KeepDims": True}))
    return file


def steps_off(file: File, chip: str, folder: Path) -> dict[str, float]:
    """Of every result from LiteRT's, by operator."""
    content = file.content()
    given = {name: file.rng.integers(-128, 128, one.shape).astype(np.int8) for name, one in file.inputs.items()}
    runtime = litert.Interpreter(model_content=content, num_threads=1)
    runtime.allocate_tensors()
    for detail in runtime.get_input_details():
        runtime.set_tensor(detail["index"], given[detail["name"]])
    runtime.invoke()
    wanted = {one["name"]: runtime.get_tensor(one["index"]) for one in runtime.get_output_details()}
    module = lower(read(content, folder), chip, None, None)
    real = {name: _first(_real(given[name], one)) for name, one in file.inputs.items()}
    results = Interpreter(module).run(as_stored(inputs_of(module), real)).values()
    ops = {node.outputs[0]: f"{node.op} {node.outputs[0]}" for node in file.nodes}
    return {
        ops[name]: float(np.abs(_last(np.asarray(got)) - _real(wanted[name], tensor)).max() / tensor.scales[0])
        for (name, tensor), got in zip(file.outputs.items(), results, strict=True)
    }


def _real(array: Array, tensor: Tensor) -> Array:
    return ((array.astype(np.float64) - tensor.zeros[0]) * tensor.scales[0]).astype(np.float32)


def _first(array: Array) -> Array:
    return np.ascontiguousarray(array.transpose(NCHW)) if array.ndim == 4 else array


def _last(array: Array) -> Array:
    return array.transpose(NHWC) if array.ndim == 4 else array


@each("chip", [pytest.param(chip, marks=pytest.mark.chip(chip)) for chip in STEPS])
def test_clipped_results_are_those_of_litert(chip: str, tmp_path: Path) -> None:
    wrong = {}
    for seed in range(4):
        off = steps_off(drawn(seed), chip, tmp_path)
        wrong |= {f"{op} of {seed}": steps for op, steps in off.items() if steps > STEPS[chip]}
    assert not wrong
