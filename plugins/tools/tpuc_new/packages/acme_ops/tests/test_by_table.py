"""On the chip every stored byte becomes the byte that is nearest to the definition's value."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
from acme_ops.gelu7 import Gelu7
from tpuc.api import Registry
from tpuc.api.evaluation import Interpreter, types_of
from tpuc_driver.api.host import Session
from tpuc_testing.kernel_conformance import Sample, sample_module
from tpuc_testing.values import build_exposed


def test_every_byte(tmp_path: Path) -> None:
    x = np.linspace(-9, 9, 255, dtype=np.float32).reshape(1, 5, 51, 1)
    module, inputs = sample_module({"y": Sample(Gelu7(), [x])}, Registry())
    np.savez(tmp_path / "samples.npz", y_x0=x[None])
    session = Session(chip="cv183x", quantize="int8")
    table = session.calibrate(module, dataset=tmp_path / "samples.npz", method="max")
    lowered, data = build_exposed(session, module, table)
    assert "tpu.Lut" in {operation.op.name for operation in lowered.main.operations}
    got = session.chip.load(data).run(inputs)
    (taken,) = (name for name in got if name.startswith("y_x0") and got[name].dtype.kind == "i")
    types = types_of(lowered)
    scale, result_scale = (Fraction(types[name].uniform.scale) for name in (taken, "y"))
    assert len(set(got[taken].reshape(-1).tolist())) > 250
    for q, found in zip(got[taken].reshape(-1).tolist(), got["y"].reshape(-1).tolist(), strict=True):
        real = q * scale
        exact = min(max(real, Fraction(0)), Fraction(7)) + min(max(real, Fraction(-2)), Fraction(0)) / 8
        steps = min(exact / result_scale, Fraction(127))
        assert abs(found - steps) <= Fraction(1, 2)
    assert np.array_equal(got["y"], Interpreter(lowered).run(inputs, "all")["y"])
