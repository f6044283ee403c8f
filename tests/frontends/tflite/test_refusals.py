"""Files that cannot be imported: one sentence each, with the thing, the reason and the way out."""

from __future__ import annotations

import contextlib
import re
import sys
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
import pytest
import tflite
from hypothesis import given
from hypothesis import strategies as st
from tpuc.api import ImportOptions, InvalidModel, TpucError, Unsupported, install_command
from tpuc_tflite.engine import ENGINE
from tpuc_tflite.frontend import FRONTEND

from tests.families import each
from tests.frontends.tflite.files import SAME, Node, Tensor, constant, tflite_file
from tests.frontends.tflite.networks import read, registry, values

X, Y = Tensor("x", (1, 4)), Tensor("y", (1, 4))
ABS = Node("ABS", ["x"], ["y"])
VALID_FILE = tflite_file([X, Y], [ABS], ["x"], ["y"])


def network() -> bytes:
    """Something with every kind of table: options, scales, weights, vectors."""
    tensors = [
        Tensor("x", (1, 8, 8, 3), "INT8", None, (0.05,), (3,)),
        constant("w", np.arange(-54, 54, dtype=np.int8).reshape(4, 3, 3, 3), (0.01, 0.02, 0.03, 0.04), (0, 0, 0, 0)),
        constant("b", np.arange(4, dtype=np.int32)),
        Tensor("c", (1, 4, 4, 4), "INT8", None, (0.1,), (-5,)),
        constant("s", np.array([1, 64], np.int32)),
        Tensor("y", (1, 64), "INT8", None, (0.1,), (-5,)),
    ]
    nodes = [
        Node("CONV_2D", ["x", "w", "b"], ["c"], ("Conv2DOptions", {"Padding": SAME, "StrideH": 2, "StrideW": 2})),
        Node("RESHAPE", ["c", "s"], ["y"], ("ReshapeOptions", {"NewShape": (1, 64)})),
    ]
    return tflite_file(tensors, nodes, ["x"], ["y"])


NETWORK = network()


def sentence(content: bytes, folder: Path, options: ImportOptions | None = None) -> str:
    """The error's text, without the folder."""
    with pytest.raises(TpucError) as caught:
        read(content, folder, options)
    return str(caught.value).replace(f"{folder}/", "")


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(InvalidModel, match=r"no\.tflite: there is no such file\. Check the path\.$"):
        FRONTEND.read(tmp_path / "no.tflite", ImportOptions(), registry())


def test_another_format(tmp_path: Path) -> None:
    assert sentence(b"\x08\x07\x12\x07pytorch:\x05model", tmp_path) == (
        "network.tflite: not a TFLite file, or a truncated one (18 bytes): it lacks the identifier TFL3. Export or "
        "download it again."
    )


def test_schema_version(tmp_path: Path) -> None:
    assert sentence(tflite_file([X, Y], [ABS], ["x"], ["y"], version=2), tmp_path) == (
        "network.tflite: has schema version 2, but only version 3 is supported. Convert the network again with a "
        "current "
        "converter."
    )


def test_unknown_operators_are_listed_together(tmp_path: Path) -> None:
    tensors = [X, *(Tensor(name, (1, 4)) for name in "abcy")]
    nodes = [
        Node("", ["x"], ["a"], custom="Fold"),
        Node("", ["a"], ["b"], custom="TFLite_Detection_PostProcess"),
        Node("ABS", ["b"], ["c"]),
        Node("", ["x"], ["y"], custom="Fold"),
    ]
    assert sentence(tflite_file(tensors, nodes, ["x"], ["c", "y"]), tmp_path) == (
        "network.tflite: 2 operators are not known: custom::Fold (nodes 'a', 'y'), "
        "custom::TFLite_Detection_PostProcess (node 'b'). Install a package that imports them, or cut the network "
        "before them with --output-names."
    )


def test_a_way_out_with_output_names(tmp_path: Path) -> None:
    tensors = [X, Tensor("a", (1, 4)), Y]
    content = tflite_file(tensors, [Node("ABS", ["x"], ["a"]), Node("RFFT2D", ["a"], ["y"])], ["x"], ["y"])
    read(content, tmp_path, ImportOptions("n", output_names=("a",)))
    assert sentence(content, tmp_path, ImportOptions("n", output_names=("aa",))) == (
        "network.tflite: no computed tensor is named 'aa' (--output-names). Did you mean 'a'?"
    )


