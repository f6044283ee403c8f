"""Operators of ONNX in every form, all in one program of C, against ONNX Runtime."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from tpuc.interpreter import Interpreter
from tpuc.registry import Registry
from tpuc_c.chip import CHIP
from tpuc_driver.session import Session
from tpuc_driver.support import read_forms
from tpuc_testing.kernel_conformance import check_array, sample_module

from tests.chips.c.op_forms import FAMILIES, Array, Form, network
from tests.chips.c.programs import needs_compiler, needs_lowerings
from tests.chips.lowered import own_ranges
from tests.families import each
from tests.support_forms import forms

ort = pytest.importorskip("onnxruntime", reason="needs onnxruntime")

pytestmark = [needs_lowerings, needs_compiler]
LEAST_DB = 80.0

REWRITTEN = re.compile("Conv far_|Reduce (mean|max)_2_3$")
"""Forms that become other ops before a calibration, so that ranges of the given network lack some of their values."""


def drawn(seeds: range) -> dict[str, Form]:
    """Every family once for each seed."""
    return {
        f"{name}_{seed}": family(np.random.default_rng([seed, *name.encode()]))
        for seed in seeds
        for name, family in FAMILIES.items()
    }


def differences(got: Mapping[str, Array], wanted: Mapping[str, Array]) -> Iterator[str]:
    """Every output that is not the same within the rounding of floats."""
    for name, reference in wanted.items():
        right, found = (array.astype(np.float64).reshape(-1) for array in (reference, got[name]))
        finite = np.isfinite(right)
        if right.size != found.size or not np.array_equal(found[~finite], right[~finite], equal_nan=True):
            yield f"{name}: other elements, infinities or NaN"
            continue
        noise = np.square(found - right)[finite].sum()
        if noise > np.square(right[finite]).sum() * 10 ** (-LEAST_DB / 10):
            yield f"{name}: off by up to {np.abs(found - right)[finite].max():.3g}"


def judged(forms: Mapping[str, Form], folder: Path) -> list[str]:
    """What differs when all forms are one network."""
    made, inputs = network(forms)
    onnx.save(made, folder / "forms.onnx")
    runtime = ort.InferenceSession(str(folder / "forms.onnx"), providers=["CPUExecutionProvider"])
    wanted = dict(zip((one.name for one in runtime.get_outputs()), runtime.run(None, inputs), strict=True))
    session = Session(chip="c", quantize="f32")
    loaded = session.chip.load(session.build(session.transform(folder / "forms.onnx")).data)
    got = loaded.run({info.name: inputs[info.name].reshape(info.shape) for info in loaded.inputs})
    return list(differences(got, wanted))


def test_every_form_gives_what_the_runtime_gives(tmp_path: Path) -> None:
    forms = drawn(range(1))
    assert len(forms) >= 64
    assert judged(forms, tmp_path) == []


def lowered_differences(names: Sequence[str], mode: str) -> list[str]:
    """Outputs of C that are not what the lowered network evaluates to: integers in all bits."""
    registry = Registry()
    module, inputs = sample_module({f"n{index}": forms()[name] for index, name in enumerate(names)}, registry)
    table = own_ranges(Interpreter(module).run(inputs, "all"))
    session = Session(registry, chip="c", quantize=mode, opt=1)
    built = session.build(module, table if mode.startswith("int8") else None)
    wanted, found = Interpreter(built.module).run(inputs), list[str]()
    for name, got in session.chip.load(built.data).run(inputs).items():
        try:
            check_array(name, got, wanted[name])
        except AssertionError as error:
            found.append(f"{names[int(re.findall(r'[0-9]+', name)[0])]}: {error}")
    return found


def compiling(mode: str) -> list[str]:
    """Forms that the table promises."""
    known = read_forms(CHIP.description.support)
    names = [name.partition(" ") for name in forms()]
    found = [f"{op} {form}" for op, _, form in names if form not in known.refusals(op, mode)]
    return [name for name in found if not (mode.startswith("int8") and REWRITTEN.search(name))]


@each("mode", ["int8", "int8-asym"])
def test_one_form_of_every_op_equals_its_lowered_form(mode: str) -> None:
    by_op = {name.partition(" ")[0]: name for name in compiling(mode)}
    chosen = [name for index, name in enumerate(by_op.values()) if index % 2 == (mode == "int8")]
    assert lowered_differences(chosen, mode) == []


@pytest.mark.slow
@pytest.mark.parametrize("mode", CHIP.description.modes)
def test_every_form_equals_its_lowered_form(mode: str) -> None:
    assert lowered_differences(compiling(mode), mode) == []


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1, 31, 3))
def test_three_thousand_forms_give_what_the_runtime_gives(first: int, tmp_path: Path) -> None:
    assert judged(drawn(range(first, first + 3)), tmp_path) == []
