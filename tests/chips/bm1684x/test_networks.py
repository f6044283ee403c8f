"""Real networks: evaluation of the TPU module and simulator give the same numbers, and int8 keeps the accuracy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tpuc.interpreter import Interpreter
from tpuc_driver.session import Session
from tpuc_testing.values import build_exposed

from tests.models.networks import NETWORKS, Network

LABELS = 100
# Right answers of so many that the float network gives, and the least that int8 must give.
EXPECTED = {"digits": (100, 99), "mnist": (98, 97), "resnet8": (85, 84)}

Arrays = Mapping[str, NDArray[Any]]


def assert_same(got: Arrays, wanted: Arrays, source: Arrays) -> None:
    """Integers equal; f32 within 1e-4 of the tensor's range, the bound of the chip's contract for float tensors."""
    assert got.keys() == source.keys()
    integers = 0
    for name, array in got.items():
        reference = wanted[name]
        if array.dtype.kind in "iu":
            integers += 1
            assert np.array_equal(array.reshape(reference.shape), reference), name
        else:
            error = np.abs(array.reshape(reference.shape).astype(np.float64) - reference).max()
            assert error <= 1e-4 * max(float(np.ptp(reference)), 1e-30), name
    assert integers or all(array.dtype == np.float32 for array in got.values())


def build(net: Network, mode: str) -> tuple[Session, Arrays, bytes, Arrays]:
    session = Session(chip="bm1684x", quantize=mode)
    final, data = build_exposed(session, net.module, net.table if mode == "int8" else None)
    inputs = net.inputs(3)
    return session, inputs, data, Interpreter(final).run(inputs, "all")


@pytest.mark.parametrize("mode", ["int8", "f32"])
@pytest.mark.parametrize("name", NETWORKS)
def test_the_simulator_equals_the_evaluation(name: str, mode: str, network: Callable[[str], Network]) -> None:
    session, inputs, data, wanted = build(network(name), mode)
    loaded = session.chip.load(data)
    got = loaded.run(inputs)
    assert_same(got, wanted, {info.name: np.empty(0) for info in loaded.outputs})


@pytest.mark.parametrize("name", NETWORKS)
def test_int8_keeps_the_accuracy(name: str, network: Callable[[str], Network]) -> None:
    net = network(name)
    session = Session(chip="bm1684x", quantize="int8")
    data = session.build(net.module, net.table).data
    loaded = session.chip.load(data)
    host = Interpreter(net.module)
    right_float = right_int8 = 0
    for index, label in enumerate(net.labels[:LABELS]):
        inputs = net.inputs(index)
        right_float += int(np.argmax(next(iter(host.run(inputs).values()))) == label)
        right_int8 += int(np.argmax(next(iter(loaded.run(inputs).values()))) == label)
    assert right_float == EXPECTED[name][0]
    assert right_int8 >= EXPECTED[name][1], f"{right_int8} of {LABELS}"
