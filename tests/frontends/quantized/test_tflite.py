"""TFLite's networks of training have their types already: nothing of what is for other files touches them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from tpuc.api import Uniform, UniformPerAxis, print_module
from tpuc.registry import Registry
from tpuc_driver.session import Session
from tpuc_driver.session.modes import needs_calibration, takes_calibration

from tests.frontends.tflite.files import SAME, Tensor, constant
from tests.frontends.tflite.networks import single

SCALES = (0.004, 0.001, 0.009)


def test_a_network_of_training_stays_as_it_is(tmp_path: Path) -> None:
    """Weights of training lie between -127 and 127, and their scales are learned, not those of the greatest."""
    rng = np.random.default_rng(0)
    filters = rng.integers(-90, 91, (3, 3, 3, 2)).astype(np.int8)
    operands = [
        Tensor("x", (1, 6, 6, 2), "INT8", None, (0.05,), (3,)),
        constant("w", filters, SCALES, (0,) * 3),
        constant("b", rng.integers(-300, 300, 3).astype(np.int32), [0.05 * scale for scale in SCALES]),
    ]
    result = Tensor("y", (1, 6, 6, 3), "INT8", None, (0.1,), (-7,))
    options = ("Conv2DOptions", {"Padding": SAME, "StrideH": 1, "StrideW": 1})
    module = single(tmp_path, "CONV_2D", operands, result, options)
    before = print_module(module)
    session = Session(Registry())
    session.manager(session.context()).run(module, ["absorb-quantization"], "test")
    assert print_module(module) == before
    assert not needs_calibration("int8", module)
    assert not takes_calibration("int8", module)
    (convolution,) = (operation for operation in module.main.operations if operation.op.name == "top.Conv")
    weight = convolution.operands[1]
    assert isinstance(weight.tensor.element, UniformPerAxis)
    assert weight.tensor.element.scales == tuple(float(np.float32(scale)) for scale in SCALES)
    np.testing.assert_array_equal(module.weights[weight.name], filters.transpose(0, 3, 1, 2))
    assert isinstance(convolution.result.tensor.element, Uniform)
