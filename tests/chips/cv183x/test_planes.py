"""Planes of one channel: computed in strips over the lanes and brought together in the lane that the next op reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tpuc.api import LoadedModel, LocalTensor, ScalarType
from tpuc.interpreter import Interpreter
from tpuc_cv18.isa import TensorCopy
from tpuc_cv18.isa.geometry import LANE_BYTES, is_gmem
from tpuc_cv18.kernels.strips import Strips, joining, strips_of
from tpuc_cv183x.chip import CV183X
from tpuc_driver.session import Boundary, Session
from tpuc_driver.session.values import Built

from tests.chips.cv18.op_networks import Net
from tests.conftest import RunVendor
from tests.families import each

CHIPS = ["cv183x", "cv181x", "cv180x"]
VENDOR_CYCLES = 5368
"""Of the vendor's file for CV183x until 144x152 gray pixels are a network's input."""
SHAPES = [(1, 1, 144, 152), (1, 1, 28, 28), (1, 1, 49, 10), (1, 1, 31, 64), (1, 1, 47, 53), (2, 1, 28, 28)]
GRAY, QUANTIZED = Boundary(True, "GRAYSCALE"), Boundary(quant_input=True)
NORMALIZED: dict[str, Any] = {"mean": (110.3,), "scale": (0.0171,), "pixel_format": "gray"}


def built(chip: str, work: Path, shape: tuple[int, ...], boundary: Boundary, ops: int = 0) -> tuple[Session, Built]:
    """A network that reads gray images, quantized to int8. `ops`: how many ops by table are in front."""
    net, name = Net(), "image"
    for index in range(ops):
        net.op("Sigmoid", [name], name := f"s{index}")
    net.op("Conv", [name, net.normal("w", (8, 1, 3, 3), 0.2)], "y", strides=[2, 2], pads=[1] * 4)
    path = net.save(work / "net.onnx", {"image": shape}, ["y"])
    session = Session(chip=chip, quantize="int8")
    module = session.transform(path, preprocess=NORMALIZED)
    floats = (pixels(shape).astype(np.float32) - np.float32(110.3)) * np.float32(0.0171)
    np.savez(work / "samples.npz", image=floats[None])
    table = session.calibrate(module, dataset=work / "samples.npz", options={"tune_num": 0})
    return session, session.build(module, table, boundary=boundary)


def pixels(shape: tuple[int, ...], first: int = 0) -> NDArray[Any]:
    return np.random.default_rng(0).integers(first, first + 256, shape).astype(np.int8 if first else np.uint8)


def joins(loaded: LoadedModel) -> int:
    """Copies within local memory that make one row of several lanes."""
    commands = (entry.command.instruction for entry in loaded.timeline("vendor").entries)
    copies = (one for one in commands if isinstance(one, TensorCopy) and not is_gmem(one.source))
    return sum(not is_gmem(one.destination) and one.result_shape()[1] < one.shape[1] for one in copies)


def assert_values(session: Session, result: Built, inputs: dict[str, NDArray[Any]]) -> None:
    [wanted] = Interpreter(result.module).run(inputs).values()
    [got] = session.chip.load(result.data).run(inputs).values()  # hazards are errors
    assert np.array_equal(got.reshape(-1), wanted.reshape(-1))


def test_a_gray_image_costs_half_of_what_the_vendor_needs(tmp_path: Path) -> None:
    cycles = {}
    for boundary in (GRAY, QUANTIZED):
        session, result = built("cv183x", tmp_path, (1, 1, 144, 152), boundary)
        loaded = session.chip.load(result.data)
        cycles[boundary] = loaded.timeline("vendor").cycles
        assert (joins(loaded) > 0) == (boundary is GRAY)
    assert cycles[GRAY] - cycles[QUANTIZED] <= VENDOR_CYCLES / 2


@each("shape", SHAPES)
@each("chip", CHIPS)
def test_strips_have_the_numbers_of_the_module(chip: str, shape: tuple[int, ...], tmp_path: Path) -> None:
    assert_values(*built(chip, tmp_path, shape, GRAY), {"image_raw": pixels(shape)})


@each("ops", [1, 2])
@each("chip", CHIPS)
def test_tables_in_strips_have_the_numbers_of_the_module(chip: str, ops: int, tmp_path: Path) -> None:
    shape = (1, 1, 49, 10)
    session, result = built(chip, tmp_path, shape, QUANTIZED, ops)
    assert ops > 1 or joins(session.chip.load(result.data)) > 0
    assert_values(session, result, {"image": pixels(shape, -128)})


def test_strips_begin_at_vectors_where_rows_allow_it() -> None:
    strips = strips_of(144, 152, 1, CV183X)
    assert strips == Strips(144, 152, rows=2, lanes=19)
    assert strips.view.shape == (72, 19, 1, 16)
    assert strips_of(1, 31, 1, CV183X) == Strips(1, 31, rows=1, lanes=31)
    assert strips_of(1, 37, 1, CV183X) is None


@each("rows", [(0, 6), (1, 6), (1, 2), (2, 4), (3, 5)])
def test_any_rows_come_together(rows: tuple[int, int]) -> None:
    strips, element = Strips(6, 20, rows=2, lanes=8), ScalarType("ui8")
    plane = np.arange(120).reshape(6, 20)
    memory = np.zeros((8, LANE_BYTES), np.uint8)
    for number, strip in enumerate(plane.reshape(3, 8, 5)):
        memory[:, 64 + number * 16 :][:, :5] = strip
    parts = LocalTensor(64, strips.shape(3), "aligned", element)
    flat = memory.reshape(-1)
    for copy in joining(parts, strips, rows, 256, CV183X):
        n, c, _, w = copy.shape
        step, _, _ = copy.source_steps()
        read = [flat[copy.source + i * step + j * LANE_BYTES :][:w] for i in range(n) for j in range(c)]
        flat[copy.destination :][: n * c * w] = np.concatenate(read)
        assert copy.result_steps()[0] == c * w
    assert np.array_equal(flat[256:][: (rows[1] - rows[0]) * 20], plane[slice(*rows)].reshape(-1))


@pytest.mark.interop
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("chip", CHIPS[:2])
def test_the_vendors_model_agrees(chip: str, shape: tuple[int, ...], run_vendor: RunVendor, tmp_path: Path) -> None:
    session, result = built(chip, tmp_path, shape, GRAY)
    inputs = {"image_raw": pixels(shape)}
    path = tmp_path / "net.cvimodel"
    path.write_bytes(result.data)
    [got] = run_vendor(path, inputs).values()
    [wanted] = session.chip.load(result.data).run(inputs).values()
    assert np.array_equal(got.reshape(-1), wanted.reshape(-1))
