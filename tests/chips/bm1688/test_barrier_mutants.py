"""The proof over both cores: every barrier and message that is dropped, moved or wrong is refused where it matters."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tpuc_chip_parts import simulator
from tpuc_driver.session import Session

from tests.chips.bm1688.barrier_mutants import MATTERING, try_mutants
from tests.families import each
from tests.passes.planning import test_apart, test_images

NETWORKS: dict[str, Callable[[Path], None]] = {
    "images apart": lambda path: test_images._network(path, 4),
    "rows and tiles apart": lambda path: test_apart._network(path, 61),
}


def _compiled(name: str, folder: Path) -> bytes:
    path = folder / "net.onnx"
    NETWORKS[name](path)
    session = Session(chip="bm1688", quantize="f16", cores=2)
    return session.build(session.transform(path)).data


@each("name", [pytest.param("images apart", marks=pytest.mark.slow), "rows and tiles apart"])
def test_changed_barriers_are_refused(name: str, tmp_path: Path) -> None:
    tally = try_mutants(_compiled(name, tmp_path))
    sys.stdout.write(f"{name}\n{tally}\n")
    assert tally.missed.total() == 0
    assert {kind for kind, count in tally.tried.items() if tally.refused[kind] < count} <= {*MATTERING}
    assert len(tally.tried) == 15
    assert all(tally.refused[kind] > 0 for kind in tally.tried)
    assert tally.shown["barrier removed"] > 0
    assert tally.tried.total() > 150


def test_a_blind_proof_misses_barriers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = _compiled("rows and tiles apart", tmp_path)
    monkeypatch.setattr(simulator, "check_cores", lambda *_: None)
    tally = try_mutants(data, MATTERING)
    assert tally.missed["barrier removed"] > 0
    assert tally.missed["messages earlier"] > 0
