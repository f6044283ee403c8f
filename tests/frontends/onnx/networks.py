"""Small ONNX networks, and the same computed by ONNX Runtime and by our interpreter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from tpuc.api import ImportOptions, Module
from tpuc.interpreter import Interpreter
from tpuc.registry import Offer, Registry
from tpuc_onnx.frontend import FRONTEND

Array = NDArray[Any]

DOMAINS = ("acme", "com.microsoft", "MQBench_custom", "Sophgo_custom", "qonnx.custom_op.general", "onnx.brevitas")
"""Operators that are not standard."""

OFFERS = (
    Offer("tpuc.dialects", "top", "tpuc", "0", "tpuc_ops.top:DIALECT"),
    Offer("tpuc.frontends", "onnx", "tpuc", "0", "tpuc_onnx.frontend:FRONTEND"),
    Offer("tpuc.importers", "onnx.top", "tpuc", "0", "tpuc_onnx.importers:TABLE"),
)


def registry(*more: Offer) -> Registry:
    """The front end alone, with whatever a test adds."""
    return Registry(offers=[*OFFERS, *more])


def values(*shape: int, seed: int = 0) -> NDArray[np.float32]:
    """Reproducible numbers between -2 and 2."""
    return np.random.default_rng(seed).uniform(-2, 2, shape).astype(np.float32)


def network(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Sequence[int | str | None] | None],
    outputs: Sequence[str],
    weights: Mapping[str, Array] | None = None,
    opset: int = 13,
) -> onnx.ModelProto:
    """A model of float inputs; nothing is checked, so that it may be wrong."""
    graph = helper.make_graph(
        list(nodes),
        "network",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()],
        [onnx.ValueInfoProto(name=name) for name in outputs],
        [numpy_helper.from_array(array, name) for name, array in (weights or {}).items()],
    )
    imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(domain, 1) for domain in DOMAINS)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


def node(op: str, inputs: str, outputs: str, **attributes: Any) -> onnx.NodeProto:
    """`node("Conv", "x w", "y", group=2)`: names are separated by blanks, `-` is an absent input."""
    names = ["" if name == "-" else name for name in inputs.split()]
    return helper.make_node(op, names, outputs.split(), name=f"{op}_{outputs.split(maxsplit=1)[0]}", **attributes)


def read(model: onnx.ModelProto | bytes, folder: Path, options: ImportOptions | None = None) -> Module:
    """The verified TOP module of a model, through a file."""
    path = folder / "m.onnx"
    path.write_bytes(model if isinstance(model, bytes) else model.SerializeToString())
    module = FRONTEND.read(path, options or ImportOptions(), registry())
    module.verify()
    return module


def ops(module: Module) -> list[str]:
    """The computing ops in order, without dialect."""
    passive = {"top.Input", "top.None", "top.Weight", "func.return"}
    return [op.op.name.removeprefix("top.") for op in module.walk() if op.op.name not in passive]


def run_onnx(model: onnx.ModelProto | Path, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """All outputs by ONNX Runtime, without its graph optimizations."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    source = str(model) if isinstance(model, Path) else model.SerializeToString()
    session = onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, dict(inputs)), strict=True))


def assert_same(model: onnx.ModelProto, module: Module, seed: int = 1) -> None:
    """Every output within float rounding of ONNX Runtime's, relative to its range."""
    interpreter = Interpreter(module)
    inputs = {
        name: values(*type.dims, seed=seed + index) for index, (name, type) in enumerate(interpreter.inputs.items())
    }
    ours, theirs = interpreter.run(inputs), run_onnx(model, inputs)
    assert sorted(ours) == sorted(theirs)
    for name, expected in theirs.items():
        assert ours[name].shape == expected.shape
        np.testing.assert_allclose(ours[name], expected, rtol=0, atol=1e-5 * max(float(np.abs(expected).max()), 1e-3))
