"""The pass does what its golden text says, and keeps the values."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from tpuc.api import PassContext, Registry
from tpuc.api.evaluation import Interpreter
from tpuc_driver.api.host import Session
from tpuc_testing.golden import run_golden

GOLDEN = Path(__file__).with_name("pow-to-mul.mlir")


def test_the_golden_text() -> None:
    run_golden(GOLDEN)


def test_the_values_stay() -> None:
    registry = Registry()
    module = Session(registry).load(GOLDEN)
    assert registry.get("tpuc.passes", "pow-to-mul")().run(module, PassContext(registry))
    x = np.array([[0.0, 0.5, 1.0, 2.0]], np.float32)
    np.testing.assert_allclose(Interpreter(module).run({"x": x})["root"], x, rtol=1e-6)
