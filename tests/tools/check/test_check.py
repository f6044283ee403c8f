"""What a chip cannot compute is told all at once, in the words of the errors it leads to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tpuc.api import InvalidModel, Unsupported
from tpuc_check.findings import import_findings
from tpuc_check.subjects import OnnxSubject
from tpuc_check.trial import isolated
from tpuc_driver.cli import main
from tpuc_driver.session import Session

from tests.families import each
from tests.frontends.caffe.files import inputs, layer
from tests.frontends.tflite.files import Node, Tensor, constant, tflite_file
from tests.frontends.tflite.lstms import Layer

ROOT = Path(__file__).resolve().parents[3]
RELU = helper.make_node("Relu", ["x"], ["a"], name="first")
LRN = helper.make_node("LRN", ["a"], ["b"], name="norm", size=3)
UNKNOWN = helper.make_node("Mystery", ["b"], ["c"], name="riddle")
LAST = helper.make_node("Relu", ["c"], ["d"], name="last")
CONV = helper.make_node("Conv", ["x", "w"], ["a"], name="wide", strides=[17, 17], pads=[8] * 4, group=2)
WIDE = {"w": np.ones((4, 2, 17, 17), np.float32)}
"""289 taps, which windows of such strides are not split into; in groups, patches do not become channels."""


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
def test_ranges_that_the_network_states_are_not_made_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A layer of floats between integers."""
    path = tmp_path / "net.tflite"
    path.write_bytes(Layer(steps=2).content())
    assert main(["check", str(path), "--chip", "bm1684x"]) == 0
    out, err = capsys.readouterr()
    assert out == "net.tflite on bm1684x in int8-asym: all 2 ops can be computed\n"
    assert "calibration table" not in err


