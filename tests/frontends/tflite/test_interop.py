"""Quantized networks compiled without calibration compute the same integers on the vendor's model of the chip."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tpuc.interpreter import Interpreter
from tpuc_driver.session import Session
from tpuc_tflite.loading import load_graph

from tests.conftest import RunVendor
from tests.frontends.tflite.test_networks import QUANTIZED, samples

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.chip("bm1684x")]


@pytest.mark.parametrize("name", QUANTIZED)
def test_the_vendors_model_gives_the_same_integers(
    name: str, model_data: Path, run_vendor: RunVendor, tmp_path: Path
) -> None:
    path = model_data / "tflite" / f"{name}.tflite"
    # Softmax runs in floats on the chip, whose exponentials end in other bits: look at what goes into it.
    ends = tuple(node.inputs[0] for node in load_graph(path).nodes if node.op_type == "SOFTMAX")
    session = Session(chip="bm1684x", quantize="int8")
    top = session.transform(path, output_names=ends)
    final, data, *_ = session.build(top)
    compiled = tmp_path / "net.bmodel"
    compiled.write_bytes(data)
    given = top.main.inputs[0].tensor.uniform
    x, _ = samples(model_data, name)[0]
    real = ((x.astype(np.float64) - given.zero_point) * given.scale).astype(np.float32)
    real = np.ascontiguousarray(real.transpose(0, 3, 1, 2)) if real.ndim == 4 else real
    interpreter = Interpreter(final)
    (input_name,) = interpreter.inputs
    (theirs,) = run_vendor(compiled, {input_name: real}).values()
    (ours,) = interpreter.run({input_name: real}).values()
    simulated = next(iter(session.chip.load(data).run({input_name: real}).values()))
    np.testing.assert_array_equal(ours.reshape(-1), theirs.reshape(-1))
    np.testing.assert_array_equal(simulated.reshape(-1), theirs.reshape(-1))