@each(
    ("tensors", "nodes", "expected"),
    [
        (
            [X, Y],
            [Node("ABS", ["y"], ["y"])],
            "node 'y' (ABS) reads tensor 'y', which node 'y' computes only later. Export the network again.",
        ),
        (
            [X, Tensor("z", (1, 4)), Y],
            [Node("ABS", ["z"], ["y"])],
            "node 'y' (ABS) reads tensor 'z', which nothing computes. Export the network again.",
        ),
        (
            [X, Y],
            [ABS, ABS],
            "node 'y' (ABS) computes tensor 'y', which already exists. Export the network again.",
        ),
        (
            [X, Tensor("y", (1, 5))],
            [ABS],
            "node 'y' (ABS): tensor 'y' is declared as 1x5, and its operands make it 1x4. Export the network again.",
        ),
        (
            [X, constant("w", values(1, 3)), Y],
            [Node("ADD", ["x", "w"], ["y"], ("AddOptions", {}))],
            "node 'y' (ADD): shapes 1x4 and 1x3 do not broadcast (operands 1x4, 1x3).",
        ),
        (
            [X, constant("w", np.full((1, 4), np.nan, np.float32)), Y],
            [Node("ADD", ["x", "w"], ["y"], ("AddOptions", {}))],
            (
                "node 'y' (ADD): weight 'w' holds NaN (4 of 4 values). Export the network from a checkpoint whose "
                "weights are finite."
            ),
        ),
        (
            [X, Y],
            [Node("ADD", ["x", "x"], ["y"], ("AddOptions", {"FusedActivationFunction": 5}))],
            "node 'y' (ADD): its fused activation 5 is not supported.",
        ),
        (
            [X, Tensor("p", (1, 2), "INT32"), Y],
            [Node("PAD", ["x", "p"], ["y"], ("PadOptions", {}))],
            "node 'y' (PAD): the padding is computed at run time (tensor 'p'), but must be a constant.",
        ),
        (
            [X, Y],
            [Node("PAD", ["x"], ["y"], ("PadOptions", {}))],
            "node 'y' (PAD): the padding is missing.",
        ),
        (
            [Tensor("x", (1, 4), "INT8", None, (0.1,), (0,)), Tensor("y", (1, 4), "INT8", None, (0.1,), (0,))],
            [Node("NEG", ["x"], ["y"])],
            (
                "node 'y' (NEG): the runtime negates stored integers without regard to scales: export this "
                "node as float."
            ),
        ),
        (
            [Tensor("x", (1, 4), "INT8", None, (0.1,), (0,)), Tensor("y", (1, 4), "INT8", None, (0.1,), (3,))],
            [Node("L2_NORMALIZATION", ["x"], ["y"])],
            (
                "node 'y' (L2_NORMALIZATION): its result 'y' has scale 0.10000000149011612 and zero point 3, but "
                "LiteRT uses 0.0078125 and 0: quantize it that way."
            ),
        ),
        (
            [Tensor(name, (1, 4), "INT16", None, (0.1,), (0,)) for name in "xy"],
            [Node("SQUARED_DIFFERENCE", ["x", "x"], ["y"])],
            (
                "node 'y' (SQUARED_DIFFERENCE): LiteRT supports it for 8-bit operands with one scale each: quantize "
                "them that way."
            ),
        ),
        (
            [Tensor("x", (1, 4), "INT8", None, (0.1, 0.2), (0, 0), 1), Y],
            [ABS],
            "tensor 'x' has 2 scales and 2 zero points along dimension 1 of 1x4. Export or download it again.",
        ),
        (
            [Tensor("x", (1, 4), "INT8", None, (-0.1,), (0,)), Y],
            [ABS],
            "tensor 'x' has a quantization scale that is not a positive number. Export or download it again.",
        ),
        (
            [Tensor("x", (1 << 20, 1 << 20)), Y],
            [ABS],
            "tensor 'x' has the impossible shape 1048576x1048576. Export or download it again.",
        ),
        (
            [X, Tensor("w", (1, 4), "FLOAT32", np.zeros(3, np.float32)), Y],
            [Node("ADD", ["x", "w"], ["y"], ("AddOptions", {}))],
            "weight 'w' has 12 bytes, but its shape 1x4 of FLOAT32 needs 16. Export or download it again.",
        ),
    ],
)
def test_sentences(tensors: list[Tensor], nodes: list[Node], expected: str, tmp_path: Path) -> None:
    inputs = ["x", "p"] if tensors[1].name == "p" else ["x"]
    assert sentence(tflite_file(tensors, nodes, inputs, ["y"]), tmp_path) == f"network.tflite: {expected}"


