"""Concat, Slice and Pad between values that stay: in local memory, at any lane, with the numbers of the module."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tpuc.interpreter import Interpreter
from tpuc.ir import Module
from tpuc_driver.session import Session
from tpuc_plan.tasks.plan import Plan, TilePlan

from tests.chips.bm1684x.moved_networks import NETWORKS, SIZE
from tests.conftest import RunVendor
from tests.families import each
from tests.turns import in_turn

Arrays = dict[str, NDArray[Any]]
MODES = ("int8", "f16", "f32")


def build(name: str, mode: str, work: Path) -> tuple[Session, Module, bytes, Arrays]:
    path = work / "net.onnx"
    path.write_bytes(NETWORKS[name])
    session = Session(chip="bm1684x", quantize=mode)
    module = session.transform(path)
    batch = 3 if name == "batches" else 1
    inputs: Arrays = {"x": np.random.default_rng(1).uniform(-1, 1, (batch, 8, SIZE, SIZE)).astype(np.float32)}
    np.savez(work / "samples.npz", x=inputs["x"])
    table = session.calibrate(module, dataset=work / "samples.npz", options={"tune_num": 0}) if mode == "int8" else None
    final, data, *_ = session.build(module, table)
    return session, final, data, inputs


@each(("name", "mode"), in_turn({name: name for name in NETWORKS}, MODES, lambda _: "move"))
def test_what_is_moved_stays_in_local_memory(name: str, mode: str, tmp_path: Path) -> None:
    session, final, data, inputs = build(name, mode, tmp_path)
    plans = zip(final.main.operations, Plan.of(final).ops, strict=True)
    moved = [plan for operation, plan in plans if operation.name.partition("_image")[0] == "moved"]
    assert len(moved) in (1, 3)  # images of a batch may be planned one by one
    stays = all(isinstance(plan, TilePlan) and not plan.residency.written_back for plan in moved)
    if name != "every other place":  # single elements from lane to lane take as long as by way of DDR
        assert stays
    [wanted] = Interpreter(final).run(inputs).values()
    loaded = session.chip.load(data)
    [got] = loaded.run(inputs).values()  # hazards are errors
    # Copies keep every bit; a sum of f16 or f32 products depends on its order.
    limit = {"int8": 0, "f16": 2**-9, "f32": 2**-20}[mode] * float(np.ptp(wanted))
    assert np.abs(got.reshape(-1).astype(np.float64) - wanted.reshape(-1)).max() <= limit
    if stays:
        commands = [entry.command.instruction for entry in loaded.timeline("vendor").entries]
        written = sum(loaded.ddr_bytes(command)[1] for command in commands)
        assert written <= 1.5 * wanted.size * 4  # the result in f32, perhaps in the type of the mode before


@pytest.mark.interop
@pytest.mark.parametrize("name", NETWORKS)
def test_the_vendors_model_agrees(name: str, run_vendor: RunVendor, tmp_path: Path) -> None:
    _, final, data, inputs = build(name, "int8", tmp_path)
    path = tmp_path / "net.bmodel"
    path.write_bytes(data)
    [got] = run_vendor(path, inputs).values()
    [wanted] = Interpreter(final).run(inputs).values()
    assert np.array_equal(got.reshape(-1), wanted.reshape(-1))
