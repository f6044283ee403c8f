"""An op package of a stranger: its op runs on two chips, and it changes nothing else."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import onnx
import pytest
from acme_ops.gelu7 import Gelu7
from acme_ops.stored_gelu7 import StoredGelu7
from onnx import TensorProto
from onnx.helper import make_graph, make_node, make_tensor_value_info
from tpuc.api import F32, Node, ScalarType, TensorType, Uniform
from tpuc.errors import Unsupported
from tpuc.interpreter import Interpreter
from tpuc.registry import Registry
from tpuc_driver.session import Session
from tpuc_testing.packages import offers_of

from tests.third_party.conftest import Compiled, random_inputs
from tests.third_party.distributions import ROOT, TOY_CHIP, chips_with_acme_cells

CompileGraph = Callable[..., Compiled]


def gelu7(x: Fraction) -> Fraction:
    """The definition, in exact fractions."""
    return min(max(x, Fraction(0)), Fraction(7)) + min(max(x, Fraction(-2)), Fraction(0)) / 8


def network(shape: tuple[int, ...] = (1, 12, 9, 8), **attributes: int) -> onnx.GraphProto:
    nodes = [
        make_node("Gelu7", ["x"], ["g"], domain="acme", **attributes),
        make_node("Relu", ["g"], ["r"]),
        make_node("Add", ["g", "r"], ["y"]),
    ]
    tensors = [make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in ("x", "y")]
    return make_graph(nodes, "net", tensors[:1], tensors[1:])


def test_the_float_op_is_its_definition() -> None:
    x = np.array([-9, -2, -1, -0.125, 0, 0.5, 7, 8], np.float32)
    type = TensorType(x.shape, F32)
    (y,) = Gelu7().evaluate(Node(Gelu7(), (type,), (type,)), [x])
    assert y.tolist() == [float(gelu7(Fraction(float(value)))) for value in x]


def test_the_stored_op_rounds_half_up() -> None:
    """With a scale of 1/4: -2 is stored as -8, 7 as 28."""
    x = np.arange(-128, 128).astype(np.int8)
    type = TensorType(x.shape, Uniform(ScalarType("i8"), F32, 0.25))
    op = StoredGelu7(low=-8.0, high=28.0)
    (y,) = op.evaluate(Node(op, (type,), (type,)), [x])
    exact = [gelu7(Fraction(int(q), 4)) * 4 for q in x]
    assert y.tolist() == [int((value + Fraction(1, 2)) // 1) for value in exact]


@pytest.mark.parametrize("chip", chips_with_acme_cells())
def test_a_network_with_the_op_compiles(chip: str, compile_graph: CompileGraph) -> None:
    compiled = compile_graph(network(), chip, {"acme": 1})
    assert compiled.compare(random_inputs(network(), seed=8)) == 4
    assert {op.op.name for op in compiled.module.main.operations} >= {"acme.StoredGelu7"}


@pytest.mark.skipif("bm1684x" not in chips_with_acme_cells(), reason="bm1684x is not bundled")
def test_the_op_runs_in_floats_where_the_chip_has_them(compile_graph: CompileGraph) -> None:
    compiled = compile_graph(network(), "bm1684x", {"acme": 1}, mode="f32")
    assert compiled.compare(random_inputs(network(), seed=8)) == 0


@pytest.mark.chip("cv182x")
@pytest.mark.parametrize("mode", ["bf16", "int8"])
def test_a_chip_that_nobody_wrote_cells_for_composes_the_op(compile_graph: CompileGraph, mode: str) -> None:
    compiled = compile_graph(network(), "cv182x", {"acme": 1}, mode=mode)
    assert compiled.compare(random_inputs(network(), seed=8)) >= 0
    names = {op.op.name for op in compiled.module.main.operations}
    assert not any(name.startswith("acme.") for name in names)


@pytest.mark.chip("bm1684x", "cv183x")
@pytest.mark.parametrize("chip", ["bm1684x", "cv183x"])
def test_a_function_of_one_number_is_one_file(chip: str, compile_graph: CompileGraph) -> None:
    """Its importer comes from the name that its file gives it, its table from the chip's lowering of functions."""
    tensors = [make_tensor_value_info(name, TensorProto.FLOAT, (1, 4, 6, 5)) for name in ("x", "y")]
    graph = make_graph([make_node("SoftClip", ["x"], ["y"], domain="acme")], "net", tensors[:1], tensors[1:])
    compiled = compile_graph(graph, chip, {"acme": 1})
    assert compiled.compare(random_inputs(graph, seed=8)) == 2
    (x,) = random_inputs(graph, seed=8).values()
    y = Interpreter(compiled.module).run({"x": x})["y_f32"]
    exact = [float(value) / math.sqrt(1 + float(value) ** 2) for value in x.reshape(-1)]
    assert np.abs(y.reshape(-1) - exact).max() < 0.1  # the scale of the input, 8 / 127, and half that of the result


def test_large_tensors_are_cut_into_tiles(compile_graph: CompileGraph) -> None:
    net = network((2, 24, 40, 30))
    assert compile_graph(net, "toy", {"acme": 1}).compare(random_inputs(net, seed=9)) == 4


def test_unknown_attributes_are_refused(compile_graph: CompileGraph) -> None:
    with pytest.raises(Unsupported, match="unknown attribute 'sharpness'; acme::Gelu7 has none"):
        compile_graph(network(sharpness=3), "toy", {"acme": 1})


def test_without_the_package_the_op_is_named(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    opsets = [onnx.helper.make_opsetid(domain, version) for domain, version in (("", 17), ("acme", 1))]
    onnx.save(onnx.helper.make_model(network(), opset_imports=opsets, ir_version=8), path)
    with pytest.raises(Unsupported, match="acme::Gelu7"):
        Session(Registry(offers=offers_of(ROOT, TOY_CHIP)), chip="toy", quantize="int8").transform(path)
