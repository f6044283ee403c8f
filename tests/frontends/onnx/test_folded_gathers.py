"""GatherElements of constants is computed while importing, as ONNX Runtime does: tables of positions in BERT."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
import tpuc
from onnx import TensorProto, helper, numpy_helper

CASES, LONG = 60, 300


def drawn() -> onnx.ModelProto:
    """Many nodes: indices on other axes are as many as elements or fewer, and some count from the end."""
    random = np.random.default_rng(3)
    nodes, constants, outputs = [], [], []
    for index in range(CASES):
        dims = random.integers(1, 5, int(random.integers(1, 4)))
        axis = int(random.integers(len(dims)))
        dims[axis] = random.choice((1, 3, 40, LONG))
        own = [int(random.integers(1, extent + 1)) for extent in dims]
        own[axis] = int(random.integers(1, 20))
        table = random.normal(0, 1, dims).astype(np.float32)
        places = random.integers(-dims[axis], dims[axis], own)
        constants += [numpy_helper.from_array(table, f"x{index}"), numpy_helper.from_array(places, f"i{index}")]
        given = int(axis - len(dims) if random.integers(2) else axis)
        nodes.append(helper.make_node("GatherElements", [f"x{index}", f"i{index}"], [f"g{index}"], axis=given))
        nodes.append(helper.make_node("Add", [f"g{index}", "zero"], [f"y{index}"]))
        outputs.append(helper.make_tensor_value_info(f"y{index}", TensorProto.FLOAT, own))
    source = helper.make_tensor_value_info("zero", TensorProto.FLOAT, [1])
    graph = helper.make_graph(nodes, "gathers", [source], outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_elements_of_constants_are_those_of_onnx_runtime() -> None:
    model, zero = drawn(), {"zero": np.zeros(1, np.float32)}
    engine = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    wanted = dict(zip([one.name for one in engine.get_outputs()], engine.run(None, zero), strict=True))
    found = tpuc.load(model).run(zero)
    assert [name for name, array in wanted.items() if not np.array_equal(found[name], array)] == []


def test_an_index_beyond_the_constant_is_a_sentence() -> None:
    model = drawn()
    numbers = next(one for one in model.graph.initializer if one.name == "i0")
    numbers.CopyFrom(numpy_helper.from_array(np.full(numbers.dims, LONG), "i0"))
    with pytest.raises(tpuc.TpucError, match=r"GatherElements.*operands are constants, but it cannot be computed"):
        tpuc.load(model)
