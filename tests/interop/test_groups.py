"""Our layer groups in the vendor's tool: it reads them, and prints them as we do."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto
from onnx.helper import make_graph, make_model, make_node, make_opsetid, make_tensor_value_info
from onnx.numpy_helper import from_array
from tpuc.api import Module
from tpuc_driver.data import inputs_of
from tpuc_driver.session import Session
from tpuc_plan.outline_groups import OutlineGroups

from tests.interop.test_mlir_text import reprinted, tpuc_opt
from tests.models.networks import Network

__all__ = ["tpuc_opt"]  # a fixture

pytestmark = pytest.mark.interop


def check(session: Session, module: Module, tool: Path, folder: Path) -> int:
    """All lines of all groups are printed again as they were. Returns how many operations are in them."""
    assert OutlineGroups().run(module, session.context())
    path = folder / "net_groups.mlir"
    session.save(module, path)
    ours, theirs = (groups_of(text) for text in (path.read_text(), reprinted(tool, path)))
    assert theirs == ours
    shutil.rmtree(folder, ignore_errors=True)  # weights of whole networks
    return sum("#tpu.lg<" in line for line in ours)


def groups_of(text: str) -> list[str]:
    """The lines from each `tpu.Group` to its end."""
    return [
        line
        for group in re.findall(r'^ *%\S+ = "tpu\.Group"\(.*?^ *\}\) \{.*?$', text, re.DOTALL | re.MULTILINE)
        for line in group.splitlines()
    ]


@pytest.mark.parametrize(("name", "operations"), [("digits", 21), ("resnet8", 41)])
def test_small_networks(
    name: str, operations: int, network: Callable[[str], Network], tpuc_opt: Path, tmp_path: Path
) -> None:
    net = network(name)
    session = Session(chip="bm1684x", quantize="int8")
    module = session.build(net.module, net.table).module
    assert check(session, module, tpuc_opt, tmp_path) == operations


FILES = (
    "mnist",
    "mobilenet_v1_0.25_128_bn",
    "mobilenet_v2_1.0_224_dequant",
    "blazeface",
    "ultraface_slim_320",
    "yunet_n_320",
    "yolox_nano_416",
)


@pytest.mark.slow
@pytest.mark.parametrize("file", FILES)
def test_networks_of_real_size(file: str, tpuc_opt: Path, model_data: Path, tmp_path: Path) -> None:
    session = Session(chip="bm1684x", quantize="int8")
    module = session.transform(model_data / "onnx" / f"{file}.onnx")
    (spec,) = inputs_of(module)
    samples = tmp_path / "samples.npz"
    noise: dict[str, Any] = {spec.name: np.random.default_rng(0).uniform(-1, 1, (1, *spec.shape)).astype(np.float32)}
    np.savez(samples, **noise)  # ranges do not matter for groups
    table = session.calibrate(module, dataset=samples, method="max", options={"tune_num": 0})
    final = session.build(module, table).module
    convolutions = sum(operation.op.name == "tpu.Conv2D" for operation in final.main.operations)
    assert check(session, final, tpuc_opt, tmp_path) > convolutions


def test_ops_of_which_theirs_have_more_attributes(tpuc_opt: Path, tmp_path: Path) -> None:
    nodes = [
        make_node("Sigmoid", ["x"], ["a"]),
        make_node("Mul", ["a", "third"], ["b"]),
        make_node("Sigmoid", ["b"], ["c"]),
        make_node("Pad", ["c", "pads"], ["d"]),
        make_node("Sigmoid", ["d"], ["e"]),
        make_node("Add", ["e", "third"], ["f"]),
        make_node("Sigmoid", ["f"], ["g"]),
        make_node("Slice", ["g", "ones", "ends", "axes", "ones"], ["h"]),
        make_node("Sigmoid", ["h"], ["y"]),
    ]
    x, y = (make_tensor_value_info(name, TensorProto.FLOAT, dims) for name, dims in (("x", (1, 8, 9, 9)), ("y", None)))
    constants = [
        from_array(np.array(0.3, np.float32), "third"),
        from_array(np.array([0, 0, 1, 1, 0, 0, 1, 1], np.int64), "pads"),
        *(from_array(np.array([number], np.int64), name) for name, number in (("ones", 1), ("ends", 8), ("axes", 2))),
    ]
    model = make_model(make_graph(nodes, "g", [x], [y], constants), opset_imports=[make_opsetid("", 17)])
    (tmp_path / "net.onnx").write_bytes(model.SerializeToString())
    session = Session(chip="bm1684x", quantize="f16")
    module = session.build(session.transform(tmp_path / "net.onnx")).module
    assert {"tpu.AddConst", "tpu.MulConst", "tpu.Pad", "tpu.Slice"} <= {
        operation.op.name for operation in module.main.operations
    }
    assert check(session, module, tpuc_opt, tmp_path) == 13
