"""Graphs of an operator or two that random ones were reduced to: each was computed wrongly, or not at all."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tpuc.api import FLOAT_MODES
from tpuc_driver.session import Session
from tpuc_testing.values import build_exposed

from tests.families import each
from tests.fuzz.graphs.judge import RUNS, check_chip, check_import, judged
from tests.fuzz.graphs.maker import SAMPLES, Maker
from tests.fuzz.graphs.single import subject_of
from tests.turns import runs_in_turn


def slopes_of_two_dimensions(m: Maker) -> None:
    """Seen as a matrix, the channels of `1x13` lie along another axis than the slopes."""
    m.node("PRelu", m.input((1, 13)), m.between(0.1, 0.9, 13))


def numbers_without_dimensions(m: Maker) -> None:
    """Constants beside them must not give them one."""
    x = m.node("ReduceMax", m.input((2, 5)), keepdims=0)
    m.node("Shrink", x, lambd=0.3, bias=0.1)
    m.node("Reciprocal", m.node("Add", m.node("Abs", x), m.constant(0.5)))
    m.node("Min", m.node("Sigmoid", m.node("ReduceMin", m.inputs[0], keepdims=1)), m.node("Sigmoid", x))


def windows_over_the_end(m: Maker) -> None:
    """What rounding up adds to the window of an LpPool are zeros, not elements that do not count."""
    x = m.input((1, 2, 5, 4))
    m.node("LpPool", x, kernel_shape=[2, 3], strides=[2, 2], ceil_mode=1, p=2)
    m.node("LpPool", x, kernel_shape=[2, 2], strides=[3, 3], pads=[1, 0, 0, 1], ceil_mode=1, p=1)


def strides_above_the_window(m: Maker) -> None:
    """A transposed convolution with SAME pads leaves nothing out then, and adds nothing either."""
    x = m.input((1, 2, 4, 5))
    for pads in ("SAME_UPPER", "SAME_LOWER"):
        m.node("ConvTranspose", x, m.normal(2, 3, 2, 1), kernel_shape=[2, 1], strides=[2, 3], auto_pad=pads)


def comparisons_of_old_opsets(m: Maker) -> None:
    """Before opset 16 ONNX has no shape inference for these two."""
    m.opset = 13
    x = m.input((2, 5))
    m.node("GreaterOrEqual", x, m.constant(0.1))
    m.node("LessOrEqual", x, m.input((2, 1)))


def one_window_that_rounds_up(m: Maker) -> None:
    """A stride so small that another window fits is another pool."""
    window = {"kernel_shape": [2, 4], "pads": [1, 0, 0, 2], "strides": [3, 2], "ceil_mode": 1}
    m.node("AveragePool", m.input((1, 3, 2, 3)), count_include_pad=1, **window)
    longer = {"kernel_shape": [4, 1], "pads": [0, 0, 1, 0], "strides": [3, 1], "ceil_mode": 1}
    m.node("AveragePool", m.input((1, 3, 2, 3)), count_include_pad=1, **longer)


def columns_of_their_own_scale(m: Maker) -> None:
    """Only one dimension is resampled, by another scale than the other has."""
    x = m.input((1, 4, 1, 2))
    wide = m.constant([1.0, 1.0, 1.0, 3.0])
    m.node("Resize", x, None, wide, mode="linear", coordinate_transformation_mode="asymmetric")
    high = m.constant([1.0, 1.0, 2.5, 1.0])
    m.node("Resize", x, None, high, mode="linear", coordinate_transformation_mode="asymmetric")


def numbers_with_a_dimension(m: Maker) -> None:
    """A branch of one element gives the result the dimensions that it has."""
    x = m.input((12,))
    m.node("Where", m.node("Greater", x, m.constant(0.1)), m.normal(1, 1), x)


GRAPHS: dict[str, Callable[[Maker], None]] = {
    function.__name__: function
    for function in (
        slopes_of_two_dimensions,
        numbers_without_dimensions,
        windows_over_the_end,
        strides_above_the_window,
        comparisons_of_old_opsets,
        one_window_that_rounds_up,
        columns_of_their_own_scale,
        numbers_with_a_dimension,
    )
}


@each(("name", "chip", "mode"), runs_in_turn(GRAPHS, RUNS))
def test_small_graphs_are_computed(name: str, chip: str, mode: str, tmp_path: Path) -> None:
    m = Maker(np.random.default_rng(1), 18)
    GRAPHS[name](m)
    subject = subject_of(m, tmp_path)
    imported = judged(partial(check_import, subject), subject)
    assert (imported.kind, imported.said) == ("ok", "")
    compiled = judged(partial(check_chip, subject, chip, mode), subject)
    assert (compiled.kind, compiled.said) == ("ok", "")


def values_of(m: Maker, chip: str, mode: str, folder: Path) -> dict[str, NDArray[Any]]:
    """Every value of a graph with one input, whose range is that of its first sample, by the simulator."""
    subject = subject_of(m, folder)
    check_import(subject)
    assert subject.module is not None
    (given,) = m.inputs
    array = given.arrays[0].astype(np.float32)
    session = Session(chip=chip, quantize=mode)
    table = None
    if mode not in FLOAT_MODES:
        samples = folder / "samples.npz"
        np.savez(samples, **{given.name: array[None]})
        table = session.calibrate(subject.module, dataset=samples, method="max", options={"tune_num": 0, "bias_num": 0})
    data = build_exposed(session, subject.module, table)[1]
    return session.chip.load(data).run({given.name: array})


@each(("chip", "mode"), [pytest.param(*run, marks=pytest.mark.chip(run[0])) for run in RUNS])
def test_an_index_marks_its_place_in_every_mode(chip: str, mode: str, tmp_path: Path) -> None:
    """Rounded to a byte, index 1 of 0 to 2 is 1.004, and equal to nothing."""
    m = Maker(np.random.default_rng(1), 18)
    index = np.array([[0, 1], [2, 1], [2, 0]], np.int64)
    hot = m.node("OneHot", m.added_input((index,) * SAMPLES), m.constant(3, np.int64), m.constant([-0.5, 1.5]), axis=-1)
    found = values_of(m, chip, mode, tmp_path)
    marked = found.get(f"{hot.name}_f32", found[hot.name]).astype(np.float32).reshape(3, 2, 3) > 0.5
    assert np.array_equal(marked, np.eye(3)[index] == 1)


@pytest.mark.parametrize(
    "chip", [pytest.param(chip, marks=pytest.mark.chip(chip)) for chip, mode in RUNS if mode == "int8"]
)
def test_the_largest_byte_is_found_next_to_one_that_is_a_step_smaller(chip: str, tmp_path: Path) -> None:
    """Multiples of 0.0103 are bytes; as bf16 numbers, neighbors are alike."""
    m = Maker(np.random.default_rng(1), 18)
    x = np.random.default_rng(3).integers(220, 256, (1, 4, 60, 3)).astype(np.float32)
    kept = m.node("MaxPool", m.node("Mul", m.added_input((x,) * SAMPLES), m.constant(0.0103)), kernel_shape=[1, 1])
    index = m.node("ArgMax", kept, axis=3, keepdims=0)
    found = values_of(m, chip, "int8", tmp_path)
    stored = found[kept.name].reshape(x.shape)
    assert stored.dtype == np.uint8
    assert np.array_equal(found[index.name].astype(np.float32).reshape(1, 4, 60), stored.argmax(3))
