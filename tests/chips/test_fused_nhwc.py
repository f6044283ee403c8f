"""Fused preprocessing of networks that move their NHWC pixels before they are cast."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
import tpuc
from onnx import TensorProto, helper, numpy_helper
from tpuc_driver.cli import main

from tests.families import each

SCALE = np.float32(1 / 255)
MOVES = {
    "transposed": [helper.make_node("Transpose", ["in"], ["m"], perm=[0, 3, 1, 2])],
    "cut and transposed": [
        helper.make_node("Slice", ["in", "starts", "ends", "axes"], ["s"]),
        helper.make_node("Transpose", ["s"], ["m"], perm=[0, 3, 1, 2]),
    ],
    "read twice": [
        helper.make_node("Transpose", ["in"], ["m"], perm=[0, 3, 1, 2]),
        helper.make_node("Conv", ["m", "w"], ["other"]),
    ],
}


def network(moves: list[onnx.NodeProto]) -> onnx.ModelProto:
    filters = np.random.default_rng(1).normal(0, 0.3, (4, 3, 3, 3)).astype(np.float32)
    numbers = {"starts": [2, 0], "ends": [12, 14], "axes": [1, 2]}
    weights = [numpy_helper.from_array(np.array(array), name) for name, array in numbers.items()]
    nodes = [*moves, helper.make_node("Conv", ["m", "w"], ["c"]), helper.make_node("Relu", ["c"], ["y"])]
    outputs = ["y", "other"] if any("other" in node.output for node in moves) else ["y"]
    graph = helper.make_graph(
        nodes,
        "nhwc",
        [helper.make_tensor_value_info("in", TensorProto.FLOAT, (1, 16, 14, 3))],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        [*weights, numpy_helper.from_array(filters, "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@each("moves", MOVES)
@each("mode", ["int8", "bf16"])
@pytest.mark.chip("cv181x")
def test_bytes_give_what_normalized_pixels_give(moves: str, mode: str, tmp_path: Path) -> None:
    """Of pixels as parts of 255 int8 tables and bf16 lose at most a step of either."""
    onnx.save(network(MOVES[moves]), tmp_path / "nhwc.onnx")
    pixels = np.random.default_rng(0).integers(0, 256, (1, 16, 14, 3)).astype(np.uint8)
    np.savez(tmp_path / "0.npz", **{"in": pixels.astype(np.float32) * SCALE})
    said = [
        "--pixel-format",
        "rgb",
        "--channel-format",
        "nhwc",
        "--mean",
        "0,0,0",
        "--scale",
        ",".join(3 * [f"{SCALE}"]),
    ]
    asked = ["--quantize", mode, *(["--dataset", str(tmp_path / "0.npz")] if mode == "int8" else [])]
    files = {name: tmp_path / f"{name}.cvimodel" for name in ("plain", "fused")}
    for name, more in (("plain", ()), ("fused", ("--fuse-preprocess", "--customization-format", "RGB_PACKED"))):
        command = [
            "compile",
            str(tmp_path / "nhwc.onnx"),
            "--chip",
            "cv181x",
            "-o",
            str(files[name]),
            *asked,
            *said,
            *more,
        ]
        assert main(command) == 0
    want = tpuc.load_compiled(files["plain"]).run(pixels.astype(np.float32) * SCALE)
    got = tpuc.load_compiled(files["fused"]).run(pixels)
    for name, array in want.items():
        np.testing.assert_allclose(got[name], array, atol=np.abs(array).max() / 64)
