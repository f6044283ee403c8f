"""`tpuc check` says no where compiling with calibration does, and in its words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tpuc.api import Module, TpucError
from tpuc_check.ranges import drawn_ranges
from tpuc_check.trial import Trials
from tpuc_driver.cli import main
from tpuc_driver.cli.app import App
from tpuc_driver.session import Session

from tests import support_forms
from tests.families import each

CHIPS = ("bm1684x", "cv181x", "c")
FEW = 29
"""Every so many of the forms in quick runs, beside the networks."""

HIDDEN = np.where(np.tri(10, dtype=bool), np.float32(0), np.float32(-np.inf))
MASKED = [
    helper.make_node("Sub", ["one", "keep"], ["hidden"]),
    helper.make_node("Mul", ["hidden", "lowest"], ["mask"]),
    helper.make_node("Add", ["x", "mask"], ["scores"]),
    helper.make_node("Softmax", ["scores"], ["y"]),
]
NETWORKS: dict[str, tuple[list[onnx.NodeProto], dict[str, Any], list[int], list[str]]] = {
    "mask": (MASKED, {"one": 1.0, "lowest": float(np.finfo(np.float32).min)}, [1, 10, 10], ["keep"]),
    "causal": (
        [helper.make_node("Add", ["x", "hide"], ["scores"]), helper.make_node("Softmax", ["scores"], ["y"])],
        {"hide": HIDDEN},
        [1, 10, 10],
        [],
    ),
    "logarithm": (
        [helper.make_node("Log", ["x"], ["l"]), helper.make_node("Relu", ["l"], ["y"])],
        {},
        [1, 4, 8, 8],
        [],
    ),
    "scale": ([helper.make_node("Mul", ["x", "gain"], ["y"])], {}, [1, 4, 8, 8], ["gain"]),
}
"""Nodes, constants, the shape of `x` and further inputs: one row of a mask, or one number."""


def network(name: str, folder: Path) -> Path:
    nodes, constants, shape, more = NETWORKS[name]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)]
    inputs += [helper.make_tensor_value_info(one, TensorProto.FLOAT, [10] if one == "keep" else []) for one in more]
    tensors = [numpy_helper.from_array(np.array(array, np.float32), key) for key, array in constants.items()]
    graph = helper.make_graph(nodes, "net", inputs, [helper.make_empty_tensor_value_info("y")], tensors)
    path = folder / f"{name}.onnx"
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    path.write_bytes(model.SerializeToString())
    return path


def compiled(session: Session, path: Path, folder: Path) -> str | None:
    """Why a network does not compile on samples of the user's own; None where it does."""
    generator = np.random.default_rng(3)
    module = session.transform(path)
    samples: dict[str, Any] = {
        one: generator.uniform(0.1, 1, () if one == "gain" else shape).astype(np.float32)
        for one, shape in (("x", NETWORKS[path.stem][2]), ("keep", [10]), ("gain", []))
        if one in {"x", *NETWORKS[path.stem][3]}
    }
    np.savez(folder / "own.npz", **samples)
    try:
        session.build(module, session.calibrate(module, dataset=folder / "own.npz"))
    except TpucError as error:
        return str(error)
    return None


@each("chip", CHIPS)
def test_networks_that_compile_have_nothing_in_the_way(
    chip: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    differ: list[str] = []
    for name in NETWORKS:
        path = network(name, tmp_path)
        refused = compiled(Session(chip=chip, quantize="int8"), path, tmp_path)
        code = main(["check", str(path), "--chip", chip, "--quantize", "int8"])
        said = capsys.readouterr().out
        if (code == 0) != (refused is None):
            differ.append(f"{name}: compile: {refused}; check: {said}")
    assert not differ


def said(app: App, chip: str, module: Module, folder: Path) -> list[str]:
    """The reasons that are found for a form."""
    from tpuc_check.command import explained, whole
    from tpuc_check.destination import Destination

    session = Session(app.registry, chip=chip, quantize="int8", opt=1)
    table = drawn_ranges(session, module, folder)
    found, *_ = whole(session, module, table, Destination())
    return [one.reason for one in explained(app, session, module, table, found)]


def differing(chip: str, names: list[str], folder: Path) -> list[str]:
    """Forms that one of the two takes and the other refuses, or that are refused in other words."""
    app = App()
    found: list[str] = []
    for name in names:
        refused = support_forms.refusal(chip, "int8", name, app.registry)
        reasons = said(app, chip, support_forms.module_of(name), folder)
        told = refused is not None and any(one in refused or refused in one for one in reasons)
        if told != bool(reasons) or bool(reasons) != (refused is not None):
            found.append(f"{name}: compile: {refused}; check: {reasons}")
    return found


@each("chip", CHIPS)
def test_forms_of_ops(chip: str, tmp_path: Path) -> None:
    assert not differing(chip, list(support_forms.forms())[::FEW], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("chip", CHIPS)
def test_all_forms_of_ops(chip: str, tmp_path: Path) -> None:
    assert not differing(chip, list(support_forms.forms()), tmp_path)


def test_random_data_is_not_run_through_huge_networks(tmp_path: Path) -> None:
    """2 GiB of one value, of a file of a few bytes."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1])
    shape = numpy_helper.from_array(np.array([1 << 14, 1 << 15], np.int64), "shape")
    node = helper.make_node("Expand", ["x", "shape"], ["y"])
    graph = helper.make_graph([node], "net", [x], [helper.make_empty_tensor_value_info("y")], [shape])
    path = tmp_path / "net.onnx"
    path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]).SerializeToString())
    session = Session(chip="bm1684x", quantize="int8")
    assert drawn_ranges(session, session.transform(path), tmp_path) == tmp_path / "ranges"


def test_infinite_weights_of_parts_are_those_of_the_network(tmp_path: Path) -> None:
    """A mask that was imported is tried by itself too."""
    module = Session().transform(network("causal", tmp_path))
    trials = Trials(module, Session(chip="bm1684x", quantize="f16"))
    add = next(one for one in module.main.operations if one.op.name == "top.Add")
    assert trials.verdict(add).reason is None
