"""`tpuc run --save-inputs` writes what the network takes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper
from tpuc.npz import write_npz

from tests.chips.command_line import tpuc

pytestmark = pytest.mark.chip("cv181x")


def two_inputs(path: Path) -> Path:
    """`a/b` and `c`, whose difference is the output."""
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4]) for name in ("a/b", "c")]
    nodes = [helper.make_node("Sub", ["a/b", "c"], ["y"])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4])]
    graph = helper.make_graph(nodes, "net", inputs, outputs)
    path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]).SerializeToString())
    return path


def test_bytes_of_every_input(tmp_path: Path) -> None:
    """Of a network as floats, of a file as the integers of its scales."""
    network, file, folder = two_inputs(tmp_path / "net.onnx"), tmp_path / "net.cvimodel", tmp_path / "saved"
    given = {"a/b": np.array([[1, -2, 0.5, 0]], np.float32), "c": np.array([[2, 2, 2, -2]], np.float32)}
    write_npz(tmp_path / "x.npz", given)
    assert tpuc("run", network, tmp_path / "x.npz", "--save-inputs", folder).returncode == 0
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {
        "a_b.bin": given["a/b"].tobytes(),
        "c.bin": given["c"].tobytes(),
    }
    (tmp_path / "table").write_text("# op_name threshold min max\na/b 2 -2 2\nc 2 -2 2\ny 4 -4 4\n", "utf-8")
    said = ("--quantize", "int8", "--quant-input", "--calibration-table", tmp_path / "table")
    assert tpuc("compile", network, "--chip", "cv181x", *said, "-o", file).returncode == 0
    assert tpuc("run", file, tmp_path / "x.npz", "--save-inputs", tmp_path / "bytes").returncode == 0
    found = np.frombuffer((tmp_path / "bytes" / "c.bin").read_bytes(), np.int8)
    np.testing.assert_array_equal(found, [127, 127, 127, -128])  # 2 and -2 in steps of 2 / 128, as far as there are


def test_samples_have_folders_and_nothing_is_replaced(tmp_path: Path) -> None:
    network = two_inputs(tmp_path / "net.onnx")
    write_npz(tmp_path / "x.npz", {"a/b": np.zeros((3, 4), np.float32), "c": np.ones((3, 4), np.float32)})
    assert tpuc("run", network, tmp_path / "x.npz", "--save-inputs", tmp_path / "saved").returncode == 0
    names = sorted(str(path.relative_to(tmp_path / "saved")) for path in (tmp_path / "saved").rglob("*.bin"))
    assert names == [f"{number}/{name}.bin" for number in (1, 2, 3) for name in ("a_b", "c")]
    done = tpuc("run", network, tmp_path / "x.npz", "--save-inputs", tmp_path / "saved")
    assert (done.returncode, done.stderr) == (
        2,
        f"tpuc: --save-inputs {tmp_path / 'saved'} exists and is not an empty folder; give a new one.\n",
    )
