"""Planning of local memory changes when data moves, never what is computed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from tpuc.api import Engine
from tpuc.interpreter import Interpreter
from tpuc.ir import Module
from tpuc_driver.session import Session


class _Net:
    """An ONNX graph with random weights."""

    def __init__(self, channels: int, size: int) -> None:
        self.random = np.random.default_rng(5)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.input = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, channels, size, size])

    def op(self, kind: str, name: str, *inputs: str, **attributes: object) -> str:
        self.nodes.append(helper.make_node(kind, list(inputs), [name], name=name, **attributes))
        return name

    def conv(self, x: str, name: str, ic: int, oc: int, kernel: int = 1, stride: int = 1) -> str:
        filters = self.random.normal(0, (ic * kernel * kernel) ** -0.5, (oc, ic, kernel, kernel))
        self.weights.append(numpy_helper.from_array(filters.astype(np.float32), f"{name}_w"))
        pads = [kernel // 2] * 4
        y = self.op("Conv", name, x, f"{name}_w", kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=pads)
        return self.op("Relu", f"{name}_r", y)

    def model(self, *outputs: str) -> onnx.ModelProto:
        results = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
        graph = helper.make_graph(self.nodes, "net", [self.input], results, self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def branches() -> onnx.ModelProto:
    """Residuals, concatenations at whole and at odd lanes, a slice, a value with a far user, two outputs."""
    net = _Net(3, 40)
    stem = net.conv("x", "stem", 3, 64, 3, 2)
    left, right = net.conv(stem, "left", 64, 64, 3), net.conv(stem, "right", 64, 64)
    whole = net.op("Concat", "whole", left, right, axis=1)
    wide = net.conv(whole, "wide", 128, 96)
    low, high = net.conv(wide, "low", 96, 24), net.conv(wide, "high", 96, 40)
    odd = net.op("Concat", "odd", low, high, axis=1)
    total = net.op("Add", "total", net.conv(odd, "back", 64, 64, 3), stem)
    small = net.op("MaxPool", "small", total, kernel_shape=[2, 2], strides=[2, 2])
    return net.model(net.conv(small, "end", 64, 10), odd)


def large() -> onnx.ModelProto:
    """More than local memory holds: rows are cut, and something must go to DDR."""
    net = _Net(3, 416)
    stem = net.conv("x", "stem", 3, 16, 3)
    first = net.conv(stem, "first", 16, 16, 3)
    total = net.op("Add", "total", net.conv(first, "second", 16, 16), stem)
    return net.model(net.conv(total, "end", 16, 8, 3, 2))


def _session(opt: int) -> Session:
    return Session(chip="bm1684x", quantize="int8", opt=opt)


def _prepared(model: onnx.ModelProto, work: Path) -> tuple[Module, object, dict[str, NDArray[np.float32]]]:
    path = work / "net.onnx"
    path.write_bytes(model.SerializeToString())
    session = _session(2)
    module = session.transform(path)
    shape = [dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim]
    inputs = {"x": np.random.default_rng(1).uniform(-1, 1, shape).astype(np.float32)}
    np.savez(work / "samples.npz", **inputs)
    return module, session.calibrate(module, dataset=work / "samples.npz", options={"tune_num": 0}), inputs


@pytest.mark.parametrize("make", [branches, pytest.param(large, marks=pytest.mark.slow)])
def test_every_level_computes_what_the_module_says(make: object, tmp_path: Path) -> None:
    assert callable(make)
    module, table, inputs = _prepared(make(), tmp_path)
    cycles: dict[int, int] = {}
    for opt in (1, 2, 3):
        session = _session(opt)
        final, data, *_ = session.build(module, table)
        expected = Interpreter(final).run(inputs)
        loaded = session.chip.load(data)
        outputs = loaded.run(inputs)  # hazards are errors
        for name, array in outputs.items():
            assert np.array_equal(array.reshape(-1), expected[name].reshape(-1)), (opt, name)
        cycles[opt] = loaded.timeline("vendor").cycles
    assert cycles[3] <= cycles[2] <= cycles[1]


def test_what_stays_in_local_memory_is_neither_stored_nor_loaded(tmp_path: Path) -> None:
    module, table, _ = _prepared(branches(), tmp_path)
    session = _session(2)
    final, data, *_ = session.build(module, table)
    attributes = {operation.name: operation.extra_attributes for operation in final.main.operations}
    assert "lmem_concat" in attributes["whole"]  # 64 and 64 channels: whole rows of lanes
    assert "tiling" in attributes["odd"]  # 24 and 40: copied from lane to lane
    transfers = session.chip.load(data).timeline("vendor").entries
    count = sum(entry.command.engine is Engine.DMA for entry in transfers)
    # The input; weights of 8 convolutions; `odd`, cast for the output; the end.
    assert count <= 18
