"""Files that the vendor's compiler writes for transformers run here bit for bit as on its functional model."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from tpuc_bm1684x.simulator import Simulator
from tpuc_driver.session import Session

from tests.conftest import RunVendor

pytestmark = [pytest.mark.interop, pytest.mark.slow]

PEER = Path(os.environ.get("PEER") or Path.home() / ".cache" / "tpuc-peer")
Array = NDArray[Any]
HISTORY, HEADS, SIZE, HIDDEN, INNER = 64, 4, 32, 128, 256

CASES = (
    ("linear", "W8F16", "basic"),
    ("linear", "W4F16", "basic"),
    ("linear", "W4F16", "io_alone"),
    ("decode", "F16", "basic"),
    ("decode", "F16", "io_alone"),
    ("decode", "BF16", "io_alone"),
    ("decode", "W8F16", "io_alone"),
    ("decode", "W4F16", "io_alone"),
)


class _Graph:
    """Nodes with weights drawn from one generator."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(0)
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def add(self, op: str, *inputs: str, **attributes: Any) -> str:
        name = f"{op.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], name=name, **attributes))
        return name

    def constant(self, values: Any) -> str:
        name = f"constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def linear(self, x: str, inputs: int, outputs: int) -> str:
        weight = self.rng.standard_normal((inputs, outputs)) / np.sqrt(inputs)
        return self.add("MatMul", x, self.constant(weight.astype(np.float32)))

    def norm(self, x: str) -> str:
        mean = self.add("ReduceMean", self.add("Mul", x, x), axes=[-1])
        root = self.add("Sqrt", self.add("Add", mean, self.constant(np.float32(1e-5))))
        weight = self.rng.uniform(0.5, 1.5, HIDDEN).astype(np.float32)
        return self.add("Mul", self.add("Div", x, root), self.constant(weight))

    def save(self, path: Path, inputs: dict[str, tuple[int, ...]], outputs: dict[str, tuple[int, ...]]) -> None:
        def infos(shapes: dict[str, tuple[int, ...]]) -> list[Any]:
            kinds = {"position_ids": TensorProto.INT32}
            return [
                helper.make_tensor_value_info(name, kinds.get(name, TensorProto.FLOAT), shape)
                for name, shape in shapes.items()
            ]

        graph = helper.make_graph(self.nodes, path.stem, infos(inputs), infos(outputs), self.constants)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)


def _linear(path: Path) -> dict[str, tuple[int, ...]]:
    graph, inputs = _Graph(), {"x": (1, 2, 128)}
    weight = graph.linear("x", 128, 1024)
    y = graph.add("Add", weight, graph.constant(graph.rng.standard_normal(1024).astype(np.float32)))
    graph.save(path, inputs, {y: (1, 2, 1024)})
    return inputs