def test_outputs_must_depend_on_inputs(tmp_path: Path) -> None:
    tensors = [X, constant("w", values(1, 4)), Y, Tensor("z", (1, 4))]
    nodes = [ABS, Node("ABS", ["w"], ["z"])]
    assert sentence(tflite_file(tensors, nodes, ["x"], ["y", "z"]), tmp_path) == (
        "network.tflite: output 'z' does not depend on any input. Choose other outputs with --output-names."
    )


def test_a_list_that_claims_more_than_the_file_holds(tmp_path: Path) -> None:
    model = tflite.Model.GetRootAs(VALID_FILE, 0)
    table: Any = model._tab
    start = table.Vector(table.Offset(6)) - 4  # the length of the list of operator codes
    content = bytearray(VALID_FILE)
    content[start : start + 4] = flatbuffers.number_types.UOffsetTFlags.py_type(1 << 31).to_bytes(4, "little")
    assert "claims 2147483648 entries, more than the file can hold" in sentence(bytes(content), tmp_path)


@each("keep", range(0, len(NETWORK), 37))
def test_truncated_files(keep: int, tmp_path: Path) -> None:
    with pytest.raises((InvalidModel, Unsupported)):
        read(NETWORK[:keep], tmp_path)


@given(st.lists(st.tuples(st.integers(0, len(NETWORK) - 4), st.integers(0, (1 << 32) - 1)), min_size=1, max_size=6))
def test_damaged_files(tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[int, int]]) -> None:
    """Either a network that is still one, or a sentence."""
    content = bytearray(NETWORK)
    for place, number in changes:
        content[place : place + 4] = number.to_bytes(4, "little")
    with contextlib.suppress(TpucError):
        read(bytes(content), tmp_path_factory.getbasetemp())


def test_the_engine_needs_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ai_edge_litert.interpreter", None)
    path = tmp_path / "n.tflite"
    path.write_bytes(VALID_FILE)
    wanted = f"{path}: comparing with LiteRT needs the package ai-edge-litert: {install_command('litert')}"
    with pytest.raises(Unsupported, match=f"^{re.escape(wanted)}$"):
        ENGINE.run(path, {"x": values(1, 4)})


def test_variables_are_no_damage(tmp_path: Path) -> None:
    """Operators without a result write variables; what does not depend on one is compiled without it."""
    tensors = [X, Y, Tensor("v", (), "RESOURCE"), Tensor("old", (1, 4)), Tensor("sum", (1, 4))]
    nodes = [
        Node("CALL_ONCE", [], []),
        Node("VAR_HANDLE", [], ["v"]),
        Node("READ_VARIABLE", ["v"], ["old"]),
        Node("ADD", ["x", "old"], ["sum"]),
        Node("ASSIGN_VARIABLE", ["v", "sum"], []),
        ABS,
    ]
    stateful = read(tflite_file(tensors, nodes, ["x"], ["sum", "y"]), tmp_path)
    assert [value.name for value in stateful.main.outputs] == ["sum", "y", "v__next"]
    free = read(tflite_file(tensors, nodes, ["x"], ["y"]), tmp_path)
    assert "top.Abs" in [operation.op.name for operation in free.main.operations]
    lost = tflite_file([X, Y], [ABS, Node("", ["y"], [], custom="Log")], ["x"], ["y"])
    assert "operator 1 (Log) has no result, so its effect on the network is unknown" in sentence(lost, tmp_path)
    damaged = tflite_file([X, Y], [ABS, Node("ABS", ["x"], [])], ["x"], ["y"])
    assert "is damaged: operator 1 (ABS) has no result. Export or download it again." in sentence(damaged, tmp_path)
