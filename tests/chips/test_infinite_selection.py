"""Ops that select elements give them unchanged, whatever the others are: infinite or the largest numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import tpuc
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from tests.families import each

Array = NDArray[Any]
MOST = {"cv181x": 3.3895313892515355e38}
"""In place of infinity, where a chip has none."""
RUNS = (("cv181x", "bf16"), ("bm1684x", "f16"), ("c", "f32"))


class Network:
    """Independent ops, each with its inputs, constants and results."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.feed: dict[str, Array] = {}
        self.results: list[str] = []

    def values(self, *shape: int) -> Array:
        """Small numbers that bf16 holds, and infinities among them."""
        array = (self.random.integers(-99, 99, shape) / 8).astype(np.float32)
        endless = self.random.choice([-np.inf, np.inf], shape).astype(np.float32)
        return np.where(self.random.random(shape) < 0.3, endless, array)

    def places(self, count: int, *shape: int) -> Array:
        """Indices from either end."""
        return self.random.integers(-count, count, shape).astype(np.int64)

    def op(self, kind: str, *operands: Array, fixed: tuple[int, ...] = (), results: int = 1, **attributes: Any) -> None:
        """Add an op; operands at the places `fixed` are constants. Booleans go out as numbers."""
        at, names = len(self.nodes), list[str]()
        for index, array in enumerate(operands):
            names.append(f"x{at}_{index}")
            if index in fixed:
                self.constants.append(numpy_helper.from_array(array, names[-1]))
            else:
                self.feed[names[-1]] = array
        made = [f"y{at}_{index}" for index in range(results)]
        if kind in ("Less", "Greater", "LessOrEqual", "GreaterOrEqual", "Equal"):
            self.nodes.append(helper.make_node(kind, names, [f"b{at}"], f"b{at}"))
            kind, names, attributes = "Cast", [f"b{at}"], {"to": TensorProto.FLOAT}
        self.nodes.append(helper.make_node(kind, names, made, f"n{at}", **attributes))
        self.results += made

    def model(self) -> onnx.ModelProto:
        """The whole network."""
        inputs = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
            for name, array in self.feed.items()
        ]
        outputs = [onnx.ValueInfoProto(name=name) for name in self.results]
        graph = helper.make_graph(self.nodes, "selection", inputs, outputs, self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def network(seed: int) -> Network:
    """All ops that select."""
    made = Network(seed)
    values, places = made.values, made.places
    for axis, largest in ((1, 1), (0, 0)):
        made.op("TopK", values(6, 9), np.array([4]), fixed=(1,), results=2, axis=axis, largest=largest)
    for kind in ("Less", "GreaterOrEqual", "Equal"):
        made.op(kind, values(4, 9), values(4, 9))
        made.op(kind, values(4, 9), np.array(1.0, np.float32), fixed=(1,))
    for fixed in ((), (1,)):
        made.op("GatherElements", values(3, 9, 5), places(9, 2, 7, 4), fixed=fixed, axis=1)
    made.op("GatherElements", np.clip(values(3, 9), -9, 9), places(9, 2, 7), fixed=(0,), axis=1)
    made.op("GatherElements", values(4, 11), places(11, 4, 33), axis=1)
    many = np.stack([places(4, 3, 20), places(5, 3, 20), places(3, 3, 20)], -1)
    made.op("GatherND", values(4, 5, 3, 2), many)
    made.op("GatherND", values(3, 4, 5, 3), many, batch_dims=1)
    made.op("OneHot", places(5, 6), np.array(5), np.array([-np.inf, 0], np.float32), fixed=(1, 2))
    made.op("OneHot", places(5, 6), np.array(5), np.array([0.5, np.inf], np.float32), fixed=(1, 2), axis=0)
    for kind in ("ArgMax", "ArgMin"):
        made.op(kind, values(4, 9), axis=1)
    made.op("Where", made.random.random((4, 9)) < 0.5, values(4, 9), values(4, 9), fixed=(0,))
    made.op("Trilu", values(6, 6), upper=0)
    return made


@pytest.mark.filterwarnings("ignore:.*cannot represent weights")  # infinite ones of OneHot
@each("run", [pytest.param(run, marks=pytest.mark.chip(run[0])) for run in RUNS])
def test_selected_elements_are_those_of_onnxruntime(run: tuple[str, str], tmp_path: Path) -> None:
    chip, mode = run
    made = network(3)
    model = made.model()
    onnx.save(model, tmp_path / "selection.onnx")
    loaded = tpuc.load(tmp_path / "selection.onnx").compile(chip, mode=mode)._loaded
    given = {info.name: made.feed[info.name.removesuffix("_f32")].reshape(info.shape) for info in loaded.inputs}
    found = {name.removesuffix("_f32"): array for name, array in loaded.run(given).items()}
    wanted: Any = onnxruntime.InferenceSession(model.SerializeToString()).run(None, made.feed)
    wrong: list[str] = []
    for name, right in zip(made.results, wanted, strict=True):
        held = np.clip(np.asarray(right, np.float32), -MOST.get(chip, np.inf), MOST.get(chip, np.inf))
        if not np.array_equal(np.asarray(found[name]).reshape(held.shape), held):
            kind = next(node.op_type for node in made.nodes if name in node.output)
            wrong.append(f"{kind} {name}: {np.sum(np.asarray(found[name]).reshape(held.shape) != held)}")
    assert wrong == []
