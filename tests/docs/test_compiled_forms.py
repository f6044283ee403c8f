"""The table of what runs where says what compilations give: a sample that is another one for every commit."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from tpuc.api import TpucError
from tpuc.registry import Registry
from tpuc_driver.cli.commands.matrix import lowering_rows, table_rows
from tpuc_driver.support import CompiledForms, read_forms, refusal_of

from tests.families import each
from tests.support_forms import compiled, forms, ops, refusal

ROOT = Path(__file__).resolve().parents[2]
CHIPS = [
    name
    for name in Registry().names("tpuc.chips")
    if (path := Registry().get("tpuc.chips", name).description.support) is not None and path.is_file()
]
SAMPLE = 3
OUT_OF_DATE = "run python docs/compiled_forms.py and docs/generate.py"


def turn() -> int:
    """A number that differs from commit to commit."""
    done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    return int(done.stdout[:8] or "0", 16)


def known(chip: str) -> CompiledForms:
    return read_forms(Registry().get("tpuc.chips", chip).description.support)


def differences(chip: str, tried: Sequence[tuple[str, str]]) -> list[str]:
    """Pairs of mode and form that do not end as the file says."""
    registry, found = Registry(), list[str]()
    for mode, name in tried:
        op, _, form = name.partition(" ")
        said, got = known(chip).refusals(op, mode).get(form), refusal(chip, mode, name, registry)
        if said != got:
            found.append(f"{name} {mode} on {chip}: {got}; the file says {said}")
    return found


@each("chip", CHIPS)
def test_a_sample_of_forms_compiles_as_the_table_says(chip: str) -> None:
    description = Registry().get("tpuc.chips", chip).description
    rows = table_rows(Registry(), description, "top")
    cells = [(mode, name) for mode in description.modes for name in forms() if rows[name.partition(" ")[0]][mode]]
    chosen = np.random.default_rng(turn()).choice(len(cells), SAMPLE, replace=False)
    assert differences(chip, [cells[index] for index in chosen]) == [], OUT_OF_DATE


@each("chip", CHIPS)
def test_every_op_of_the_table_was_compiled(chip: str) -> None:
    description = Registry().get("tpuc.chips", chip).description
    rows = lowering_rows(Registry(), description, "top")
    filled = {op for op, row in rows.items() if any(row.values())}
    assert filled <= ops()
    assert set(known(chip).forms) == ops(), OUT_OF_DATE
    for op, row in rows.items():
        for mode, cell in row.items():
            assert cell is None or not known(chip).never_compiles(op, mode), (op, mode)


@pytest.mark.slow
@pytest.mark.parametrize("chip", CHIPS)
def test_the_whole_file_is_current(chip: str) -> None:
    assert compiled(chip, Registry()).text() == known(chip).text(), OUT_OF_DATE


def test_an_op_of_which_nothing_compiles_has_no_cell() -> None:
    refused = {"f32": {"top.Relu": {"one": "no", "two": "no"}, "top.Abs": {"one": "no"}}}
    found = CompiledForms({"top.Relu": 2, "top.Abs": 2}, refused)
    assert found.never_compiles("top.Relu", "f32")
    assert not found.never_compiles("top.Abs", "f32")
    assert not found.never_compiles("top.Relu", "int8")
    assert not found.never_compiles("top.Other", "f32")


@each(
    ("said", "kept"),
    [
        ("node 'y': tpu.Pad on c: no; change the node or choose another chip", "no"),
        ("node 'y_sums': tpu.Deconv on c: no; change the node or choose another chip", "no"),
        ("node 'y': top.Pad int8-asym on c: no. Change the node, choose another mode for it, or another chip.", "no"),
        ("node 'y': it is computed in f16; change the node, or choose another chip", "it is computed in f16"),
        ("after pipeline 'lower': op 'y': no", "after pipeline 'lower': op the node: no"),
    ],
)
def test_reasons_stand_without_the_node(said: str, kept: str) -> None:
    assert refusal_of(TpucError(said), "y") == kept
