"""`tpuc qtable`: the float mode that is fastest, the cycles of what it found, and a remark where a table costs much."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tpuc_driver.session import Session

from tests.chips.command_line import tpuc

CHANNELS, SIZE = 32, 16


def network(folder: Path) -> Path:
    """A convolution whose filters differ a thousandfold, which int8 ruins, a max pool, and two usual convolutions."""
    random = np.random.default_rng(5)
    filters = random.normal(size=(3, CHANNELS, CHANNELS, 3, 3)).astype(np.float32) / (3 * CHANNELS**0.5)
    filters[0, :, 0] *= 300
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["ruined"], pads=[1] * 4),
        helper.make_node("MaxPool", ["ruined"], ["pooled"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Conv", ["pooled", "w1"], ["middle"], pads=[1] * 4),
        helper.make_node("Conv", ["middle", "w2"], ["y"], pads=[1] * 4),
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, CHANNELS, SIZE, SIZE))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, CHANNELS, SIZE // 2, SIZE // 2))],
        [numpy_helper.from_array(one, f"w{place}") for place, one in enumerate(filters)],
    )
    path = folder / "net.onnx"
    path.write_bytes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9).SerializeToString()
    )
    assert onnx.load(path)
    np.savez(folder / "x.npz", x=random.normal(size=(12, 1, CHANNELS, SIZE, SIZE)).astype(np.float32))
    return path


@pytest.mark.chip("bm1684x")
def test_layers_go_into_the_fastest_float_mode_and_what_that_costs_is_said(tmp_path: Path) -> None:
    path, data = network(tmp_path), tmp_path / "x.npz"
    top, table, found = (tmp_path / name for name in ("net.mlir", "table", "qtable"))
    session = Session(chip="bm1684x", quantize="int8")
    session.save(session.transform(path), top)
    assert tpuc("calibrate", top, "--dataset", data, "-o", table).returncode == 0
    usual = ("--calibration-table", table, "--dataset", data)
    done = tpuc("qtable", top, "--chip", "bm1684x", *usual, "--max-float-layers", "3", "-o", found)
    assert done.returncode == 0, done.stderr

    remarks = dict[Path | None, str]()

    def cycles(quantize_table: Path | None) -> int:
        given = () if quantize_table is None else ("--quantize-table", quantize_table)
        told = tpuc(
            *("compile", path, "--chip", "bm1684x", "--quantize", "int8", "--calibration-table", table),
            *(*given, "-o", tmp_path / "net.bmodel"),
        )
        (figure,) = re.findall(r"predicted: ([\d,]+) cycles", told.stdout)
        remarks[quantize_table] = " ".join(told.stderr.split())
        return int(figure.replace(",", ""))

    lines = dict(line.rsplit(None, 1) for line in found.read_text().splitlines() if not line.startswith("#"))
    assert set(lines.values()) == {"F16"}  # f32 takes several times as long
    as_f32 = tmp_path / "as_f32"
    as_f32.write_text(found.read_text().replace("F16", "F32"))
    plain, chosen = cycles(None), cycles(found)
    slow = cycles(as_f32)
    assert plain < chosen < slow
    slower = (
        f"the quantize table makes the network {slow / plain:.1f} times as slow: {slow:,} cycles instead of {plain:,}"
    )
    assert slower in remarks[as_f32]
    assert all("times as slow" not in remarks[one] for one in (None, found))
    told: list[str] = []
    session = Session(chip="bm1684x", quantize="int8", remark=told.append)
    modes = dict.fromkeys(lines, "f32")
    session.compile(path, tmp_path / "net.bmodel", calibration_table=table, quantize_table=modes)
    assert any(one.startswith(slower) for one in told)
    told.clear()
    session.compile_shapes(path, tmp_path / "net.bmodel", [()], [1, 2], calibration_table=table, quantize_table=as_f32)
    assert [one.partition(" cycles")[0] for one in told if "as slow" in one] == [slower.partition(" cycles")[0]]
    rows = [line.split() for line in done.stdout.splitlines()[1:]]
    assert {int(row[3].replace(",", "")) for row in rows} >= {plain, chosen}
    assert chosen <= 1.2 * plain
    assert " times as long" not in done.stderr
    done = tpuc("qtable", top, "--chip", "bm1684x", *usual, "--max-float-layers", "3", "--float-mode=f32", "-o", found)
    chosen = cycles(found)
    assert chosen > 1.2 * plain
    assert f"takes {chosen:,} cycles instead of {plain:,}, {chosen / plain:.2f} times as long, for " in done.stderr, (
        done.stderr
    )


@pytest.mark.chip("bm1684x")
def test_a_pool_beside_integers_stays_on_integers(tmp_path: Path) -> None:
    """Its largest values are as they were: alone in float it gains nothing."""
    path, data = network(tmp_path), tmp_path / "x.npz"
    session = Session(chip="bm1684x", quantize="int8")
    module = session.transform(path)
    table = session.calibrate(module, dataset=data)
    from tpuc_accuracy.mixed_precision.timed_search import search_quantize_table

    found = search_quantize_table(
        session, module, table, options={"dataset": str(data), "input_num": 4, "max_float_layers": 4}
    )
    around = {"ruined", "middle"}
    for point in found.points:
        assert "pooled" not in point.floats or around <= set(point.floats)
    assert any("ruined" in point.floats for point in found.points)
