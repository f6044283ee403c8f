"""`tpuc check` plans ops one by one where that shows as much as the whole plan, and says the same."""

from __future__ import annotations

import json
import resource
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tpuc.api import Chip, LoadedModel
from tpuc_check.ranges import drawn_ranges
from tpuc_cv18xx.boards import DUO256
from tpuc_driver.cli import main
from tpuc_driver.session import Session
from tpuc_plan.regions.region import Region, schedule_and_place

from benchmarks.yolov8 import build
from tests.chips.command_line import tpuc_apart
from tests.families import each

TARGETS = ("--board=duo256", "--board=duo64", "--chip=bm1684x", "--chip=cv183x")
ROOM = {"much": (2.1, False), "little": (1.2, True), "none": (0.9, True)}
"""The memory of a board in sizes of the network, and whether the whole is planned then."""
MOST_SECONDS = 10
"""Of one core. The chip with two lanes takes ten times as many commands; the whole plan takes 88 s there."""


def yolo(folder: Path, size: int) -> Path:
    path = folder / "yolov8n.onnx"
    path.write_bytes(build(size).SerializeToString(deterministic=True))
    return path


def checked(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, Any]]:
    code = main(["check", *words, "--quantize", "int8", "--json"])
    return code, json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    "target",
    [
        pytest.param("--board=duo64", marks=[pytest.mark.chip("cv180x"), pytest.mark.slow]),
        pytest.param("--chip=bm1684x", marks=pytest.mark.chip("bm1684x")),
    ],
)
def test_its_answer_is_that_of_the_whole_plan(
    target: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And no region is measured for it."""
    network, measured = str(yolo(tmp_path, 64)), list[str]()

    def placed(region: Region, chip: Chip) -> Any:
        measured.append("region")
        return schedule_and_place(region, chip)

    monkeypatch.setattr("tpuc_plan.regions.region_planner.schedule_and_place", placed)
    code, quick = checked(capsys, network, target)
    assert not measured
    full_code, full = checked(capsys, network, target, "--full")
    assert measured
    assert (code, quick["exact_bytes"]) == (full_code, False)
    assert full["exact_bytes"]
    names = ("supported", "ops", "complete", "mode", "findings", "board_bytes")
    assert [quick[name] for name in names] == [full[name] for name in names]


@pytest.mark.chip("cv181x")
def test_it_says_about_how_much_memory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(yolo(tmp_path, 64)), "--board", "duo256", "--quantize", "int8"]) == 0
    assert "; it uses about " in capsys.readouterr().out


@pytest.mark.chip("cv181x")
def test_where_memory_is_scarce_the_whole_is_planned(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    network = str(yolo(tmp_path, 32))
    quick, full = (checked(capsys, network, "--board=duo256", *more)[1]["device_bytes"] for more in ([], ["--full"]))
    for room, (times, exact) in ROOM.items():
        size = int(max(sum(quick.values()), sum(full.values())) * times)
        monkeypatch.setattr("tpuc_cv18xx.boards.DUO256", replace(DUO256, device_bytes=size))
        code, found = checked(capsys, network, "--board=duo256")
        assert (room, code, found["exact_bytes"]) == (room, int(room == "none"), exact)


@pytest.mark.chip("cv180x")
@each("target", ("cv180x", "cv181x", "cv183x"))
def test_written_instructions_are_those_of_the_file(target: str, tmp_path: Path) -> None:
    """A quick check does not decode them: same bytes, order, regions and cycles as decoded."""
    session = Session(chip=target, quantize="int8", opt=0)
    model = helper.make_model(mixed_network(), opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    (tmp_path / "mixed.onnx").write_bytes(model.SerializeToString())
    module = session.transform(tmp_path / "mixed.onnx")
    built = session.build(module, drawn_ranges(session, module, tmp_path))
    assert built.instructions is not None
    known = session.chip.load_written(built.data, "net", built.instructions)
    decoded = session.chip.load(built.data, "net")
    for profile in session.chip.profiles:
        assert shown(known, profile) == shown(decoded, profile), profile


def mixed_network() -> onnx.GraphProto:
    """Convolutions, depthwise too, a lookup table, pools, a sum, a product, moves and a matrix product."""
    rng = np.random.default_rng(0)
    weights = {"w": (16, 3, 3, 3), "d": (16, 1, 3, 3), "p": (24, 16, 1, 1), "m": (24, 10)}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], strides=[2, 2], pads=[1] * 4),
        helper.make_node("Sigmoid", ["a"], ["b"]),
        helper.make_node("Mul", ["a", "b"], ["c"]),
        helper.make_node("Conv", ["c", "d"], ["e"], group=16, pads=[1] * 4),
        helper.make_node("Add", ["c", "e"], ["f"]),
        helper.make_node("MaxPool", ["f"], ["g"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Conv", ["g", "p"], ["h"]),
        helper.make_node("Transpose", ["h"], ["i"], perm=[0, 2, 3, 1]),
        helper.make_node("MatMul", ["i", "m"], ["y"]),
    ]
    return helper.make_graph(
        nodes,
        "mixed",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 32, 32])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(rng.normal(size=shape).astype(np.float32), name) for name, shape in weights.items()],
    )


def shown(model: LoadedModel, profile: str) -> list[Any]:
    """Every command with its bytes, regions and cycles."""
    return [
        (
            entry.start,
            entry.end,
            entry.command.instruction.encode(entry.command.number, entry.command.wait),
            entry.command.instruction.reads(),
            entry.command.instruction.writes(),
        )
        for entry in model.timeline(profile).entries
    ]


@pytest.mark.slow
@each("target", TARGETS)
def test_a_detector_takes_seconds(target: str, tmp_path: Path) -> None:
    """At its full size; it took 10 to 25 seconds of a core."""
    network = yolo(tmp_path, 640)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = tpuc_apart("check", network, target, "--quantize", "int8")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, done.stdout
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < MOST_SECONDS
