"""Networks compiled for CV186x and BM1688: evaluation, simulator and the vendor's runtime give the same numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tpuc.interpreter import Interpreter
from tpuc_driver.session import Session
from tpuc_testing.values import build_exposed

from benchmarks.traffic import compiled, network_file
from tests.chips.bm1684x.test_networks import assert_same
from tests.interop.bm1688.conftest import RunFile
from tests.models.networks import NETWORKS, Network

CHIP = "cv186x"
MODES = ("f32", "f16", "bf16", "int8", "int8-asym")
PAIRS = [*((CHIP, mode) for mode in MODES), *(("bm1688", mode) for mode in ("f16", "int8"))]
LARGER = (
    *(("kws", mode) for mode in MODES),
    *(("mobilenet_v1_0.25_128", "int8"), ("mobilenet_v2_quant", "int8-asym"), ("blazeface", "f16")),
    *(("lenet", "bf16"), ("squeezenet", "int8"), ("yunet_n_320", "f16")),
)

pytestmark = pytest.mark.interop


def _bits(arrays: Mapping[str, NDArray[Any]]) -> dict[str, bytes]:
    return {name: np.ascontiguousarray(array).tobytes() for name, array in arrays.items()}


@pytest.mark.parametrize(("chip", "mode"), PAIRS)
@pytest.mark.parametrize("name", NETWORKS)
def test_the_vendors_runtime_equals_the_evaluation(
    name: str, chip: str, mode: str, network: Callable[[str], Network], run_file: RunFile, tmp_path: Path
) -> None:
    net = network(name)
    session = Session(chip=chip, quantize=mode)
    final, data = build_exposed(session, net.module, net.table if mode.startswith("int8") else None)
    inputs = net.inputs(3)
    path = tmp_path / f"{name}.bmodel"
    path.write_bytes(data)
    simulated, theirs = session.chip.load(data).run(inputs), run_file(path, inputs)
    assert _bits(simulated) == _bits(theirs)
    if mode not in ("f16", "bf16"):  # whose evaluation on the host sums in another order
        assert_same(theirs, Interpreter(final).run(inputs, "all"), dict.fromkeys(simulated, np.empty(0)))


@pytest.mark.parametrize(("name", "mode"), LARGER)
def test_the_vendors_runtime_equals_the_simulator_bit_for_bit(
    name: str, mode: str, model_data: Path, run_file: RunFile, tmp_path: Path
) -> None:
    source = network_file(name, model_data, tmp_path)
    session, built = compiled(name, source, CHIP, mode, tmp_path)
    path = tmp_path / f"{name}_{mode}.bmodel"
    path.write_bytes(built.data)
    loaded = session.chip.load(built.data)
    random = np.random.default_rng(0)
    inputs = {info.name: random.standard_normal(info.shape).astype(np.float32) for info in loaded.inputs}
    assert _bits(loaded.run(inputs)) == _bits(run_file(path, inputs))
