"""Networks that come quantized on the vendor's functional model: integers go in, with filters of nine bits and sums."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from tpuc.interpreter import Interpreter
from tpuc_driver.data import inputs_of
from tpuc_driver.session import Session
from tpuc_driver.session.running import as_stored

from tests.chips.cv18.vendor import assert_same_bits
from tests.conftest import RunVendor
from tests.frontends.quantized.clipping import Cases, draw_cases
from tests.frontends.quantized.shares import draw_shares
from tests.frontends.quantized.test_constants import affine
from tests.passes.test_stated_on_chips import gated, joined, nearly_bytes, residual


@pytest.mark.interop
@pytest.mark.parametrize("kind", ["int8", "uint8", "joined", "gated", "nearly_bytes"])
def test_the_vendors_model_equals_simulator_and_evaluation(kind: str, run_vendor: RunVendor, tmp_path: Path) -> None:
    network = {
        "int8": lambda: residual(tmp_path, np.int8),
        "uint8": lambda: residual(tmp_path, np.uint8),
        "joined": lambda: joined(tmp_path),
        "gated": lambda: gated(tmp_path),
        "nearly_bytes": lambda: nearly_bytes(tmp_path),
    }[kind]()
    session = Session(chip="cv183x", quantize="int8")
    built = session.build(session.transform(network))
    path = tmp_path / "stated.cvimodel"
    path.write_bytes(built.data)
    (given,) = inputs_of(built.module)
    assert given.store is not None
    x = np.random.default_rng(0).normal(0, 2, given.shape).astype(np.float32)
    sample = {given.name: given.store(x)}
    assert len(np.unique(sample[given.name])) > 100
    vendor = run_vendor(path, sample)
    assert_same_bits(session.chip.load(built.data).run(sample), vendor)
    (wanted,), (got,) = Interpreter(built.module).run(sample).values(), vendor.values()
    np.testing.assert_array_equal(got.reshape(wanted.shape), wanted)


MIXED = ("Mul", "ReduceMin", "ReduceSum", "PRelu", "AveragePool", "Concat", "Relu", "Conv", "Resize")
"""Ops whose forms are products of two tensors by tables, opposites, tables by channel, whole shares, relus behind."""


@pytest.mark.interop
@pytest.mark.parametrize("kind", ["affine", "mixed", "softmax", "Softmax", "LogSoftmax"])
def test_ops_between_casts_are_those_of_the_vendors_model(kind: str, run_vendor: RunVendor, tmp_path: Path) -> None:
    chosen = MIXED if kind == "mixed" else ("Softmax", "Tanh")
    if kind in ("Softmax", "LogSoftmax"):
        shares = draw_shares(5, 12, kind)
        model, inputs = shares.model, shares.inputs
    else:
        cases: Cases = affine(3) if kind == "affine" else draw_cases(11, 8, chosen)
        model, inputs = cases.model(), cases.inputs
    onnx.save(model, tmp_path / "network.onnx")
    session = Session(chip="cv183x", quantize="int8")
    built = session.build(session.transform(tmp_path / "network.onnx"))
    path = tmp_path / "network.cvimodel"
    path.write_bytes(built.data)
    given = as_stored(inputs_of(built.module), dict(inputs))
    vendor = run_vendor(path, given)
    assert_same_bits(session.chip.load(built.data).run(given), vendor)
    if not kind.lower().endswith("softmax"):  # whose quotients are tables on the chip
        for name, wanted in Interpreter(built.module).run(given).items():
            np.testing.assert_array_equal(vendor[name].reshape(wanted.shape), wanted)
