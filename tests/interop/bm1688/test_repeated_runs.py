"""Files for two cores on the vendor's runtime again and again, which runs both cores in threads: always the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks import traffic
from tests.interop.bm1688.conftest import RunFile

RUNS = 20
"""A file without a barrier in front gave wrong numbers in 13 of 44 runs."""

pytestmark = [pytest.mark.interop, pytest.mark.slow]


@pytest.mark.parametrize(("name", "mode"), [("squeezenet", "bf16"), ("blazeface", "f16"), ("yunet_n_320", "int8")])
def test_every_run_gives_the_simulators_bits(
    name: str, mode: str, model_data: Path, run_file: RunFile, tmp_path: Path
) -> None:
    source = traffic.network_file(name, model_data, tmp_path)
    session, built = traffic.compiled(name, source, "bm1688", mode, tmp_path, cores=2)
    path = tmp_path / "two.bmodel"
    path.write_bytes(built.data)
    loaded = session.chip.load(built.data)
    assert {part.core for part in loaded._parts} == {0, 1}
    random = np.random.default_rng(0)
    inputs = {info.name: random.standard_normal(info.shape).astype(np.float32) for info in loaded.inputs}
    wanted = {name: array.tobytes() for name, array in loaded.run(inputs).items()}
    found = [{name: array.tobytes() for name, array in run_file(path, inputs).items()} for _ in range(RUNS)]
    assert [number for number, outputs in enumerate(found) if outputs != wanted] == []
