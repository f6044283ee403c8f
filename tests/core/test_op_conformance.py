"""What the conformance tests of ops ask of who writes them."""

from __future__ import annotations

import numpy as np
import pytest
from tpuc.testing.op_conformance import OpConformance, onnx_node


def test_a_test_states_what_it_is_about() -> None:
    with pytest.raises(TypeError, match=r"^TestNothing must state op, reference, samples, flops$"):
        type("TestNothing", (OpConformance,), {})
    assert issubclass(type("Base", (OpConformance,), {}), OpConformance)


def test_a_reference_has_the_attributes_that_it_is_given() -> None:
    with pytest.raises(ValueError, match=r"^no version of Relu has all of alpha, beta$"):
        onnx_node("Relu", beta=1.0, alpha=1.0)(np.ones(1, np.float32))
    (result,) = onnx_node("LeakyRelu", alpha=0.5)(np.array([-2.0, 2.0], np.float32))
    np.testing.assert_array_equal(result, np.array([-1.0, 2.0], np.float32))
