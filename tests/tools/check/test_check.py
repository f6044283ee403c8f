"""What a chip cannot compute is told all at once, in the words of the errors it leads to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tpuc.api import Unsupported
from tpuc.cli import main
from tpuc.session import Session
from tpuc_check.findings import import_findings
from tpuc_check.frontier import readable_outputs
from tpuc_check.trial import isolated

RELU = helper.make_node("Relu", ["x"], ["a"], name="first")
LRN = helper.make_node("LRN", ["a"], ["b"], name="norm", size=3)
UNKNOWN = helper.make_node("Mystery", ["b"], ["c"], name="riddle")
LAST = helper.make_node("Relu", ["c"], ["d"], name="last")
CONV = helper.make_node("Conv", ["x", "w"], ["a"], name="wide", strides=[17, 17])


def save(folder: Path, nodes: list[onnx.NodeProto], output: str, weights: dict[str, Any] | None = None) -> Path:
    ends = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4, 40, 40]),
        helper.make_empty_tensor_value_info(output),
    ]
    tensors = [numpy_helper.from_array(array, name) for name, array in (weights or {}).items()]
    graph = helper.make_graph(nodes, "net", ends[:1], ends[1:], tensors)
    path = folder / "net.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
    return path


def check(path: Path, capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, Any]:
    capsys.readouterr()
    code = main(["check", str(path), "--chip", "bm1684x", "--json", *options])
    return code, json.loads(capsys.readouterr().out)


@pytest.mark.chip("bm1684x")
def test_a_network_without_obstacles(digits_onnx: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for mode in ("f32", "int8"):
        code, result = check(digits_onnx, capsys, "--quantize", mode)
        assert (code, result["supported"], result["findings"]) == (0, True, [])
        assert result["ops"] > 0
    assert main(["check", str(digits_onnx), "--chip", "bm1684x"]) == 0
    assert capsys.readouterr().out.startswith("digits.onnx on bm1684x in f32: all ")


@pytest.mark.chip("bm1684x")
def test_an_attribute_beyond_the_chip(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    weights = {"w": np.ones((4, 4, 3, 3), np.float32)}
    path = save(tmp_path, [CONV, LRN], "b", weights)
    code, result = check(path, capsys, "--quantize", "int8")
    assert code == 1
    conv = next(finding for finding in result["findings"] if finding["op"] == "top.Conv")
    assert (conv["nodes"], conv["stage"], conv["mode"]) == (["a"], "lowering", "int8") or conv["stage"] == "code"
    # The reason is part of what compiling says.
    session = Session(chip="bm1684x", quantize="f32")
    with pytest.raises(Unsupported) as caught:
        session.build(session.transform(save(tmp_path, [CONV], "a", weights)))
    assert conv["reason"] in str(caught.value)
    assert conv["way_out"]


@pytest.mark.chip("bm1684x")
def test_unknown_operators_and_what_comes_before_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    weights = {"w": np.ones((4, 4, 3, 3), np.float32)}
    nodes = [CONV, helper.make_node("Mystery", ["a"], ["c"], name="riddle"), LAST]
    code, result = check(save(tmp_path, nodes, "d", weights), capsys)
    assert (code, result["complete"], result["ops"]) == (1, False, 1)
    first, second = result["findings"]
    assert (first["stage"], first["nodes"], first["op"]) == ("import", ["riddle"], "Mystery")
    assert second["op"] == "top.Conv"


@pytest.mark.chip("bm1684x")
def test_layers_of_caffe(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "net.prototxt"
    path.write_text(
        'layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 4 dim: 8 dim: 8 } } }\n'
        'layer { name: "n" type: "Nonsense" bottom: "x" top: "y" }\n'
        'layer { name: "l" type: "LRN" bottom: "x" top: "z" lrn_param { local_size: 4 } }\n',
        encoding="utf-8",
    )
    code, result = check(path, capsys)
    assert code == 1
    assert [(finding["op"], finding["nodes"]) for finding in result["findings"]] == [
        ("Nonsense", ["n"]),
        ("LRN", ["l"]),
    ]
    assert result["findings"][1]["reason"] == "local_size must be odd, this one is 4"
    assert main(["check", str(path), "--chip", "bm1684x"]) == 1
    text = capsys.readouterr().out.splitlines()
    assert text[0].startswith("'n' (Nonsense): no importer knows this operator. Install a package that imports it")
    assert text[-1].startswith("net.prototxt on bm1684x in f32: 2 thing(s) in the way, 0 ops looked at")


def test_sentences_of_front_ends() -> None:
    text = (
        "m.onnx: 2 operators are not known: Foo (nodes 'a', 'b' and 3 more), acme::Bar (node 'c'). Install a package "
        "that imports them, or cut the network before them with --output-names.\n"
        "m.onnx: node 'p' (Pad): mode 'wrap' is not supported, only constant, reflect and edge.\n"
        "m.onnx: the graph has a cycle. A network must not read its own results."
    )
    found = [(finding.op, finding.nodes, finding.reason) for finding in import_findings(text, "m.onnx")]
    assert found == [
        ("Foo", ("a", "b"), "no importer knows this operator"),
        ("acme::Bar", ("c",), "no importer knows this operator"),
        ("Pad", ("p",), "mode 'wrap' is not supported, only constant, reflect and edge"),
        ("", (), "the graph has a cycle"),
    ]


def test_where_an_onnx_file_can_be_cut(tmp_path: Path) -> None:
    path = save(tmp_path, [RELU, LRN, UNKNOWN, LAST], "d")
    assert readable_outputs(path, {"riddle"}) == ("b",)
    assert readable_outputs(path, {"first"}) == ()
    assert readable_outputs(path, {"nobody"}) == ()
    assert readable_outputs(tmp_path / "net.prototxt", {"riddle"}) == ()


def test_an_op_alone_computes_the_same(digits_onnx: Path) -> None:
    from tpuc.interpreter import Interpreter

    module = Session().transform(digits_onnx)
    image = np.random.default_rng(0).uniform(0, 16, (1, 1, 8, 8)).astype(np.float32)
    values = Interpreter(module).run({"image": image}, "all")
    for operation in module.main.operations:
        if operation.operands and operation.results and operation.op.name != "top.Input":
            alone = isolated(module, operation)
            alone.verify()
            inputs = {name: values.get(name, image) for name in Interpreter(alone).inputs}
            np.testing.assert_array_equal(Interpreter(alone).run(inputs)[operation.name], values[operation.name])
