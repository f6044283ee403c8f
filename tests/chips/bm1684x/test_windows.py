"""Attention in shifted windows: heads, biases and masks in local memory, windows moved in the type that is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tpuc.interpreter import Interpreter
from tpuc.ir import Module
from tpuc_driver.session import Session
from tpuc_ops import tpu

from benchmarks.windows import Stage
from tests.conftest import RunVendor

onnxruntime = pytest.importorskip("onnxruntime")

Arrays = dict[str, NDArray[Any]]
STAGE = Stage(side=12, window=6, heads=2, width=16)
LIMITS = {"f16": (4e-3, 2**-9), "int8": (0.2, 0.0)}
"""Of the range: against floats (a mask of -100 leaves scores few of 256 steps), and against the compiled module."""


def compiled(mode: str, work: Path) -> tuple[Session, Module, bytes, Arrays]:
    (work / "net.onnx").write_bytes(STAGE.model().SerializeToString())
    x = np.random.default_rng(2).normal(0, 1, (1, STAGE.side**2, STAGE.width)).astype(np.float32)
    np.savez(work / "samples.npz", x=x)
    session = Session(chip="bm1684x", quantize=mode)
    module = session.transform(work / "net.onnx")
    samples = work / "samples.npz"
    table = session.calibrate(module, dataset=samples, options={"tune_num": 0}) if mode == "int8" else None
    final, data, *_ = session.build(module, table)
    return session, final, data, {"x": x}


@pytest.mark.parametrize("mode", LIMITS)
def test_windows_move_in_the_type_that_is_read(mode: str, tmp_path: Path) -> None:
    session, final, data, inputs = compiled(mode, tmp_path)
    moves = (tpu.Permute, tpu.Slice, tpu.Concat)
    bits = [o.result.tensor.storage.bits for o in final.main.operations if isinstance(o.op, moves)]
    assert len(bits) > 10
    assert max(bits) <= (16 if mode == "f16" else 8)
    loaded = session.chip.load(data)
    [got] = loaded.run(inputs).values()
    runtime = onnxruntime.InferenceSession((tmp_path / "net.onnx").read_bytes(), providers=["CPUExecutionProvider"])
    [wanted] = runtime.run(None, inputs)
    [exact] = Interpreter(final).run(inputs).values()
    against_floats, against_module = (limit * np.ptp(wanted) for limit in LIMITS[mode])
    assert np.abs(got - wanted).max() <= against_floats
    assert np.abs(got - exact.reshape(got.shape)).max() <= against_module
    commands = [entry.command.instruction for entry in loaded.timeline("vendor").entries]
    # Scores alone have 2.25 times as many elements as the result; three partitions and joins pass through DDR.
    assert sum(loaded.ddr_bytes(command)[1] for command in commands) <= 12 * got.nbytes


@pytest.mark.interop
@pytest.mark.parametrize("mode", LIMITS)
def test_the_vendors_model_agrees_on_windows(mode: str, run_vendor: RunVendor, tmp_path: Path) -> None:
    session, _, data, inputs = compiled(mode, tmp_path)
    (tmp_path / "net.bmodel").write_bytes(data)
    [got] = run_vendor(tmp_path / "net.bmodel", inputs).values()
    [own] = session.chip.load(data).run(inputs).values()
    assert np.array_equal(got.reshape(-1), own.reshape(-1))
