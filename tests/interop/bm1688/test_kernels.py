"""Files with every kernel on the vendor's runtime: the simulator's bits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tpuc.registry import Registry
from tpuc_testing.kernel_conformance import CompiledKernels, compile_kernels

from tests.chips.bm1684x.kernels import folded_samples
from tests.chips.bm1684x.kernels.test_kernels import FIRST_FIT, SUBJECTS
from tests.chips.bm1688.test_kernels import CHIP, fitting
from tests.interop.bm1688.conftest import RunFile

pytestmark = pytest.mark.interop


@pytest.mark.parametrize("subject", SUBJECTS)
def test_the_vendors_runtime_equals_the_simulator(subject: str, run_file: RunFile, tmp_path: Path) -> None:
    registry = Registry()
    _compare(compile_kernels(fitting(subject), CHIP, registry, opt=FIRST_FIT), registry, run_file, tmp_path)


def test_the_vendors_runtime_equals_the_simulator_with_folded_rows(run_file: RunFile, tmp_path: Path) -> None:
    registry = Registry()
    _compare(folded_samples.compiled(CHIP, registry), registry, run_file, tmp_path)


def _compare(compiled: CompiledKernels, registry: Registry, run_file: RunFile, tmp_path: Path) -> None:
    path = tmp_path / "kernels.bmodel"
    path.write_bytes(compiled.data)
    ours = registry.get("tpuc.chips", CHIP).load(compiled.data).run(compiled.inputs)
    theirs = run_file(path, compiled.inputs)
    assert set(ours) == set(theirs)
    wrong = [name for name in ours if np.asarray(ours[name]).tobytes() != np.asarray(theirs[name]).tobytes()]
    assert wrong == []
