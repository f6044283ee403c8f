"""Networks whose names are those that the compiler would give: of casts, of parts of ops, of changed constants."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import tpuc
from onnx import TensorProto, helper, numpy_helper

CHIPS = ("bm1684x", "cv181x", "c")
ENDINGS = (
    *("", "_1", "_2", "_1_1", "_f32", "_i8", "_f16", "_bf16", "_floats", "_sums", "_permuted", "_parts0", "_left0"),
    *("_bias", "_table", "_filter", "_operand1", "_r0", "_apart", "_preprocess_f32", "_scaled", "_cut"),
)
STEMS = ("linear", "conv", "x")
FEW, MANY = 4, 120

pytestmark = pytest.mark.filterwarnings("ignore::tpuc.Remark")


def network(seed: int) -> onnx.ModelProto:
    """Up to five ops with names drawn from those."""
    generator = np.random.default_rng(seed)
    names = [stem + ending for stem, ending in itertools.product(STEMS, ENDINGS)]
    take, nodes, weights = (
        iter(generator.permutation(names).tolist()).__next__,
        list[onnx.NodeProto](),
        list[onnx.TensorProto](),
    )

    def constant(*shape: int) -> str:
        factors = np.exp(generator.normal(0, 1.5, (shape[0], *(1,) * (len(shape) - 1))))
        weights.append(numpy_helper.from_array((generator.normal(0, 0.3, shape) * factors).astype(np.float32), take()))
        return weights[-1].name

    def chain(x: str, *ops: tuple[str, Sequence[str], dict[str, Any]]) -> str:
        for op, more, attributes in ops:
            nodes.append(helper.make_node(op, [x, *more], [take()], **attributes))
            x = nodes[-1].output[0]
        return x

    first = x = take()
    for _ in range(generator.integers(2, 6)):
        match generator.choice(("conv", "relu", "scale", "matmul", "softmax", "sigmoid")):
            case "conv":
                x = chain(x, ("Conv", [constant(8, 8, 1, 1), constant(8)], {}))
            case "relu":
                x = chain(x, ("Relu", [], {}))
            case "scale":
                x = chain(x, ("Mul", [constant(8, 1, 1)], {}), ("Add", [constant(8, 1, 1)], {}))
            case "matmul":
                last = ("Transpose", [], {"perm": [0, 3, 1, 2]})
                x = chain(x, ("Transpose", [], {"perm": [0, 2, 3, 1]}), ("MatMul", [constant(8, 8)], {}), last)
            case "softmax":
                x = chain(x, ("Softmax", [], {"axis": 3}), ("Sub", [x], {}))
            case _:
                x = chain(x, ("Sigmoid", [], {}))
    value = helper.make_tensor_value_info(first, TensorProto.FLOAT, (1, 8, 6, 6))
    graph = helper.make_graph(
        nodes, "names", [value], [helper.make_tensor_value_info(x, TensorProto.FLOAT, None)], weights
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def refusals(seeds: Sequence[int], folder: Path) -> list[str]:
    found: list[str] = []
    for seed in seeds:
        path = folder / "names.onnx"
        onnx.save(network(seed), path)
        loaded = tpuc.load(path)
        try:
            quantized = loaded.quantize(np.random.default_rng(seed).normal(size=(4, 1, 8, 6, 6)).astype(np.float32))
            for chip in CHIPS:
                quantized.compile(chip)
                loaded.compile(chip)
        except tpuc.TpucError as error:
            found.append(f"seed {seed}: {error}")
    return found


@pytest.mark.chip("bm1684x")
@pytest.mark.chip("cv181x")
@pytest.mark.chip("c")
def test_names_of_a_network_may_be_those_of_the_compiler(tmp_path: Path) -> None:
    assert refusals(range(FEW), tmp_path) == []


@pytest.mark.slow
@pytest.mark.chip("bm1684x")
@pytest.mark.chip("cv181x")
@pytest.mark.chip("c")
def test_many_names_of_a_network_may_be_those_of_the_compiler(tmp_path: Path) -> None:
    assert refusals(range(FEW, MANY), tmp_path) == []
