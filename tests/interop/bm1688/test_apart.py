"""Networks, one sample, on both cores of BM1688: the vendor's runtime gives the simulator's bits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tpuc.api import stretches

from benchmarks import cores, traffic
from tests.interop.bm1688.conftest import RunFile

pytestmark = pytest.mark.interop


@pytest.mark.parametrize(
    ("name", "mode", "gain"),
    [
        ("blazeface", "f16", 1.15),
        ("yunet_n_320", "f16", 1.5),
        ("squeezenet", "bf16", 1.0),
        ("yunet_n_320", "int8", 1.2),
        ("tcn", "f16", 1.6),
        ("tcn", "int8", 1.35),
    ],
)
def test_the_runtime_equals_the_simulator(
    name: str,
    mode: str,
    gain: float,
    model_data: Path,
    run_file: RunFile,
    tmp_path: Path,
) -> None:
    source = cores.network_file(name, model_data, tmp_path)
    one = traffic.compiled(name, source, "bm1688", mode, tmp_path)[1].data
    session, built = traffic.compiled(name, source, "bm1688", mode, tmp_path, cores=2)
    path = tmp_path / "two.bmodel"
    path.write_bytes(built.data)
    alone, loaded = session.chip.load(one), session.chip.load(built.data)
    assert alone.timeline("vendor").cycles >= gain * loaded.timeline("vendor").cycles
    random = np.random.default_rng(0)
    inputs = {info.name: random.standard_normal(info.shape).astype(np.float32) for info in loaded.inputs}
    wanted = {name: array.tobytes() for name, array in alone.run(inputs).items()}
    assert {name: array.tobytes() for name, array in run_file(path, inputs).items()} == wanted
    loaded._runner.steps = tuple(part for stretch in stretches(loaded._parts) for part in reversed(stretch))
    assert {name: array.tobytes() for name, array in loaded.run(inputs).items()} == wanted, "the second core first"
