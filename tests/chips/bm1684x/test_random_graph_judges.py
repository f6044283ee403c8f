"""The judges of random graphs see what a lowering or a kernel does wrongly."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tpuc_bm1684x.kernels.unary import PReluKernel
from tpuc_bm1684x.lowerings import rectifiers

from tests.fuzz.graphs.judge import check_chip, check_import, judged
from tests.fuzz.graphs.single import one_node, subject_of

X = np.linspace(-2, 2, 26, dtype=np.float32).reshape(2, 13)


def test_a_lowering_with_a_wrong_multiplier_is_caught(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    m = one_node("PRelu", X, np.linspace(0.1, 0.5, 13, dtype=np.float32))
    subject = subject_of(m, tmp_path)
    check_import(subject)
    right = rectifiers.decompose8
    assert judged(lambda: check_chip(subject, "bm1684x", "int8"), subject).kind == "ok"
    monkeypatch.setattr(rectifiers, "decompose8", lambda factor: right(factor * 1.05))
    verdict = judged(lambda: check_chip(subject, "bm1684x", "int8"), subject)
    assert (verdict.kind, verdict.cause) == ("wrong", "bm1684x int8: top.PRelu")


def test_a_kernel_that_computes_something_else_is_caught(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    m = one_node("PRelu", X[:1], np.linspace(0.1, 0.5, 13, dtype=np.float32))
    subject = subject_of(m, tmp_path)
    check_import(subject)
    assert judged(lambda: check_chip(subject, "bm1684x", "f16"), subject).kind == "ok"
    right = PReluKernel.pack
    monkeypatch.setattr(
        PReluKernel,
        "pack",
        lambda self, node, name, tile, arrays: right(self, node, name, tile, [arrays[0], 2 * arrays[1]]),
    )
    verdict = judged(lambda: check_chip(subject, "bm1684x", "f16"), subject)
    assert (verdict.kind, verdict.cause) == ("wrong", "simulator of bm1684x: tpu.PReluOp")