def _decode(path: Path) -> dict[str, tuple[int, ...]]:
    """One block at one position: a norm, attention over a history with rotary tables, a gated layer."""
    g = _Graph()
    inputs = {
        "input_states": (1, 1, HIDDEN),
        "position_ids": (1, 1),
        "attention_mask": (1, 1, 1, HISTORY + 1),
        "history_k": (1, HISTORY, HEADS, SIZE),
        "history_v": (1, HISTORY, HEADS, SIZE),
    }
    x = g.norm("input_states")
    shape = g.constant(np.array([1, 1, HEADS, SIZE], np.int64))
    q, k, v = (g.add("Reshape", g.linear(x, HIDDEN, HIDDEN), shape) for _ in range(3))
    angles = np.arange(2 * HISTORY)[:, None] / 100 ** (np.arange(SIZE) / SIZE)
    tables = (g.constant(table.astype(np.float32).reshape(-1, 1, SIZE)) for table in (np.cos(angles), np.sin(angles)))
    cos, sin = (g.add("Gather", table, "position_ids", axis=0) for table in tables)
    halves = g.constant(np.array([SIZE // 2, SIZE // 2], np.int64))

    def turned(value: str) -> str:
        first, second = f"{value}_first", f"{value}_second"
        g.nodes.append(helper.make_node("Split", [value, halves], [first, second], name=f"{value}_split", axis=3))
        other = g.add("Concat", g.add("Neg", second), first, axis=3)
        return g.add("Add", g.add("Mul", value, cos), g.add("Mul", other, sin))

    q, k = turned(q), turned(k)
    keys = g.add("Transpose", g.add("Concat", "history_k", k, axis=1), perm=[0, 2, 3, 1])
    values = g.add("Transpose", g.add("Concat", "history_v", v, axis=1), perm=[0, 2, 1, 3])
    scores = g.add("MatMul", g.add("Transpose", q, perm=[0, 2, 1, 3]), keys)
    scores = g.add("Mul", scores, g.constant(np.float32(SIZE**-0.5)))
    share = g.add("Softmax", g.add("Add", scores, "attention_mask"), axis=-1)
    seen = g.add("Transpose", g.add("MatMul", share, values), perm=[0, 2, 1, 3])
    seen = g.add("Reshape", seen, g.constant(np.array([1, 1, HIDDEN], np.int64)))
    x = g.add("Add", "input_states", g.linear(seen, HIDDEN, HIDDEN))
    inner = g.norm(x)
    gate = g.linear(inner, HIDDEN, INNER)
    gated = g.add("Mul", g.add("Mul", gate, g.add("Sigmoid", gate)), g.linear(inner, HIDDEN, INNER))
    x = g.add("Add", x, g.linear(gated, INNER, HIDDEN))
    one = (1, 1, HEADS, SIZE)
    g.save(path, inputs, {x: (1, 1, HIDDEN), k: one, v: one})
    return inputs


def _vendor(tool: str, *arguments: str, cwd: Path) -> None:
    path = f"{PEER / 'bin'}{os.pathsep}{os.environ['PATH']}"
    command = [str(PEER / "bin" / tool), *arguments]
    done = subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, check=False, env={**os.environ, "PATH": path}
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-2000:]


def _sample(name: str, tensor: Any, rng: np.random.Generator) -> Array:
    if name == "position_ids":
        return np.full(tensor.shape, 40, np.int32)
    if name == "attention_mask":
        return np.where(np.arange(HISTORY + 1) % HISTORY < 40, 0, -10000).reshape(tensor.shape).astype(np.float32)
    return rng.standard_normal(tensor.shape).astype(tensor.type.numpy)


@pytest.mark.parametrize(("name", "mode", "addresses"), CASES)
def test_it_runs_and_is_profiled(
    name: str, mode: str, addresses: str, oracle_dir: Path, run_vendor: RunVendor, tmp_path: Path
) -> None:
    shapes = {"linear": _linear, "decode": _decode}[name](tmp_path / f"{name}.onnx")
    listed = str([list(shape) for shape in shapes.values()])
    model = ("--model_name", name, "--model_def", f"{name}.onnx", "--input_shapes", listed, "--mlir", f"{name}.mlir")
    _vendor("model_transform", *model, cwd=tmp_path)
    options = ("--chip", "bm1684x", "--quantize", mode, "--addr_mode", addresses, "--model", "n.bmodel")
    _vendor("model_deploy", "--mlir", f"{name}.mlir", *options, "--q_group_size", "64", cwd=tmp_path)
    path = tmp_path / "n.bmodel"
    simulator = Simulator.from_bytes(path.read_bytes())
    assert (simulator.stage.io_bytes > 0) == (addresses == "io_alone")
    rng = np.random.default_rng(1)
    inputs = {tensor.name: _sample(tensor.name, tensor, rng) for tensor in simulator.inputs}
    ours, theirs = simulator.run(inputs), run_vendor(path, inputs)
    for key, array in ours.items():
        assert np.array_equal(array.view(np.uint32), theirs[key].reshape(array.shape).view(np.uint32)), key
    loaded = Session(chip="bm1684x").chip.load(path.read_bytes())
    assert "dma.gather" in loaded.disassemble() or name == "linear"
    assert loaded.timeline("vendor").cycles > 1000
