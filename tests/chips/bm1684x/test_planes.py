"""Planes of one channel: computed in all lanes and brought into the lane that the next op reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tpuc.api import DdrTensor, LoadedModel, LocalTensor, ScalarType
from tpuc.interpreter import Interpreter
from tpuc.ir import Module
from tpuc_bm1684x.assembler import Bm1684xAssembler
from tpuc_bm1684x.isa import LaneTransfer, TransferOp, TransposeCW
from tpuc_bm1684x.isa.geometry import DDR_BASE
from tpuc_driver.session import Boundary, Session

from tests.chips.cv18.op_networks import Net
from tests.conftest import RunVendor
from tests.families import each

VENDOR_CYCLES = 1220
"""Of the vendor's file until 144x152 gray pixels are a network's input."""
MEAN, SCALE = 110.3, 0.0171
SIZES = [(144, 152), (28, 28), (300, 300), (31, 64)]
"""Of 64, 56, 60 and 62 lanes."""
GRAY, QUANTIZED = Boundary(True, "GRAYSCALE"), Boundary(quant_input=True)


def build(work: Path, size: tuple[int, int], mode: str, boundary: Boundary, *, table: bool = False) -> tuple[Any, ...]:
    """A session, the module and the file of a network that reads gray images. `table`: with a table in front."""
    net, shape = Net(), (1, 1, *size)
    if table:
        net.op("Sigmoid", ["image"], "s")
    net.op("Conv", ["s" if table else "image", net.normal("w", (8, 1, 3, 3), 0.2)], "y", strides=[2, 2], pads=[1] * 4)
    path = net.save(work / "net.onnx", {"image": shape}, ["y"])
    session = Session(chip="bm1684x", quantize=mode)
    said = {"mean": (MEAN,), "scale": (SCALE,), "pixel_format": "gray"}
    module = session.transform(path, preprocess=said)
    calibration = None
    if mode == "int8":
        floats = (pixels(shape).astype(np.float32) - np.float32(MEAN)) * np.float32(SCALE)
        np.savez(work / "samples.npz", image=floats[None])
        calibration = session.calibrate(module, dataset=work / "samples.npz", options={"tune_num": 0})
    final, data, *_ = session.build(module, calibration, boundary=boundary)
    return session, final, data


def pixels(shape: tuple[int, ...], first: int = 0) -> NDArray[Any]:
    return np.random.default_rng(0).integers(first, first + 256, shape).astype(np.int8 if first else np.uint8)


def cycles(loaded: LoadedModel) -> int:
    return loaded.timeline("vendor").cycles


def gathers(loaded: LoadedModel) -> int:
    """Commands that bring elements in turn into one lane."""
    commands = [entry.command.instruction for entry in loaded.timeline("vendor").entries]
    return sum(isinstance(one, LaneTransfer) and one.operation is TransferOp.TRANSPOSE_WC for one in commands)


def assert_values(session: Session, final: Module, data: bytes, inputs: dict[str, NDArray[Any]], exact: bool) -> None:
    [wanted] = Interpreter(final).run(inputs).values()
    [got] = session.chip.load(data).run(inputs).values()  # hazards are errors
    limit = 0 if exact else 2**-9 * float(np.ptp(wanted))
    assert np.abs(got.reshape(-1).astype(np.float64) - wanted.reshape(-1)).max() <= limit


def test_a_gray_image_costs_half_of_what_the_vendor_needs(tmp_path: Path) -> None:
    session, _, data = build(tmp_path, (144, 152), "int8", GRAY)
    _, _, plain = build(tmp_path, (144, 152), "int8", QUANTIZED)
    loaded = session.chip.load(data)
    assert gathers(loaded) > 0
    assert cycles(loaded) - cycles(session.chip.load(plain)) <= VENDOR_CYCLES / 2


@each("size", SIZES)
@each("mode", ["int8", "f16"])
def test_pixels_in_turn_have_the_numbers_of_the_module(size: tuple[int, int], mode: str, tmp_path: Path) -> None:
    session, final, data = build(tmp_path, size, mode, GRAY)
    assert_values(session, final, data, {"image_raw": pixels((1, 1, *size))}, mode == "int8")
    if mode == "int8":
        assert gathers(session.chip.load(data)) > 0


def test_a_table_in_turn_has_the_numbers_of_the_module(tmp_path: Path) -> None:
    session, final, data = build(tmp_path, (144, 152), "int8", QUANTIZED, table=True)
    assert gathers(session.chip.load(data)) > 0
    assert_values(session, final, data, {"image": pixels((1, 1, 144, 152), -128)}, True)


def test_what_a_kernel_computes_counts_beside_what_it_transfers(tmp_path: Path) -> None:
    session, _, data = build(tmp_path, (144, 152), "int8", GRAY, table=True)
    _, _, plain = build(tmp_path, (144, 152), "int8", GRAY)
    in_one_lane = 144 * 152  # a table takes a cycle for each element of a lane
    assert cycles(session.chip.load(data)) - cycles(session.chip.load(plain)) < in_one_lane / 4


def test_elements_in_turn_are_loaded_as_rows() -> None:
    shape = (1, 64, 342, 1)
    byte = ScalarType("ui8")
    asm = Bm1684xAssembler()
    asm.load(LocalTensor(0, shape, "aligned", byte), DdrTensor(DDR_BASE, shape, (21888, 1, 64, 64), byte))
    (command,) = asm.instructions
    assert isinstance(command, TransposeCW)
    assert (command.shape, command.result_shape()) == ((1, 342, 1, 64), (1, 64, 1, 342))
    read, written = command.strides()
    assert (read[1], read[3], written[3]) == (64, 1, 1)


@pytest.mark.interop
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("mode", ["int8", "f16"])
def test_the_vendors_model_agrees(size: tuple[int, int], mode: str, run_vendor: RunVendor, tmp_path: Path) -> None:
    session, _, data = build(tmp_path, size, mode, GRAY)
    inputs = {"image_raw": pixels((1, 1, *size))}
    path = tmp_path / "net.bmodel"
    path.write_bytes(data)
    [got] = run_vendor(path, inputs).values()
    [wanted] = session.chip.load(data).run(inputs).values()
    assert np.array_equal(got.reshape(-1), wanted.reshape(-1))
