"""Tables and files do not depend on the processor: other kernels of BLAS and numpy, and other thread counts, give the
same bytes; nor on the seed of string hashes. Sums in float32 differ in the last digit, which thresholds,
biases and rounded filters show.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from tpuc_driver.session import Session
from tpuc_quantize.calibration.candidate import Candidate
from tpuc_quantize.calibration.race import Race
from tpuc_quantize.options.budgets import BUDGETS

from tests.passes.calibration.digests import NETWORKS, SAMPLES, Graph, samples

ROOT = Path(__file__).resolve().parents[3]
CHIPS = ("bm1684x", "cv181x")
EVERY = [f"{name}.{chip}.{mode}" for name, chip, mode in itertools.product(NETWORKS, CHIPS, ("int8", "f16", "bf16"))]
TYPED = [case for case in EVERY if not case.endswith("cv181x.f16")]
FEW = ["depthwise.cv181x.int8"]

OWN: Mapping[str, str] = {}
OLD = {"OPENBLAS_CORETYPE": "Prescott", "OPENBLAS_NUM_THREADS": "1"}
KERNELS: Sequence[Mapping[str, str]] = (
    {"OPENBLAS_CORETYPE": "Haswell", "OPENBLAS_NUM_THREADS": "1"},
    {"OPENBLAS_CORETYPE": "Haswell", "OPENBLAS_NUM_THREADS": "2"},
    OLD,
    {"OPENBLAS_CORETYPE": "Nehalem", "OPENBLAS_NUM_THREADS": "2"},
    {"NPY_DISABLE_CPU_FEATURES": "AVX512_ICL X86_V4"},
    {"NPY_DISABLE_CPU_FEATURES": "AVX512_ICL X86_V4 X86_V3", **OLD},
)


def digests(cases: Sequence[str], kernels: Mapping[str, str]) -> str:
    chosen = {key: value for key, value in os.environ.items() if not key.startswith(("OPENBLAS_", "NPY_"))}
    command = [sys.executable, "-W", "ignore", "-m", "tests.passes.calibration.digests", *cases]
    done = subprocess.run(command, cwd=ROOT, env={**chosen, **kernels}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_old_kernels_give_the_same_bytes() -> None:
    assert digests(FEW, OLD) == digests(FEW, OWN)


@pytest.mark.slow
def test_all_kernels_and_thread_counts_give_the_same_bytes() -> None:
    wanted = digests(TYPED, OWN)
    for kernels in KERNELS:
        assert digests(TYPED, kernels) == wanted, kernels


def test_means_of_products_are_in_the_order_of_the_network(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Tables list biases in this order; that of a set of names differs with the seed of hashes. Filters are not rounded
    here, as in networks of a billion operations, so that means are known from counting.
    """
    graph = Graph(1, 4, 9, 9)
    for _ in range(8):
        graph.op("Conv", graph.weight(4, 4, 3, 3), graph.weight(4), pads=[1, 1, 1, 1])
    graph.write(tmp_path / "network.onnx")
    session, found, run = Session(), list[list[str]](), Race.run

    def recorded(race: Race) -> Candidate:
        found.extend([*one] for one in race.search.observed.products)
        return run(race)

    monkeypatch.setattr(Race, "run", recorded)
    monkeypatch.setitem(BUDGETS.__dict__, "quick", 0.0)
    session.calibrate(session.transform(tmp_path / "network.onnx"), dataset=samples(graph, tmp_path))
    assert len(found) == SAMPLES
    assert found == [[f"v{number}" for number in range(8)]] * SAMPLES
