"""`tpuc compare` shows the errors of layers as they were found, in decibels and shares."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tpuc.registry import Offer

from tests.core.cli import CommandLine


def _layer(
    name: str, noise: float, local: float | None, *parts: float, remedy: str = "", kept: tuple[int, int] | None = None
) -> SimpleNamespace:
    """What is known of a layer whose values have the energy 100; `local` is None where it is not split."""
    found = dict(zip(("clipping", "rounding"), parts or (0.0, 0.0), strict=True))
    share = 0.0 if local is None else local
    return SimpleNamespace(
        name=name,
        op=f"top.{name}",
        cosine=0.99,
        euclidean=0.9,
        signal=100.0,
        noise=noise,
        local=share,
        parts=found,
        cross=share - sum(found.values()),
        is_split=local is not None,
        cause=max(found, key=lambda cause: found[cause]),
        remedy=remedy,
        kept=None if kept is None else SimpleNamespace(same=kept[0], total=kept[1]),
    )


LAYERS = (
    _layer("Conv", 1.0, 0.1, 0.02, 0.06, remedy="flatten it"),
    _layer("Relu", 10.0, None),
    _layer("MatMul", 10.0, 10.0, 8.0, 4.0, remedy="raise thresholds"),
    _layer("Reshape", 0.0, 0.0, kept=(39, 40)),
)
COMPARE = ("compare", "net.mlir", "quant.mlir", "--input", "x.npz")


def test_compare_shows_every_layer_and_what_helps(tpuc: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Energies of 100 to 1 are 20 dB."""
    given: list[Any] = []

    def compare_layers(_: object, *arguments: Any) -> tuple[SimpleNamespace, ...]:
        given.append(arguments)
        return LAYERS

    tpuc.install(Offer("tpuc.commands", "compare", "tpuc", "1.0", "tpuc_accuracy.analysis.compare_command:command"))
    monkeypatch.setattr("tpuc_accuracy.analysis.runs.compare_layers", compare_layers)
    for name in ("net.mlir", "quant.mlir", "x.npz"):
        tpuc.file(name)
    outcome = tpuc(*COMPARE, "--input-num", "3")
    assert given == [(Path("net.mlir"), Path("quant.mlir"), (Path("x.npz"),), 3)]
    heading, *lines = outcome.out.splitlines()
    assert heading.split("  ")[-1] == "cross terms"
    assert [line.split() for line in lines[:4]] == [
        ["Conv", "top.Conv", "0.990000", "0.9000", "20.0", "-", "30.0", "20.0%", "60.0%", "20.0%"],
        ["Relu", "top.Relu", "0.990000", "0.9000", "10.0", "-", "-", "-", "-", "-"],
        ["MatMul", "top.MatMul", "0.990000", "0.9000", "10.0", "-", "10.0", "80.0%", "40.0%", "-20.0%"],
        ["Reshape", "top.Reshape", "0.990000", "0.9000", "inf", "39/40", "inf", "-", "-", "-"],
    ]
    assert lines[4:] == ["MatMul: mostly clipping; raise thresholds", "Conv: mostly rounding; flatten it"]
    _, worst, remedy = tpuc(*COMPARE, "--top", "1").out.splitlines()  # only the worst layer is listed
    assert (worst.split(), remedy) == (lines[2].split(), lines[4])
    conv, relu, _, last = json.loads(tpuc(*COMPARE, "--json").out)
    assert conv == {
        "layer": "Conv",
        "op": "top.Conv",
        "cosine": 0.99,
        "euclidean": 0.9,
        "signal_energy": 100.0,
        "error_energy": 1.0,
        "decisions_kept": None,
        "decisions": None,
        "own_error_energy": 0.1,
        "parts": {"clipping": 0.02, "rounding": 0.06},
        "cross_terms": pytest.approx(0.02),
        "remedy": "flatten it",
    }
    assert (last["decisions_kept"], last["decisions"]) == (39, 40)
    assert [relu[name] for name in ("own_error_energy", "parts", "cross_terms", "remedy")] == [None] * 4
