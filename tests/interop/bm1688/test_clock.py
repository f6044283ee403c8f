"""Files for two cores by the vendor's clock: its cost of every command, and the time of the whole program."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tpuc_driver.session import Session

from tests.chips.bm1688.timing.vendor import Clock
from tests.families import each
from tests.passes.planning import test_apart, test_images

NETWORKS: dict[str, Callable[[Path], None]] = {
    "images apart": lambda path: test_images._network(path, 4),
    "images and rows": lambda path: test_images._network(path, 3),
    "rows and tiles": lambda path: test_apart._network(path, 64),
    "odd rows": lambda path: test_apart._network(path, 61),
}
CASES = [(name, mode) for name in NETWORKS for mode in ("f32", "f16", "bf16")]
EQUAL, TOTAL = 0.995, 0.01
"""Least share of equal costs; largest difference of totals."""

pytestmark = pytest.mark.interop


def _compiled(name: str, mode: str, folder: Path) -> tuple[Session, Path]:
    NETWORKS[name](folder / "net.onnx")
    session = Session(chip="bm1688", quantize=mode, cores=2)
    path = folder / "net.bmodel"
    path.write_bytes(session.build(session.transform(folder / "net.onnx")).data)
    return session, path


@each(("name", "mode"), CASES)
def test_programs_of_two_cores_take_the_time_of_the_vendors_clock(
    name: str, mode: str, oracle_dir: Path, tmp_path: Path
) -> None:
    session, path = _compiled(name, mode, tmp_path)
    with Clock(oracle_dir) as alone, Clock(oracle_dir, "shared") as beside:
        report = alone.report(path, beside=beside)
    loaded = session.chip.load(path.read_bytes())
    assert {part.core for part in loaded._parts} == {0, 1}
    assert report.model_total == loaded.timeline("vendor").cycles
    timed = report.sum("commands") - report.sum("untimed")
    assert report.untimed_share < 0.02
    assert report.sum("equal") >= EQUAL * timed, report.worst
    assert abs(report.ratio - 1) <= TOTAL


def test_another_rate_of_memory_gives_other_times(oracle_dir: Path, tmp_path: Path) -> None:
    """While both cores work, each has 15 GB/s, not 24."""
    _, path = _compiled("odd rows", "f16", tmp_path)
    with Clock(oracle_dir, "shared") as shared:
        report = shared.report(path, beside=shared)
        with Clock(oracle_dir) as alone:
            other = shared.report(path, beside=alone)
    assert other.vendor_total < 0.95 * report.vendor_total
