"""TOP modules of real networks on the interpreter give what ONNX Runtime gives."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnxruntime
import pytest
from tpuc.interpreter import Interpreter
from tpuc_driver.similarity import cosine

from tests.models.networks import NETWORKS, Network


@pytest.mark.parametrize("name", NETWORKS)
def test_top_on_the_interpreter_equals_onnx_runtime(name: str, network: Callable[[str], Network]) -> None:
    net = network(name)
    reference = onnxruntime.InferenceSession(str(net.path))
    host = Interpreter(net.module)
    for index in range(20):
        inputs = net.inputs(index)
        (got,) = host.run(inputs).values()
        (wanted,) = reference.run(None, inputs)
        assert cosine(got, wanted) >= 0.99999
        assert np.abs(got - wanted).max() <= 1e-4 * np.ptp(wanted)
