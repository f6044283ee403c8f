"""What passes refuse that read tables or samples, by the sentence."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tpuc.api import (
    CALIBRATION_TABLE,
    F32,
    LAYER_ERRORS,
    QUANTIZE_TABLE,
    QUANTIZED,
    SAMPLES,
    CalibrationError,
    InvalidModel,
    Location,
    Module,
    Node,
    PassContext,
    ResultKey,
    ScalarType,
    TileKernel,
    Uniform,
    Unsupported,
    UsageError,
)
from tpuc.registry import Registry
from tpuc_accuracy.analysis.split_error import SplitError
from tpuc_lower.convert_top_to_tpu import ConvertTopToTpu
from tpuc_lower.import_quantize_table import ImportQuantizeTable
from tpuc_lower.target.kernels import find_kernel
from tpuc_ops import top
from tpuc_prequantized.stored_weights import dequantize_weights
from tpuc_quantize.importing.import_calibration import ImportCalibration
from tpuc_quantize.remedies.correct_bias import CorrectBias
from tpuc_quantize.scaling.migrate_outliers import MigrateOutliers
from tpuc_quantize.tables.table import CalibrationTable, TensorThreshold

from tests.core.fakes import FakeChip, chip, offer
from tests.families import each
from tests.passes.graphs import CONTEXT, Network


def network(channels: int = 4) -> Module:
    """A convolution `v3` of `channels` results and a relu `v4`."""
    net = Network(1, 3, 4, 4)
    value = net.op(top.Conv(kernel_shape=(1, 1)), net.input, net.weight(channels, 3, 1, 1), net.weight(channels))
    return net.finish(net.op(top.Relu(), value))


def surroundings(results: dict[ResultKey[Any], Any] | None = None) -> PassContext:
    """A run for a chip of the modes f32 and int8 whose package has neither lowerings nor kernels."""
    return PassContext(
        Registry(offers=[chip("newchip")]), FakeChip("newchip"), {"quantize": "int8"}, None, results or {}
    )


def test_a_quantize_table_is_named() -> None:
    with pytest.raises(UsageError) as caught:
        ImportQuantizeTable().run(network(), surroundings())
    assert str(caught.value) == "pass 'import-quantize-table' needs a file: import-quantize-table{table=FILE}"


@each(
    ("line", "sentence"),
    [
        ("v4", "'v4' is not 'op_name mode'; correct the line"),
        ("v4 f32 or int8", "'v4 f32 or int8' is not 'op_name mode'; correct the line"),
        ("v9 f32", "no op named 'v9' in module 'network'; correct the name"),
        ("v4 F16", "mode 'F16' is not one of f32, int8; choose another"),
    ],
)
def test_lines_of_a_quantize_table(line: str, sentence: str, tmp_path: Path) -> None:
    table = tmp_path / "qtable"
    table.write_text(f"# remark\nv3 F32\n{line}\n")
    with pytest.raises(CalibrationError) as caught:
        ImportQuantizeTable(str(table)).run(network(), surroundings())
    assert str(caught.value) == f"{table}:3: {sentence}"


def test_a_quantize_table_that_is_no_text(tmp_path: Path) -> None:
    table = tmp_path / "qtable"
    table.write_bytes(b"# remark\nv3 \x80F32\n")
    with pytest.raises(CalibrationError) as caught:
        ImportQuantizeTable(str(table)).run(network(), surroundings())
    assert str(caught.value) == f"{table}: is not a text file (byte 12). Give --quantize-table lines 'op_name mode'."


def test_lines_of_a_quantize_table_that_fit(tmp_path: Path) -> None:
    (tmp_path / "qtable").write_text("v3 F32 # the first\n\nv4 int8\n")
    context = surroundings()
    assert not ImportQuantizeTable(str(tmp_path / "qtable")).run(network(), context)
    assert context.result(QUANTIZE_TABLE) == {"v3": "f32", "v4": "int8"}


def test_migration_needs_samples() -> None:
    with pytest.raises(UsageError) as caught:
        MigrateOutliers().run(network(), CONTEXT)
    assert str(caught.value) == "pass 'migrate-outliers' needs samples: migrate-outliers{dataset=DIR}"


def test_bias_shifts_of_another_network() -> None:
    """The convolution has five channels, the table notes three for it."""
    table = CalibrationTable({}, sections={"bias_shift": ("v3 1 2 3",)})
    with pytest.raises(CalibrationError) as caught:
        CorrectBias().run(network(5), surroundings({CALIBRATION_TABLE: table}))
    said = str(caught.value)
    assert said.startswith("the calibration table's bias shifts do not fit module 'network': ")
    assert said.endswith("; calibrate it again with `tpuc calibrate`")


def test_integers_without_a_calibration_table() -> None:
    with pytest.raises(CalibrationError) as caught:
        ImportCalibration().run(network(), surroundings())
    assert str(caught.value) == (
        "int8 needs a calibration table; give samples with --dataset, or a table with --calibration-table"
    )


def test_layers_are_compared_with_a_quantized_module_on_samples() -> None:
    sample = {"v0": np.zeros((1, 3, 4, 4), np.float32)}
    for results in ({}, {QUANTIZED: network()}, {SAMPLES: [sample]}):
        with pytest.raises(UsageError) as caught:
            SplitError().run(network(), surroundings(results))
        assert str(caught.value) == "pass 'split-error' needs a quantized module and samples: use `tpuc compare`"
    other = network()
    other.name = "other"
    for operation in other.main.operations:
        operation.location = Location((f"other_{operation.name}",))
    with pytest.raises(CalibrationError) as caught:
        SplitError().run(network(), surroundings({QUANTIZED: other, SAMPLES: [sample]}))
    assert str(caught.value) == (
        "modules 'network' and 'other' have no value name in common; compare a TOP module with the TPU module lowered "
        "from it"
    )


def test_an_argument_is_read_through_an_input() -> None:
    module = network()
    (conv,) = [operation for operation in module.main.operations if operation.op.name == "top.Conv"]
    conv.set_operand(0, module.main.inputs[0])
    with pytest.raises(InvalidModel) as caught:
        ConvertTopToTpu().run(module, surroundings())
    assert str(caught.value).startswith("op 'v3' (top.Conv) reads argument ")
    assert str(caught.value).endswith(" of the function itself; put a top.Input between them")


def test_a_bias_of_integers_needs_scales() -> None:
    module = network()
    (conv,) = [operation for operation in module.main.operations if operation.op.name == "top.Conv"]
    x, filters, bias = conv.operands
    x.type = x.tensor.with_element(Uniform(ScalarType("i8"), F32, 0.5))
    for value, kind in ((filters, "si8"), (bias, "i32")):
        value.type = value.tensor.with_element(ScalarType(kind))
    with pytest.raises(
        InvalidModel, match=r"op 'v3' \(top.Conv\): its bias is stored as integers, but its operand and"
    ):
        dequantize_weights(module)


def test_layers_without_a_name_are_not_compared() -> None:
    module = network()
    context = surroundings({QUANTIZED: module.clone(), SAMPLES: [{"v0": np.zeros((1, 3, 4, 4), np.float32)}]})
    (conv, relu) = [operation for operation in module.main.operations if operation.op.name in ("top.Conv", "top.Relu")]
    conv.location = Location()
    with pytest.raises(CalibrationError, match="have no value name in common"):
        SplitError().run(module, context)
    conv.location = Location(("v3",))
    SplitError().run(module, context)
    assert [error.name for error in context.result(LAYER_ERRORS)] == ["v3", relu.name]


def test_ops_without_lowering_are_named_together() -> None:
    with pytest.raises(Unsupported) as caught:
        ConvertTopToTpu().run(network(), surroundings())
    none = "int8 on newchip: the chip has no lowering for it, and no legalization is known"
    assert str(caught.value) == (
        f"node 'v3': top.Conv {none} (and 1 more: node 'v4': top.Relu {none}). Change the node, choose another mode "
        "for it, or another chip."
    )


class Odd(TileKernel[top.Relu, Any]):
    """A kernel that refuses everything."""

    def refuse(self, node: Node) -> str | None:
        return "at most 2 dimensions, this one has 4"


def test_an_op_without_kernel() -> None:
    operation = network().main.operations[-2]
    with pytest.raises(Unsupported) as caught:
        find_kernel(surroundings(), operation)
    assert str(caught.value) == (
        "node 'v4': top.Relu on newchip: no installed package has a kernel for it; install one, or change the node"
    )


def test_an_op_that_its_kernel_refuses() -> None:
    table = SimpleNamespace(cells={"top.Relu": Odd()}, api_version=1)
    registry = Registry(offers=[chip("newchip"), offer("kernels", "newchip.top", table)])
    with pytest.raises(Unsupported) as caught:
        find_kernel(PassContext(registry, FakeChip("newchip")), network().main.operations[-2])
    assert str(caught.value) == (
        "node 'v4': top.Relu on newchip: at most 2 dimensions, this one has 4; change the node or choose another chip"
    )


def test_ranges_that_samples_did_not_give_are_not_blamed_on_a_table() -> None:
    one = TensorThreshold(1.0, -1.0, 1.0)
    measured = CalibrationTable({"v0": one, "v3": one})
    with pytest.raises(CalibrationError) as caught:
        ImportCalibration().run(network(), surroundings({CALIBRATION_TABLE: measured}))
    said = str(caught.value)
    assert said.startswith("v4 (top.Relu): the samples gave no range for 'v4', nor for 0 ")
    assert said.endswith("; make a table of this form with `tpuc calibrate` and give it with --calibration-table")
    assert "belongs to another network" not in said
