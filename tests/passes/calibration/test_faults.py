"""What a user does wrong around calibration: one sentence that names it, and what helps."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from tpuc.api import CALIBRATION_TABLE, Module
from tpuc.errors import CalibrationError
from tpuc.schedule import PassManager
from tpuc_driver.session import Session
from tpuc_ops import top
from tpuc_quantize.tables.table import CalibrationTable, TensorThreshold

from tests.passes.graphs import Network


@pytest.fixture
def module() -> Module:
    net = Network(1, 3, 6, 6)
    value = net.op(top.SiLU(), net.op(top.Conv(kernel_shape=(3, 3)), net.input, net.weight(4, 3, 3, 3), net.none))
    return net.finish(net.op(top.Conv(kernel_shape=(1, 1)), value, net.weight(2, 4, 1, 1), net.none))


def table_of(module: Module) -> CalibrationTable:
    names = [value.name for operation in module.main.operations for value in operation.results]
    return CalibrationTable({name: TensorThreshold(2.0, -2.0, 2.0) for name in names if name.startswith("v")})


def import_table(module: Module, table: CalibrationTable) -> list[str]:
    """What is remarked on when the table is put on the network."""
    said: list[str] = []
    session = Session(chip="bm1684x", quantize="int8", remark=said.append)
    PassManager(session.context({CALIBRATION_TABLE: table})).run_pipeline("calibrate", module.clone())
    return said


@pytest.mark.chip("bm1684x")
def test_a_value_that_the_table_does_not_name_is_an_error(module: Module) -> None:
    table = table_of(module)
    lacking = dataclasses.replace(table, entries={k: v for k, v in table.entries.items() if k != "v2"})
    sentence = r"v2 \(top\.Conv\): the samples gave no range for 'v2', nor for 0 other of 4 values of module 'network'"
    with pytest.raises(CalibrationError, match=sentence):
        import_table(module, lacking)


@pytest.mark.chip("bm1684x")
def test_a_value_that_only_the_table_names_is_remarked_on(module: Module) -> None:
    table = table_of(module)
    more = dataclasses.replace(table, entries={**table.entries, "elsewhere": TensorThreshold(1.0, -1.0, 1.0)})
    (said,) = import_table(module, more)
    assert said == ("calibration table: ignored 1 values that are not in module 'network' (first: 'elsewhere')")


def test_an_empty_folder_of_samples_is_an_error(module: Module, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(CalibrationError, match=r"empty: contains no samples. Samples are images"):
        Session().calibrate(module, dataset=tmp_path / "empty")


def write_network(path: Path) -> Path:
    weight = numpy_helper.from_array(np.random.default_rng(0).normal(0, 1, (4, 3, 3, 3)).astype(np.float32), "w")
    node = helper.make_node("Conv", ["x", "w"], ["y"], kernel_shape=[3, 3])
    values = [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 3, 8, 8))]
    results = [helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 4, 6, 6))]
    graph = helper.make_graph([node], "net", values, results, [weight])
    path.write_bytes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=9).SerializeToString()
    )
    return path


@pytest.mark.chip("bm1684x")
def test_compiling_looks_at_the_samples_too(tmp_path: Path) -> None:
    samples = np.random.default_rng(1).standard_normal((4, 1, 3, 8, 8)).astype(np.float32)
    samples[3] = 0.25
    np.savez(tmp_path / "samples.npz", x=samples)
    said: list[str] = []
    session = Session(chip="bm1684x", quantize="int8", remark=said.append)
    session.compile(write_network(tmp_path / "net.onnx"), tmp_path / "net.bmodel", dataset=tmp_path / "samples.npz")
    text = " ".join(said)
    assert "samples.npz[3] is constant (0.25 everywhere)" in text
    assert "Only 4 sample(s)" in text
