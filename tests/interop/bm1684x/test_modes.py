"""Networks in f16, bf16 and asymmetric int8, and with a mode per layer, on the vendor's functional model, op by op."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tpuc_driver.data import inputs_of
from tpuc_driver.session import Session
from tpuc_testing.values import build_exposed, expose_values

from tests.chips.bm1684x.steps import check_steps
from tests.chips.bm1684x.test_modes import MIXED, STORAGE, mixed_table
from tests.conftest import RunVendor
from tests.models.measures import TASKS
from tests.models.networks import NETWORKS, Network
from tests.models.real import network_file, samples_of

pytestmark = pytest.mark.interop


@pytest.mark.parametrize("mode", STORAGE)
@pytest.mark.parametrize("name", NETWORKS)
def test_small_networks(
    name: str, mode: str, network: Callable[[str], Network], run_vendor: RunVendor, tmp_path: Path
) -> None:
    net = network(name)
    final, data = build_exposed(
        Session(chip="bm1684x", quantize=mode), net.module, net.table if mode == "int8-asym" else None
    )
    assert check_steps(final, _run(data, net.inputs(3), run_vendor, tmp_path))[STORAGE[mode]] > 3


@pytest.mark.slow
@pytest.mark.parametrize("mode", STORAGE)
@pytest.mark.parametrize("name", [*TASKS, "resnet50"])
def test_real_networks(name: str, mode: str, model_data: Path, run_vendor: RunVendor, tmp_path: Path) -> None:
    session = Session(chip="bm1684x", quantize=mode)
    module = session.transform(network_file(name, model_data, tmp_path))
    (spec,) = inputs_of(module)
    samples = samples_of(name, spec.shape, model_data)
    np.savez(tmp_path / "samples.npz", **{spec.name: samples.reshape(-1, *spec.shape)})
    table = session.calibrate(module, dataset=tmp_path / "samples.npz", options={"tune_num": 0})
    final, data = build_exposed(session, module, table if mode == "int8-asym" else None)
    values = _run(data, {spec.name: samples[0].reshape(spec.shape)}, run_vendor, tmp_path)
    assert check_steps(final, values)[STORAGE[mode]] > 3


@pytest.mark.parametrize("modes", MIXED, ids="-".join)
@pytest.mark.parametrize("mode", ["int8", "int8-asym"])
def test_every_layer_in_another_mode(
    mode: str, modes: tuple[str, ...], network: Callable[[str], Network], run_vendor: RunVendor, tmp_path: Path
) -> None:
    net = network("resnet8")
    session = Session(chip="bm1684x", quantize=mode)
    modes_of_layers = mixed_table(net.module, tmp_path, modes)
    final, data, *_ = session.build(net.module, net.table, modes_of_layers, after_lowering=expose_values)
    assert check_steps(final, _run(data, net.inputs(3), run_vendor, tmp_path))


def _run(data: bytes, inputs: dict[str, Any], run_vendor: RunVendor, work: Path) -> dict[str, Any]:
    path = work / "model.bmodel"
    path.write_bytes(data)
    return run_vendor(path, inputs, timeout=900) | inputs  # its 16-bit convolutions of ResNet-50 take minutes