@pytest.mark.chip("bm1684x")
def test_an_attribute_beyond_the_chip(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = save(tmp_path, [CONV, LRN], "b", WIDE)
    code, result = check(path, capsys, "--quantize", "int8")
    assert code == 1
    conv = next(finding for finding in result["findings"] if finding["op"] == "top.Conv")
    assert (conv["nodes"], conv["stage"], conv["mode"]) == (["a"], "lowering", "int8")
    # The reason is part of what compiling says.
    session = Session(chip="bm1684x", quantize="f32")
    with pytest.raises(Unsupported) as caught:
        session.build(session.transform(save(tmp_path, [CONV], "a", WIDE)))
    assert conv["reason"] in str(caught.value)
    assert conv["way_out"]


@pytest.mark.chip("bm1684x")
def test_unknown_operators_and_what_comes_before_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nodes = [CONV, helper.make_node("Mystery", ["a"], ["c"], name="riddle"), LAST]
    code, result = check(save(tmp_path, nodes, "d", WIDE), capsys)
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
    assert text[0].startswith(
        "'n' (Nonsense): no installed importer supports this operator. Install a package that imports it"
    )
    assert text[-1].startswith("net.prototxt on bm1684x in f32: 2 problem(s), 0 ops checked")


def test_sentences_of_front_ends() -> None:
    text = (
        "m.onnx: 2 operators are not known: Foo (nodes 'a', 'b' and 3 more), acme::Bar (node 'c'). Install a package "
        "that imports them, or cut the network before them with --output-names.\n"
        "m.onnx: node 'p' (Pad): mode 'wrap' is not supported, only constant, reflect and edge.\n"
        "m.onnx: the graph has a cycle. A network must not read its own results."
    )
    found = [(finding.op, finding.nodes, finding.reason) for finding in import_findings(text, "m.onnx")]
    assert found == [
        ("Foo", ("a", "b"), "no installed importer supports this operator"),
        ("acme::Bar", ("c",), "no installed importer supports this operator"),
        ("Pad", ("p",), "mode 'wrap' is not supported, only constant, reflect and edge"),
        ("", (), "the graph has a cycle"),
    ]


def test_an_op_alone_computes_the_same(digits_onnx: Path) -> None:
    from tpuc.interpreter import Interpreter

    module = Session().transform(digits_onnx)
    image = np.random.default_rng(0).uniform(0, 16, (1, 1, 8, 8)).astype(np.float32)
    values = Interpreter(module).run({"image": image}, "all")
    seen: list[str] = []
    for operation in module.main.operations:
        if operation.operands and operation.results and operation.op.name != "top.Input":
            seen.append(operation.op.name)
            alone = isolated(module, operation)
            alone.verify()
            inputs = {name: values.get(name, image) for name in Interpreter(alone).inputs}
            np.testing.assert_array_equal(Interpreter(alone).run(inputs)[operation.name], values[operation.name])
    assert {"top.Conv", "top.MaxPool", "top.MatMul"} <= set(seen)


def planted_onnx(folder: Path) -> Path:
    """Two of the format's own operators that no network can hold, an unknown one, and two that no chip has."""
    nodes = [
        RELU,
        helper.make_node("NonZero", ["a"], ["p1"], name="open"),
        helper.make_node("RandomUniformLike", ["a"], ["p2"], name="random"),
        helper.make_node("Mystery", ["a"], ["p3"], name="riddle"),
        helper.make_node("Det", ["a"], ["p4"], name="det"),
        helper.make_node("Conv", ["a", "a"], ["p5"], name="computed_filter"),
        helper.make_node("Relu", ["p3"], ["p6"], name="behind"),
    ]
    path = save(folder, nodes, "p1")
    model = onnx.load(path)
    model.graph.output.extend(helper.make_empty_tensor_value_info(f"p{i}") for i in range(2, 7))
    onnx.save(model, path)
    return path


def planted_tflite(folder: Path) -> Path:
    tensors = [
        Tensor("x", (1, 4, 4, 3)),
        *(Tensor(name, (1, 4, 4, 3)) for name in ("a", "p1", "p2", "p3", "p6")),
        Tensor("f", (3, 2, 2, 3)),
        constant("i", np.array([1, 2], np.int32)),
        Tensor("p4", (1, 1, 3)),
        Tensor("p5", (1, 3, 3, 3)),
    ]
    nodes = [
        Node("ABS", ["x"], ["a"]),
        Node("RFFT2D", ["a"], ["p1"]),
        Node("", ["a"], ["p2"], custom="Mystery"),
        Node("REVERSE_SEQUENCE", ["a"], ["p3"]),
        Node("CONV_2D", ["a", "f"], ["p5"], ("Conv2DOptions", {"Padding": 1, "StrideH": 1, "StrideW": 1})),
        Node("UNIQUE", ["a"], ["p4"]),
        Node("ABS", ["p2"], ["p6"]),
    ]
    path = folder / "net.tflite"
    path.write_bytes(tflite_file(tensors, nodes, ["x", "f"], [f"p{i}" for i in range(1, 7)]))
    return path


def planted_caffe(folder: Path) -> Path:
    path = folder / "net.prototxt"
    text = inputs(x=(1, 4, 8, 8), s=(1, 18, 4, 4), d=(1, 36, 4, 4))
    text += layer("AbsVal", "", "x", "a", "fine")
    text += layer("Nonsense", "", "a", "p1", "riddle")
    text += layer("LRN", "lrn_param { local_size: 4 }", "a", "p2", "even")
    text += layer("Reorg", "reorg_param { stride: 3 }", "a", "p3", "odd")
    text += layer("Accuracy", "", "a x", "p4", "training")
    body = "proposal_param { net_input_h: 64 net_input_w: 64 }"
    text += layer("Proposal", body, "s d", "p5", "regions") + layer("AbsVal", "", "p1", "p6", "behind")
    path.write_text(text, encoding="utf-8")
    return path


PLANTED = {
    "onnx": (planted_onnx, {"NonZero", "RandomUniformLike", "Mystery", "top.Det", "top.Conv"}, 3),
    "tflite": (planted_tflite, {"RFFT2D", "custom::Mystery", "REVERSE_SEQUENCE", "UNIQUE", "top.Conv"}, 2),
    "caffe": (planted_caffe, {"Nonsense", "LRN", "Reorg", "Accuracy", "top.Proposal"}, 2),
}


@pytest.mark.chip("bm1684x")
@each("form", PLANTED)
def test_five_different_obstacles_are_told_at_once(
    form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plant, wanted, least = PLANTED[form]
    code, result = check(plant(tmp_path), capsys)
    assert (code, result["supported"], result["complete"]) == (1, False, False)
    assert {finding["op"] for finding in result["findings"]} == wanted
    assert all(finding["nodes"] and finding["reason"] and finding["way_out"] for finding in result["findings"])
    assert result["ops"] >= least  # what does not depend on them was looked at too
    on_chip = [finding for finding in result["findings"] if finding["op"].startswith("top.")]
    assert on_chip
    assert all(finding["host_operations"] or finding["cycles"] for finding in on_chip)


@pytest.mark.chip("bm1684x")
def test_every_node_of_an_unknown_operator_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nodes = [helper.make_node("Mystery", ["x"], [f"y{i}"], name=f"riddle{i}") for i in range(9)]
    _, result = check(save(tmp_path, nodes, "y0"), capsys)
    (finding,) = result["findings"]
    assert finding["nodes"] == ["riddle0"]  # the others are not needed
    path = save(tmp_path, [*nodes, helper.make_node("Concat", [f"y{i}" for i in range(9)], ["z"], axis=1)], "z")
    _, result = check(path, capsys)
    (finding,) = result["findings"]
    assert finding["nodes"] == [f"riddle{i}" for i in range(9)]


def test_a_file_that_is_no_network(tmp_path: Path) -> None:
    (tmp_path / "net.onnx").write_bytes(b"\xff\xff\xff")
    with pytest.raises(InvalidModel) as caught:
        OnnxSubject(tmp_path / "net.onnx")
    assert str(caught.value) == (
        f"{tmp_path / 'net.onnx'}: not an ONNX file, or a truncated one. Give a complete ONNX file."
    )


@pytest.mark.chip("bm1684x")
def test_several_networks_are_checked_one_after_another(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As hooks give them: the exit code is 1 where one of them does not compile."""
    digits = ROOT / "examples" / "digits" / "digits.onnx"
    damaged = tmp_path / "damaged.onnx"
    damaged.write_bytes(digits.read_bytes()[:-1000])
    assert main(["check", str(digits), str(digits), "--chip=bm1684x"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(" ")[0] for line in lines] == ["digits.onnx", "digits.onnx"]
    assert main(["check", str(digits), str(damaged), "--chip=bm1684x"]) == 1
    assert main(["check", str(digits), str(digits), "--chip=bm1684x", "--json"]) == 2
    assert "--model-data and --json are for one network; check them one at a time." in capsys.readouterr().err
