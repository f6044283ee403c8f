"""Evaluation of the TPU module, our simulator and the vendor's functional model give the same numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tpuc.interpreter import Interpreter
from tpuc.session import Session
from tpuc.testing.values import build_exposed

from tests.conftest import RunVendor
from tests.networks.conftest import NETWORKS, Network

Arrays = Mapping[str, NDArray[Any]]


def _assert_same(got: Arrays, wanted: Arrays, source: Arrays) -> None:
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


def _build(net: Network, mode: str) -> tuple[Session, Arrays, bytes, Arrays]:
    session = Session(chip="bm1684x", quantize=mode)
    final, data = build_exposed(session, net.module, net.table if mode == "int8" else None)
    inputs = net.inputs(3)
    return session, inputs, data, Interpreter(final).run(inputs, "all")


@pytest.mark.parametrize("mode", ["int8", "f32"])
@pytest.mark.parametrize("name", NETWORKS)
def test_the_simulator_equals_the_evaluation(name: str, mode: str, network: Callable[[str], Network]) -> None:
    session, inputs, data, wanted = _build(network(name), mode)
    loaded = session.chip.load(data)
    got = loaded.run(inputs)
    _assert_same(got, wanted, {info.name: np.empty(0) for info in loaded.outputs})


@pytest.mark.interop
@pytest.mark.parametrize("mode", ["int8", "f32"])
@pytest.mark.parametrize("name", NETWORKS)
def test_the_vendors_model_equals_the_evaluation(
    name: str, mode: str, network: Callable[[str], Network], run_vendor: RunVendor, tmp_path: Path
) -> None:
    session, inputs, data, wanted = _build(network(name), mode)
    path = tmp_path / f"{name}.bmodel"
    path.write_bytes(data)
    names = [info.name for info in session.chip.load(data).outputs]
    _assert_same(run_vendor(path, inputs), wanted, dict.fromkeys(names, np.empty(0)))
