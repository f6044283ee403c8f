"""Networks in each of ONNX Runtime's quantized forms: evaluation, simulator and the vendor's functional model agree."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from onnxruntime.quantization import QuantFormat, QuantType
from tpuc.interpreter import Interpreter
from tpuc_driver.data import inputs_of
from tpuc_driver.session import Session

from tests.conftest import RunVendor
from tests.frontends.quantized.networks import FORMS, Form, quantized, quantized_dynamically, samples

pytestmark = pytest.mark.interop

OPERATORS = Form(QuantType.QUInt8, QuantType.QInt8, False, QuantFormat.QOperator)
INTEGERS: Mapping[str, Form] = {**FORMS, "operators": OPERATORS}
CHIPS = [pytest.param(chip, marks=pytest.mark.chip(chip)) for chip in ("bm1684x", "cv183x")]
NEAR = {"bm1684x": 2.0**-20, "cv183x": 2.0**-7}
"""Of a float's range, where networks are floats: sums and functions in another order."""


def three_ways(network: Path, chip: str, folder: Path, run_vendor: RunVendor) -> list[NDArray[Any]]:
    """The one output by evaluation, by the simulator and by the vendor's model."""
    session = Session(chip=chip)
    built = session.build(session.transform(network))
    file = folder / f"network{session.chip.description.suffix}"
    file.write_bytes(built.data)
    (given,), (x,) = inputs_of(built.module), samples(1, seed=3)
    sample = {given.name: x if given.store is None else given.store(x)}
    runs = (
        Interpreter(built.module).run(sample),
        session.chip.load(built.data).run(sample),
        run_vendor(file, sample),
    )
    arrays = [result for run in runs for result in run.values()]
    return [array.reshape(-1).view(arrays[0].dtype) for array in arrays]


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("opset", [13, 21])
@pytest.mark.parametrize("form", INTEGERS)
def test_integers_are_the_same_to_the_bit(
    form: str, opset: int, chip: str, run_vendor: RunVendor, tmp_path: Path
) -> None:
    evaluated, simulated, theirs = three_ways(quantized(tmp_path, INTEGERS[form], opset), chip, tmp_path, run_vendor)
    assert len(np.unique(evaluated)) > 3
    np.testing.assert_array_equal(simulated, evaluated)
    np.testing.assert_array_equal(theirs, simulated)


@pytest.mark.parametrize("chip", CHIPS)
def test_what_is_quantized_as_it_comes(chip: str, run_vendor: RunVendor, tmp_path: Path) -> None:
    evaluated, simulated, theirs = three_ways(quantized_dynamically(tmp_path, 13), chip, tmp_path, run_vendor)
    bound = NEAR[chip] * float(np.abs(simulated).max())
    np.testing.assert_allclose(simulated, evaluated, rtol=0, atol=bound)
    np.testing.assert_allclose(theirs, simulated, rtol=0, atol=bound)
