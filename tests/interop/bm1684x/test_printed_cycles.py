"""What the vendor's compiler prints for a file with a broadcast without strides is what both clocks say of it."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.chips.bm1684x.timing.vendor import vendor_clock

pytestmark = [pytest.mark.interop, pytest.mark.slow]

PEER = Path(os.environ.get("PEER") or Path.home() / ".cache" / "tpuc-peer")
WORDS, COUNT, SIZE = 2000, 512, 64


def _embedding(path: Path) -> None:
    """Rows of a table, with positions added; the numbers of the rows go to all lanes."""
    random = np.random.default_rng(0)
    shapes = {"table": (WORDS, SIZE), "places": (1, COUNT, SIZE), "filter": (SIZE, 96)}
    weights = [
        numpy_helper.from_array(random.standard_normal(shape).astype(np.float32), name)
        for name, shape in shapes.items()
    ]
    nodes = [
        helper.make_node("Gather", ["table", "numbers"], ["rows"], axis=0),
        helper.make_node("Add", ["rows", "places"], ["placed"]),
        helper.make_node("MatMul", ["placed", "filter"], ["y"]),
    ]
    numbers = helper.make_tensor_value_info("numbers", TensorProto.INT64, (1, COUNT))
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "embedding", [numbers], [result], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)


def _vendor(program: str, *options: str, cwd: Path) -> None:
    environment = {**os.environ, "PATH": f"{PEER / 'bin'}:{os.environ['PATH']}"}
    subprocess.run([PEER / "bin" / program, *options], cwd=cwd, env=environment, capture_output=True, check=True)


@pytest.mark.parametrize("mode", ["F16", "F32"])
def test_an_embedding_costs_what_is_printed(mode: str, oracle_dir: Path, tmp_path: Path) -> None:
    _embedding(tmp_path / "e.onnx")
    shapes = ("--input_shapes", f"[[1,{COUNT}]]")
    _vendor("model_transform", "--model_name", "e", "--model_def", "e.onnx", *shapes, "--mlir", "e.mlir", cwd=tmp_path)
    options = ("--chip", "bm1684x", "--quantize", mode, "--model", "e.bmodel", "--debug")
    _vendor("model_deploy", "--mlir", "e.mlir", *options, cwd=tmp_path)
    np.savez(tmp_path / "in.npz", numbers=np.zeros((1, COUNT), np.float32))
    command = [
        "bash",
        oracle_dir / "bmodel_cycles.sh",
        tmp_path / "e.bmodel",
        tmp_path / "in.npz",
        tmp_path / "profile",
    ]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    (total,) = re.findall(r"total_cycle:(\d+)", printed)
    clock = vendor_clock(oracle_dir)
    with clock.Vendor() as vendor:
        report = clock.clock(tmp_path / "e.bmodel", vendor)
    assert (report.model_total, report.vendor_total) == (int(total), int(total))
