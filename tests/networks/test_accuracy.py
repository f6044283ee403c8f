"""How well the networks do: TOP against ONNX Runtime, int8 on the simulator against the labels."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnxruntime
import pytest
from tpuc.interpreter import Interpreter
from tpuc.session import Session
from tpuc.similarity import cosine

from tests.networks.conftest import NETWORKS, Network

# Right answers of 200 that the float network gives, and the least that int8 must give.
EXPECTED = {"digits": (198, 196), "mnist": (198, 197), "resnet8": (161, 159)}


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


@pytest.mark.parametrize("name", NETWORKS)
def test_int8_keeps_the_accuracy(name: str, network: Callable[[str], Network]) -> None:
    net = network(name)
    session = Session(chip="bm1684x", quantize="int8")
    _, data = session.build(net.module, net.table)
    loaded = session.chip.load(data)
    host = Interpreter(net.module)
    right_float = right_int8 = 0
    for index, label in enumerate(net.labels):
        inputs = net.inputs(index)
        right_float += int(np.argmax(next(iter(host.run(inputs).values()))) == label)
        right_int8 += int(np.argmax(next(iter(loaded.run(inputs).values()))) == label)
    assert right_float == EXPECTED[name][0]
    assert right_int8 >= EXPECTED[name][1], f"{right_int8} of {len(net.labels)}"
