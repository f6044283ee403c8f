"""Long chains of operations: nothing on the way from network to cycles may recurse over the graph."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import NodeProto, TensorProto, helper, numpy_helper
from tpuc_driver.cli import main

from tests.families import each

LENGTH = 150
FRAMES = 140
"""Calls inside each other that suffice for a short network; fewer than a chain has links."""
INPUT = (1, 4, 2, 2)
WEIGHTS = {
    "number": np.array(0.99, np.float32),
    "matrix": np.random.default_rng(0).normal(0, 0.05, (4, 4, 1, 1)).astype(np.float32),
    "flat": np.array([1, 4, 4, 1]),
    "square": np.array(INPUT),
    "two": np.array([2]),
    "one": np.array([1]),
    "six": np.array([6]),
    "many": np.array([1 << 30]),
}


def _product(x: str, y: str, _: int) -> list[NodeProto]:
    return [helper.make_node("Mul", [x, "number"], [y])]


def _residual(x: str, y: str, _: int) -> list[NodeProto]:
    return [helper.make_node("Conv", [x, "matrix"], [f"{y}_conv"]), helper.make_node("Add", [x, f"{y}_conv"], [y])]


def _view(x: str, y: str, index: int) -> list[NodeProto]:
    shape = "square" if index % 2 else "flat"
    return [helper.make_node("Reshape", [x, shape], [f"{y}_view"]), helper.make_node("Tanh", [f"{y}_view"], [y])]


def _parts(x: str, y: str, _: int) -> list[NodeProto]:
    concat = helper.make_node("Concat", [x, x], [f"{y}_twice"], axis=1)
    return [concat, helper.make_node("Slice", [f"{y}_twice", "two", "six", "one"], [y])]


def _shorter(x: str, y: str, _: int) -> list[NodeProto]:
    return [helper.make_node("Slice", [x, "one", "many", "one"], [y])]


Link = Callable[[str, str, int], list[NodeProto]]
LINKS: list[Link] = [_product, _residual, _view, _parts, _shorter]


def _chain(link: Link, length: int) -> onnx.ModelProto:
    nodes = [node for index in range(length) for node in link(f"x{index}", f"x{index + 1}", index)]
    for node in nodes:
        node.name = node.output[0]
    shape = (1, 4 + length, 2, 2) if link is _shorter else INPUT
    used = {name for node in nodes for name in node.input}
    graph = helper.make_graph(
        nodes,
        "chain",
        [helper.make_tensor_value_info("x0", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(f"x{length}", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in WEIGHTS.items() if name in used],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@contextmanager
def _few_frames() -> Iterator[None]:
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(0)) + FRAMES)
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)


def _compile(model: onnx.ModelProto, folder: Path, chip: str, mode: str) -> None:
    suffix = {"bm1684x": "bmodel", "cv183x": "cvimodel"}[chip]
    source, target = folder / "chain.onnx", folder / f"chain.{suffix}"
    onnx.save(model, source)
    (extents,) = ([dim.dim_value for dim in entry.type.tensor_type.shape.dim] for entry in model.graph.input)
    sample = folder / "samples" / "0.npz"
    sample.parent.mkdir(exist_ok=True)
    np.savez(sample, x0=np.random.default_rng(1).normal(0, 1, extents).astype(np.float32))
    dataset = ["--dataset", str(sample.parent)] if mode == "int8" else []
    work = ["--work-dir", str(folder / "work")]
    with _few_frames():
        assert (
            main(["compile", str(source), "--chip", chip, "--quantize", mode, *dataset, *work, "-o", str(target)]) == 0
        )
        assert main(["profile", str(target)]) == 0
        assert main(["disasm", str(target)]) == 0
        assert main(["run", "--model", str(target), "--input", str(sample), "-o", str(folder / "out.npz")]) == 0
        (final,) = (folder / "work").glob("*_final.mlir")
        groups = ["--pass", "outline-groups", "-o", str(folder / "groups.mlir")]
        assert main(["opt", str(final), "--chip", chip, *groups]) == 0


QUICK = (("bm1684x", "f32", _residual),)
RUNS = [
    pytest.param(
        chip,
        mode,
        link,
        marks=[pytest.mark.chip(chip), *([] if (chip, mode, link) in QUICK else [pytest.mark.slow])],
        id=f"{chip}-{mode}-{link.__name__.strip('_')}",
    )
    for chip, mode in (("bm1684x", "f32"), ("bm1684x", "int8"), ("cv183x", "int8"))
    for link in LINKS
]


@each(("chip", "mode", "link"), RUNS)
def test_every_stage_takes_long_chains(chip: str, mode: str, link: Link, tmp_path: Path) -> None:
    (tmp_path / "short").mkdir()
    _compile(_chain(link, 3), tmp_path / "short", chip, mode)  # what is imported on the way needs frames of its own
    _compile(_chain(link, LENGTH), tmp_path, chip, mode)
