"""A failing network becomes a small one that fails in the same way."""

from __future__ import annotations

import sys
from collections.abc import Collection
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from tpuc_check.failure import essence
from tpuc_check.reduction import reduced
from tpuc_driver.cli import main

from tests.families import each


@given(
    st.integers(1, 60).flatmap(lambda count: st.tuples(st.just(count), st.sets(st.integers(0, count - 1), min_size=1)))
)
def test_exactly_the_parts_that_matter_are_left(case: tuple[int, set[int]]) -> None:
    count, needed = case
    assert reduced(count, lambda kept: needed <= set(kept)) == sorted(needed)


def test_few_tries_are_needed() -> None:
    tries: list[int] = []

    def fails(kept: Collection[int]) -> bool:
        tries.append(len(kept))
        return 700 in kept

    assert reduced(1000, fails) == [700]
    assert len(tries) <= 22  # two halvings of a thousand


@each(
    ("said", "left"),
    [
        (
            "tpuc: node 'a': x on y: no (and 2 more: node 'b': x; node 'c': z). Change it.",
            "node 'a': x on y: no. Change it.",
        ),
        ("ValueError: 7", "ValueError: 7"),
        ("KeyError: 140509815594640 at 0x7f00", "KeyError: N at N"),
    ],
)
def test_further_refusals_do_not_count(said: str, left: str) -> None:
    assert essence(said) == left


def network(folder: Path) -> Path:
    """Twelve nodes, of which the one called `bad` cannot be imported."""
    weights = {f"w{index}": np.full((4, 4, 1, 1), 0.1, np.float32) for index in range(5)}
    nodes, value = [], "x"
    for index in range(5):
        nodes += [
            helper.make_node("Conv", [value, f"w{index}"], [f"c{index}"], name=f"conv{index}"),
            helper.make_node("Relu", [f"c{index}"], [f"r{index}"], name=f"relu{index}"),
        ]
        value = f"r{index}"
    nodes.insert(6, helper.make_node("Mystery", ["r2"], ["p"], name="bad"))
    nodes[7].input[0] = "p"
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4, 8, 8]) for name in ("x", "r4")]
    tensors = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "net", ends[:1], ends[1:], tensors)
    path = folder / "net.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 10)], ir_version=8), path)
    return path


def test_an_onnx_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, output = network(tmp_path), tmp_path / "small.onnx"
    assert main(["reduce", str(path), "-o", str(output), "--random-weights"]) == 0
    said = capsys.readouterr().out
    assert "1 of 11 nodes (bad)" in said
    assert "1 operator is not known: Mystery (node 'bad')." in said
    small = onnx.load(output)
    assert [node.name for node in small.graph.node] == ["bad"]
    assert [entry.name for entry in small.graph.input] == ["r2"]
    assert not small.graph.initializer
    assert main(["transform", "--model-name=s", f"--model-def={output}", f"--mlir={tmp_path / 's.mlir'}"]) == 1


@pytest.mark.chip("bm1684x")
def test_a_module_on_a_chip(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, output = tmp_path / "net.prototxt", tmp_path / "small.mlir"
    path.write_text(
        'layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 4 dim: 8 dim: 8 } } }\n'
        'layer { name: "a" type: "Sigmoid" bottom: "x" top: "a" }\n'
        'layer { name: "roi" type: "Input" top: "roi" input_param { shape { dim: 3 dim: 5 } } }\n'
        'layer { name: "b" type: "ROIPooling" bottom: "a" bottom: "roi" top: "b" '
        "roi_pooling_param { pooled_h: 2 pooled_w: 2 } }\n"
        'layer { name: "c" type: "TanH" bottom: "b" top: "c" }\n',
        encoding="utf-8",
    )
    assert main(["reduce", str(path), "--chip", "bm1684x", "-o", str(output)]) == 0
    assert "1 of 3 nodes (b)" in capsys.readouterr().out
    assert output.read_text(encoding="utf-8").count('"top.ROIPooling"') == 1


def test_a_failure_that_another_program_tells(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, output, script = network(tmp_path), tmp_path / "small.onnx", tmp_path / "judge.py"
    script.write_text(
        "import sys\n"
        "data = open(sys.argv[1], 'rb').read()\n"
        "if b'conv2' in data and b'relu3' in data:\n"
        "    sys.exit(f'looked at {len(data)} bytes\\ntpuc: wrong value')\n",
        encoding="utf-8",
    )
    command = f"{sys.executable} {script} {{}}"
    assert main(["reduce", str(path), "--command", command, "-o", str(output)]) == 0
    said = capsys.readouterr()
    assert "2 of 11 nodes (conv2, relu3)" in said.out
    assert "it fails with: wrong value" in said.out
    assert sorted(node.name for node in onnx.load(output).graph.node) == ["conv2", "relu3"]


@each(
    ("options", "sentence"),
    [
        (["--command", "judge"], "--command: contains no {}; write {} in place of the network's file."),
        (
            ["--command", "judge {}", "--chip", "bm1684x"],
            "--command replaces the compilation; leave out --chip.",
        ),
        (["--command", "no-such-program {}"], "--command: no-such-program cannot be started: "),
        (
            ["--command", "'judge {}"],
            "--command: cannot be split into words (No closing quotation); quote it as in a shell.",
        ),
    ],
)
def test_commands_that_cannot_be_run(
    options: list[str], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["reduce", str(network(tmp_path)), "-o", str(tmp_path / "small.onnx"), *options]) == 2
    assert sentence in " ".join(capsys.readouterr().err.split())


def test_nothing_to_reduce(digits_onnx: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reduce", str(digits_onnx), "-o", str(tmp_path / "s.onnx")]) == 2
    assert "does not fail; nothing to reduce." in capsys.readouterr().err
    assert main(["reduce", str(digits_onnx), "-o", str(tmp_path / "s.mlir")]) == 2
    assert "the reduced digits.onnx is written as .onnx; use that suffix." in capsys.readouterr().err
