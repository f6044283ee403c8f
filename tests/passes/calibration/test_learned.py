"""Tables of training with quantization: read, written back, and used by the lowerings of both chips."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from tpuc.api import CalibrationError, Module
from tpuc.interpreter import Interpreter
from tpuc.registry import Registry
from tpuc_driver.session import Session
from tpuc_quantize.tables.table import format_table, parse_table

from tests.families import each
from tests.frontends.onnx.networks import network, node

CHIPS = ("bm1684x", "cv183x")
STEP, SUM = 1 / 32, 1 / 8
"""Of the input and of the sums."""
STEPS = (1 / 64, 1 / 128)
"""Of the filters; none of them is a 127th of a greatest value."""
FILTERS = np.array([[40, -7, 3], [-90, 55, 21]])
BIAS = np.array([0.5, -0.25], np.float32)
HEADER = "# work_mode:QAT_all_int8 #Automatically generated, do not modify\n# op_name    threshold    min    max\n"
VALUES = "x 4.0000000 -4.0000000 3.9687500\ny_Conv 16.0000000 -16.0000000 15.8750000\n"
ROW = "y_Conv_weight 2 0.0156250 0.0078125 2 0 0"
TABLE = f"{HEADER}{VALUES}#int4_th\n#weight_scale\n{ROW}\n"


def convolution() -> onnx.ModelProto:
    """Filters a little off the steps that they were trained with."""
    filters = (FILTERS + 0.3) * np.array(STEPS)[:, None]
    weights = {"w": filters.reshape(2, 3, 1, 1).astype(np.float32), "b": BIAS}
    return network([node("Conv", "x w b", "y", kernel_shape=[1, 1])], {"x": [1, 3, 2, 2]}, ["y"], weights)


class Lowered(NamedTuple):
    """What becomes of the network."""

    module: Module
    data: bytes


def lowered(text: str, folder: Path, chip: str, remarks: list[str] | None = None) -> Lowered:
    """The TPU module before weights are packed, and the compiled bytes."""
    onnx.save(convolution(), folder / "net.onnx")
    (folder / "table").write_text(text)
    noted = [] if remarks is None else remarks
    session = Session(Registry(), chip=chip, quantize="int8", remark=noted.append)
    modules: list[Module] = []
    top = session.transform(folder / "net.onnx")
    built = session.build(top, folder / "table", after_lowering=lambda module: modules.append(module.clone()))
    return Lowered(modules[0], built.data)


def stored(module: Module, part: str) -> list[NDArray[Any]]:
    """The weights whose names have a part."""
    return [module.weights[name] for name in module.weights.names() if part in name]


def test_a_table_is_written_back_as_it_was() -> None:
    table = parse_table(TABLE)
    assert table.work_mode == "QAT_all_int8"
    assert table.has_qat_scales
    assert table.learned_scales["y_Conv_weight"].scales == STEPS
    assert parse_table(format_table(table)) == table
    assert not parse_table("x 1 -1 1\n").has_qat_scales


@each("chip", CHIPS)
def test_weights_have_the_steps_that_training_learned(chip: str, tmp_path: Path) -> None:
    module = lowered(TABLE, tmp_path, chip).module
    (filters,) = stored(module, "filter_i8")
    assert sorted(filters.reshape(-1).tolist()) == sorted(FILTERS.reshape(-1).tolist())
    rng = np.random.default_rng(0)
    x = (rng.integers(-128, 128, (1, 3, 2, 2)) * STEP).astype(np.float32)
    real = np.einsum("oc,nchw->nohw", FILTERS * np.array(STEPS)[:, None], x.astype(np.float64))
    wanted = np.clip(np.rint((real + BIAS[None, :, None, None]) / SUM), -128, 127) * SUM
    (got,) = Interpreter(module).run({"x": x}).values()
    assert np.abs(got - wanted).max() <= SUM  # the chips round halves in another direction


@each("chip", CHIPS)
def test_one_scale_changes_the_file(chip: str, tmp_path: Path) -> None:
    other = TABLE.replace("0.0078125", "0.0080000")
    without = f"{HEADER}{VALUES}"
    files = {lowered(text, tmp_path, chip).data for text in (TABLE, other, without)}
    assert len(files) == 3


@each(
    ("row", "sentence"),
    [
        (
            "z_Conv_weight 2 0.1 0.1 2 0 0",
            "scales of 'z_Conv_weight', which is not a weight of a convolution or product of module 'net'",
        ),
        ("y_Conv_weight 3 0.1 0.1 0.1 3 0 0 0", "3 scales of 'y_Conv_weight', but op 'y' (top.Conv) has 2 channels"),
    ],
)
def test_scales_that_do_not_fit_are_refused(row: str, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(CalibrationError, match=re.escape(sentence)):
        lowered(TABLE.replace(ROW, row), tmp_path, "bm1684x")


@each(
    ("old", "new", "sentence"),
    [
        (
            ROW,
            "y_Conv_weight 2 0.1",
            "table:6: 'y_Conv_weight 2 0.1' is not of the form 'name count scales... count",
        ),
        (ROW, "y_Conv_weight 1 -0.1 1 0", "table:6: 'y_Conv_weight' has a scale below 0"),
        (
            ROW,
            "y_Conv_weight 1 0.1 1 3",
            "table:6: 'y_Conv_weight' has zero points, which chips do not support for weights",
        ),
        ("QAT_all_int8", "QAT_int2", "table:1: the work mode 'QAT_int2' is not one of QAT_all_int8, QAT_mix_prec,"),
    ],
)
def test_broken_lines_are_refused(old: str, new: str, sentence: str) -> None:
    text = TABLE.replace("#int4_th\n", "")
    with pytest.raises(CalibrationError, match=re.escape(sentence)):
        parse_table(text.replace(old, new), "table")


def test_kinds_of_numbers_that_no_chip_has_are_named(tmp_path: Path) -> None:
    """Values in int4 are stored in int8, fp8 scales are left out, and both is said."""
    values = VALUES.splitlines()
    text = f"{HEADER}{values[0]}\n#int4_th\n{values[1]}\n#weight_scale\n{ROW}\n"
    remarks: list[str] = []
    built = lowered(text, tmp_path, "bm1684x", remarks)
    assert built.data == lowered(TABLE, tmp_path, "bm1684x").data
    assert any("1 values are in int4 (first: 'y_Conv')" in remark for remark in remarks)
    text = f"{HEADER}{VALUES}#weight_scale_fp8\n{ROW}\n"
    remarks.clear()
    lowered(text.replace("QAT_all_int8", "mqbench-fp8"), tmp_path, "bm1684x", remarks)
    assert any("ignored the fp8 scales of 1 weights (first: 'y_Conv_weight')" in remark for remark in remarks)


def test_values_without_an_entry_are_floats(tmp_path: Path) -> None:
    remarks: list[str] = []
    text = f"{HEADER}{VALUES.splitlines()[0]}\n"
    module = lowered(text, tmp_path, "bm1684x", remarks).module
    assert any("the calibration table has no scales for 1 values (first: 'y')" in text for text in remarks)
    assert not stored(module, "filter_i8")


def test_a_bias_is_rounded_to_its_steps(tmp_path: Path) -> None:
    rows = f"{ROW}\ny_Conv_bias 2 0.3000000 0.3000000 2 0 0"
    module = lowered(TABLE.replace(ROW, rows), tmp_path, "bm1684x").module
    (bias,) = stored(module, "bias_i32")
    # 0.5 is 0.6 and -0.25 is -0.3 in steps of 0.3; the sums count in steps of 1 / 2048 and 1 / 4096
    assert bias.reshape(-1).tolist() == [round(0.6 * 2048), round(-0.3 * 4096)]


@pytest.mark.parametrize("chip", [pytest.param(chip, marks=pytest.mark.chip(chip)) for chip in CHIPS])
def test_a_missing_entry_reaches_as_far_as_a_slope_makes_it(chip: str, tmp_path: Path) -> None:
    nodes = [node("Conv", "x w b", "y", kernel_shape=[1, 1]), node("LeakyRelu", "y", "z", alpha=3.0)]
    weights = {"w": np.full((2, 3, 1, 1), 1.25, np.float32), "b": BIAS}
    onnx.save(network(nodes, {"x": [1, 3, 2, 2]}, ["z"], weights), tmp_path / "net.onnx")
    (tmp_path / "table").write_text(TABLE.replace(f"{ROW}\n", ""))
    session = Session(Registry(), chip=chip, quantize="int8")
    module = session.build(session.transform(tmp_path / "net.onnx"), tmp_path / "table").module
    x = np.full((1, 3, 2, 2), -3.5, np.float32)
    (got,) = Interpreter(module).run({next(iter(Interpreter(module).inputs)): x}).values()
    wanted = 3 * (3 * 1.25 * -3.5 + BIAS.reshape(1, 2, 1, 1))
    assert np.abs(got - wanted).max() < 1.0  # one of 127 steps to -48, and three of those of y
