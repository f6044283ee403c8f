"""Several samples in one run, and several outputs by name: the same numbers as one by one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tpuc.errors import InvalidModel
from tpuc.interpreter import Interpreter
from tpuc_driver.data import inputs_of
from tpuc_driver.session import Session
from tpuc_testing.values import build_exposed

from tests.chips.bm1684x.small_networks import write_two_headed
from tests.chips.bm1684x.test_networks import assert_same
from tests.models.networks import Network

BATCH = 4


def in_batches(net: Network, mode: str) -> tuple[Session, dict[str, np.ndarray], bytes, dict[str, np.ndarray]]:
    """Four samples at once: session, inputs, the file with every value visible, and the TPU module's values."""
    session = Session(chip="bm1684x", quantize=mode)
    module = session.transform(net.path, batch=BATCH)
    (spec,) = inputs_of(module)
    assert spec.shape[0] == BATCH
    final, data = build_exposed(session, module, net.table if mode == "int8" else None)
    inputs = {spec.name: net.images[:BATCH].reshape(spec.shape)}
    return session, inputs, data, Interpreter(final).run(inputs, "all")


@pytest.mark.parametrize("name", ["digits", "mnist", "resnet8"])
@pytest.mark.parametrize("mode", ["int8", "f32"])
def test_the_simulator_equals_the_evaluation_in_batches(
    name: str, mode: str, network: Callable[[str], Network]
) -> None:
    session, inputs, data, wanted = in_batches(network(name), mode)
    loaded = session.chip.load(data)
    got = loaded.run(inputs)
    assert_same(got, wanted, {info.name: np.empty(0) for info in loaded.outputs})


@pytest.mark.parametrize("mode", ["int8", "f32"])
def test_a_batch_gives_what_its_samples_give(mode: str, network: Callable[[str], Network]) -> None:
    net = network("digits")
    session, inputs, data, _ = in_batches(net, mode)
    together = session.chip.load(data).run(inputs)
    _, one_data = build_exposed(session, net.module, net.table if mode == "int8" else None)
    alone = session.chip.load(one_data)
    for index in range(BATCH):
        for name, array in alone.run(net.inputs(index)).items():
            row = together[name][index : index + 1]
            if array.dtype == np.float32:
                np.testing.assert_allclose(row, array, rtol=0, atol=1e-5 * max(float(np.abs(array).max()), 1e-6))
            else:
                assert np.array_equal(row, array), name


def test_a_constant_shape_follows_the_batch_and_outputs_keep_name_and_order(tmp_path: Path) -> None:
    path = write_two_headed(tmp_path / "net.onnx", (1, 3, 8, 8))
    session = Session(chip="bm1684x")
    module = session.transform(path, batch=3, output_names=("score", "relu", "map"))
    x = np.random.default_rng(0).normal(size=(3, 3, 8, 8)).astype(np.float32)
    wanted = Interpreter(module).run({"image": x})
    assert [(name, array.shape) for name, array in wanted.items()] == [
        ("score", (3, 5)),
        ("relu", (3, 6, 8, 8)),
        ("map", (3, 2, 8, 8)),
    ]
    loaded = session.chip.load(session.build(module).data)
    assert [info.name for info in loaded.outputs] == ["score", "relu", "map"]
    got = loaded.run({"image": x})
    single = Interpreter(session.transform(path, output_names=("score", "relu", "map")))
    for index in range(3):
        for name, array in single.run({"image": x[index : index + 1]}).items():
            np.testing.assert_allclose(wanted[name][index : index + 1], array, atol=1e-5)
            np.testing.assert_allclose(got[name][index : index + 1], array, atol=1e-4)


def test_one_sample_fills_the_batch_when_calibrating(tmp_path: Path) -> None:
    session = Session(chip="bm1684x", quantize="int8")
    module = session.transform(write_two_headed(tmp_path / "net.onnx", (1, 3, 8, 8)), batch=2)
    samples = np.random.default_rng(1).normal(size=(5, 3, 8, 8)).astype(np.float32)
    np.save(tmp_path / "samples.npy", samples)
    one = session.calibrate(session.transform(tmp_path / "net.onnx"), dataset=tmp_path / "samples.npy")
    two = session.calibrate(module, dataset=tmp_path / "samples.npy")
    assert {name: (entry.minimum, entry.maximum) for name, entry in one.entries.items()}.keys() == two.entries.keys()
    assert one.entries["image"] == two.entries["image"]


def test_a_scalar_has_no_batch(tmp_path: Path) -> None:
    from onnx import TensorProto, helper

    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])],
        "scalar",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [])],
    )
    path = tmp_path / "scalar.onnx"
    path.write_bytes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=9).SerializeToString()
    )
    with pytest.raises(InvalidModel, match=r"scalar\.onnx: input 'x' is a scalar, which has no batch\. Leave out"):
        Session().transform(path, batch=2)


def test_a_batch_is_compared_with_the_framework_sample_by_sample(tmp_path: Path) -> None:
    session = Session()
    path = write_two_headed(tmp_path / "net.onnx", (1, 3, 8, 8))
    module = session.transform(path, batch=3)
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(3, 3, 8, 8)).astype(np.float32))
    result = session.verify_transform(path, module, test_input=(tmp_path / "x.npy",), batch=3)
    assert result.tensors >= 4
    assert result.cosine > 0.99999
