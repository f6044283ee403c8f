"""Matrices of small integers with scales of groups, which BM1684X keeps as integers: compared with ONNX Runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tpuc.api import PassContext
from tpuc.interpreter import Interpreter
from tpuc.registry import Registry
from tpuc_driver.session import Session
from tpuc_prequantized.integer_matrices import ExpandMatrices

from tests.frontends.onnx.networks import Array, node, ops, read, run_onnx, values

DEPTH, COLUMNS, ROWS = 272, 128, 3
KINDS = {
    "int4": (TensorProto.INT4, -8, 8),
    "uint4": (TensorProto.UINT4, 0, 16),
    "int8": (TensorProto.INT8, -128, 128),
}
BITS = [(4, 16, True), (4, 32, False), (4, 128, True), (8, 32, True), (8, 16, False)]
"""Bits, block size, and whether there are zero points."""
STORED = [("int4", 32, False), ("uint4", 0, False), ("int4", -1, True), ("uint4", 16, True), ("int8", 32, False)]
"""Type, block size (0: a scale per column, -1: one scale), and whether a row of the constant is a column."""


class Case:
    """One network of many products of the same rows."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[TensorProto] = []
        self.random: Any = np.random.default_rng(0)

    def constant(self, name: str, array: Array, kind: int = TensorProto.UINT8) -> str:
        if kind == TensorProto.UINT8:
            self.weights.append(numpy_helper.from_array(array, name))
        else:
            self.weights.append(helper.make_tensor(name, kind, array.shape, array.reshape(-1).tolist()))
        return name

    def blocked(self, bits: int, size: int, has_zero: bool) -> None:
        """A MatMulNBits."""
        count, name = -(-DEPTH // size), f"n{len(self.nodes)}"
        random, fields = self.random, {"K": DEPTH, "N": COLUMNS, "bits": bits, "block_size": size}
        inputs = [
            "x",
            self.constant(f"{name}b", random.integers(0, 256, (COLUMNS, count, size * bits // 8)).astype("u1")),
        ]
        inputs.append(self.constant(f"{name}s", random.uniform(0.01, 0.1, (COLUMNS, count)).astype("f4")))
        if has_zero:
            zeros = random.integers(0, 256, (COLUMNS, -(-count * bits // 8))).astype("u1")
            inputs.append(self.constant(f"{name}z", zeros))
        self.nodes.append(node("MatMulNBits", " ".join(inputs), name, domain="com.microsoft", **fields))

    def dequantized(self, kind: str, size: int, *, turned: bool) -> str:
        """A DequantizeLinear."""
        name, (element, low, end) = f"q{len(self.nodes)}", KINDS[kind]
        dims, axis = ([COLUMNS, DEPTH], 1) if turned else ([DEPTH, COLUMNS], 0)
        own = [] if size < 0 else [COLUMNS]
        fields: dict[str, int] = {"axis": 1 - axis} if size == 0 else {}
        if size > 0:
            own, fields = [*dims], {"axis": axis, "block_size": size}
            own[axis] = -(-DEPTH // size)
        integers = self.constant(f"{name}_q", self.random.integers(low, end, dims), element)
        scale = self.constant(f"{name}_s", np.asarray(self.random.uniform(0.01, 0.1, own), "f4"))
        zero = self.constant(f"{name}_z", np.asarray(self.random.integers(low, end, own)), element)
        self.nodes.append(node("DequantizeLinear", f"{integers} {scale} {zero}", name, **fields))
        return name

    def model(self) -> onnx.ModelProto:
        read_ones = {name for one in self.nodes for name in one.input}
        results = [name for one in self.nodes for name in one.output if name not in read_ones]
        graph = helper.make_graph(
            self.nodes,
            "net",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, [ROWS, DEPTH])],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, [ROWS, COLUMNS]) for name in results],
            self.weights,
        )
        opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def usual() -> onnx.ModelProto:
    case = Case()
    for bits, size, has_zero in BITS:
        case.blocked(bits, size, has_zero)
    for kind, size, turned in STORED:
        name = case.dequantized(kind, size, turned=turned)
        if turned:
            case.nodes.append(node("Transpose", name, f"{name}t", perm=[1, 0]))
        case.nodes.append(node("MatMul", f"x {name}{'t' if turned else ''}", f"{name}y"))
    bias = case.constant("bias", values(COLUMNS))
    name = case.dequantized("int4", 32, turned=True)
    case.nodes.append(node("Gemm", f"x {name} {bias}", f"{name}y", transB=1))
    return case.model()


@pytest.mark.chip("bm1684x")
def test_products_of_integers_are_those_of_the_definition(tmp_path: Path) -> None:
    model, x = usual(), values(ROWS, DEPTH)
    wanted = run_onnx(model, {"x": x})
    module = read(model, tmp_path)
    assert ops(module) == ["A16MatMul"] * len(wanted)
    found = Interpreter(module).run({"x": x})
    session = Session(chip="bm1684x", quantize="f16")
    file = tmp_path / "m.bmodel"
    session.compile(tmp_path / "m.onnx", file)
    np.savez(tmp_path / "x.npz", x=x)
    simulated = session.run(file, [tmp_path / "x.npz"])
    for name, numbers in wanted.items():
        np.testing.assert_allclose(found[name], numbers, atol=1e-4 * np.abs(numbers).max())
        np.testing.assert_allclose(simulated[name], numbers, atol=2e-3 * np.abs(numbers).max())
    assert file.stat().st_size < 1.5 * DEPTH * COLUMNS * len(wanted)  # floats take 2 bytes each


def test_other_chips_compute_floats(tmp_path: Path) -> None:
    """The network is the one that a matrix of floats gives."""
    model, x = usual(), values(ROWS, DEPTH)
    module = read(model, tmp_path)
    wanted = Interpreter(module).run({"x": x})
    assert ExpandMatrices().run(module, PassContext(Registry()))
    assert set(ops(module)) == {"MatMul"}
    for name, numbers in Interpreter(module).run({"x": x}).items():
        np.testing.assert_array_equal(numbers, wanted[name])


def test_scales_of_other_forms_make_floats(tmp_path: Path) -> None:
    """A scale per number of the depth, quantized rows, and bytes with a scale per column, as in quantized networks."""
    case, x = Case(), values(ROWS, DEPTH)
    scale = case.constant("s", np.full(DEPTH, 0.5, "f4"))
    integers = case.constant("q", case.random.integers(-8, 8, (DEPTH, COLUMNS)), TensorProto.INT4)
    case.nodes.append(node("DequantizeLinear", f"{integers} {scale}", "w", axis=0))
    case.nodes.append(node("MatMul", "x w", "a"))
    wide = case.constant("i", case.random.integers(-99, 99, (DEPTH, COLUMNS)), TensorProto.INT8)
    column = case.constant("c", np.full(COLUMNS, 0.5, "f4"))
    case.nodes.append(node("DequantizeLinear", f"{wide} {column}", "v", axis=1))
    case.nodes.append(node("MatMul", "x v", "b"))
    step = case.constant("t", np.array(0.02, "f4"))
    case.nodes += [node("QuantizeLinear", f"x {step}", "xq"), node("DequantizeLinear", f"xq {step}", "xr")]
    case.nodes.append(node("MatMul", f"xr {case.dequantized('int4', 32, turned=False)}", "d"))
    model = case.model()
    module = read(model, tmp_path)
    assert ops(module).count("MatMul") == 3
    found = Interpreter(module).run({"x": x})
    for name, numbers in run_onnx(model, {"x": x}).items():
        np.testing.assert_allclose(found[name], numbers, atol=1e-4 * np.abs(numbers).max())


@pytest.mark.chip("bm1684x")
def test_scales_that_f16_rounds_too_much_make_floats(tmp_path: Path) -> None:
    """0.0003 / 127 has four significant bits in f16; the weights themselves have eight or more."""
    case, x = Case(), values(ROWS, DEPTH) * 1000
    name = case.dequantized("int8", 32, turned=False)
    scale = next(one for one in case.weights if one.name == f"{name}_s")
    small = case.random.uniform(1e-6, 2e-6, numpy_helper.to_array(scale).shape).astype("f4")
    scale.CopyFrom(numpy_helper.from_array(small, scale.name))
    case.nodes.append(node("MatMul", f"x {name}", "y"))
    model = case.model()
    wanted = run_onnx(model, {"x": x})["y"]
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    session = Session(chip="bm1684x", quantize="f16")
    session.compile(tmp_path / "m.onnx", tmp_path / "m.bmodel")
    np.savez(tmp_path / "x.npz", x=x)
    found = session.run(tmp_path / "m.bmodel", [tmp_path / "x.npz"])["y"]
    assert np.abs(found - wanted).max() < 2e-3 * np.abs(wanted).max()
