"""`tpuc matrix`: who fills which cell."""

from __future__ import annotations

import json
from typing import Any

from tpuc.api import LegalizationTable
from tpuc.registry import Offer

from tests.core.cli import CommandLine
from tests.core.fakes import DecomposingOp, Decomposition, FakeTable, chip, offer


def _table(group: str, name: str, package: str, *keys: Any) -> Offer:
    return offer(group, name, FakeTable(dict.fromkeys(keys, "cell")), package)


def test_matrix_shows_who_fills_each_cell(tpuc: CommandLine) -> None:
    tpuc.install(
        chip("small", "smalls", families=("big",)),
        chip("big", "bigs"),
        _table("lowerings", "small.top", "smalls", ("top.Relu", "int8"), ("top.Add", "int8")),
        _table("lowerings", "small.top.rival", "rivals", ("top.Add", "int8")),
        _table("lowerings", "big.top", "bigs", ("top.Relu", "f32"), ("top.Relu", "int8")),
        _table("kernels", "big.tpu", "bigs", "tpu.Relu"),
    )
    assert tpuc("matrix", "--chip", "small", "--with", "rivals").out.splitlines() == [
        "op        f32         int8",
        "top.Add   -           conflict",
        "top.Relu  bigs (big)  smalls",
        "",
        "instruction op  kernel",
        "tpu.Relu        bigs (big)",
    ]
    assert json.loads(tpuc("matrix", "--chip", "big", "--json").out) == {
        "chip": "big",
        "modes": ["f32", "int8"],
        "lowerings": {"top.Relu": {"f32": "bigs", "int8": "bigs"}},
        "kernels": {"tpu.Relu": "bigs"},
        "refused": {},
    }


def test_matrix_knows_compositions_and_ops_without_a_cell(tpuc: CommandLine) -> None:
    """A composition is there where what it is made of is, in the float mode of compositions."""
    dialect = offer("dialects", "t", _small_dialect(), "bigs")
    legalizations = LegalizationTable("any", "t")
    legalizations.legalizes(DecomposingOp)(Decomposition)
    composed = offer("legalizations", "any.t", legalizations, "bigs")
    keys = ("t.Other", "int8"), ("t.Plain", "f32")
    tpuc.install(chip("big", "bigs"), dialect, composed, _table("lowerings", "big.t", "bigs", *keys))
    assert tpuc("matrix", "--chip", "big").out.splitlines()[:4] == [
        "op             f32       int8",
        "t.Decomposing  composed  composed",
        "t.Other        -         bigs",
        "t.Plain        bigs      -",
    ]


def test_matrix_shows_no_composition_of_what_is_not_there(tpuc: CommandLine) -> None:
    dialect = offer("dialects", "t", _small_dialect(), "bigs")
    legalizations = LegalizationTable("any", "t")
    legalizations.legalizes(DecomposingOp)(Decomposition)
    composed = offer("legalizations", "any.t", legalizations, "bigs")
    tpuc.install(chip("big", "bigs"), dialect, composed, _table("lowerings", "big.t", "bigs", ("t.Plain", "int8")))
    assert "t.Decomposing  -    -" in tpuc("matrix", "--chip", "big").out


def _small_dialect() -> Any:
    from tpuc.api import Dialect

    here = "tests.core.fakes"
    return Dialect("t", {"Plain": f"{here}:PlainOp", "Decomposing": f"{here}:DecomposingOp", "W": f"{here}:WeightOp"})
