"""Nodes whose operands or attributes cannot be imported: the node, the reason and, where there is one, the way out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper
from tpuc.api import ImportOptions, TpucError

from tests.families import each
from tests.frontends.onnx.networks import network, node, read, values

Array = NDArray[Any]
IMAGE, VOLUME = (1, 4, 6, 6), (1, 4, 2, 2, 2, 2)
FILTER = {"w": values(8, 4, 3, 3)}


def sentence(model: onnx.ModelProto, folder: Path, options: ImportOptions | None = None) -> str:
    """The error's text behind the file's name."""
    with pytest.raises(TpucError) as caught:
        read(model, folder, options)
    return str(caught.value).replace(f"{folder}/", "").removeprefix("m.onnx: ")


CASES: list[tuple[onnx.NodeProto, tuple[int, ...], Mapping[str, Array], int, str]] = [
    (
        node("NonMaxSuppression", "x s", "y"),
        (1, 6, 4),
        {"s": values(1, 2, 6)},
        17,
        (
            "the size of its result depends on the data, but compiled shapes are static; cut the network "
            "before it, and add decoding and suppression with --post."
        ),
    ),
    (
        node("BatchNormalization", "x s s s s", "y", spatial=0),
        (1, 4),
        {"s": values(4)},
        8,
        "statistics per element are not supported; use statistics per channel (spatial = 1).",
    ),
    (
        node("DeformConv", "x w o", "y"),
        (1, 4, 6),
        {"w": values(8, 4, 3), "o": values(1, 3, 4)},
        19,
        "it needs images, but this kernel has 1 dimensions.",
    ),
    (
        node("ConvTranspose", "x w", "y"),
        VOLUME,
        {"w": values(4, 8, 1, 1, 1, 1)},
        13,
        "filters of 4 dimensions are not supported; use 1 to 3.",
    ),
    (
        node("Cast", "x", "y", to=TensorProto.FLOAT8E8M0, round_mode="nearest"),
        (2, 3),
        {},
        24,
        "round_mode 'nearest' is not supported; use up.",
    ),
    (
        node("GRU", "x w r", "y", hidden_size=2, activations=["Softmax", "Tanh"]),
        (3, 1, 4),
        {"w": values(1, 6, 4), "r": values(1, 6, 2)},
        13,
        "activation 'softmax' is not known.",
    ),
    (
        node("RNN", "x w r", "y", hidden_size=2, activations=["Relu"], clip=1.0),
        (1025, 1, 4),
        {"w": values(1, 2, 4), "r": values(1, 2, 2)},
        13,
        "it has 1025 steps, and more than 1024 are too many to unroll.",
    ),
]


@each(("proto", "shape", "weights", "opset", "expected"), CASES)
def test_sentences(
    proto: onnx.NodeProto,
    shape: tuple[int, ...],
    weights: Mapping[str, Array],
    opset: int,
    expected: str,
    tmp_path: Path,
) -> None:
    told = sentence(network([proto], {"x": shape}, ["y"], weights, opset), tmp_path)
    assert told == f"node '{proto.name}' ({proto.op_type}): {expected}"


@each(
    ("proto", "weights", "reason"),
    [
        (node("Conv", "x w", "y", kernel_shape=[5, 5]), FILTER, "kernel_shape"),
        (node("Conv", "x w", "y", strides=[1]), FILTER, "stride"),
        (node("Conv", "x w", "y", auto_pad="SAME"), FILTER, "auto_pad"),
        (node("Conv", "x w", "y", pads=[1, 1]), FILTER, "pads"),
        (node("Conv", "x w", "y", pads=[0, 0, -1, 0]), FILTER, "negative"),
        (node("Einsum", "x x", "y", equation="nchw->n"), {}, "equation|Einsum|operands"),
        (node("Gather", "x i", "y", axis=9), {"i": np.zeros(1, np.int64)}, "axis"),
    ],
)
def test_what_onnx_itself_or_the_importer_finds(
    proto: onnx.NodeProto, weights: Mapping[str, Array], reason: str, tmp_path: Path
) -> None:
    told = sentence(network([proto], {"x": IMAGE}, ["y"], weights), tmp_path)
    assert told.startswith(f"node '{proto.name}' ({proto.op_type}): ")
    assert any(word in told for word in reason.split("|")), told


def body(*nodes: onnx.NodeProto, inputs: Mapping[str, Any], outputs: tuple[str, ...]) -> onnx.GraphProto:
    kinds = {"i": TensorProto.INT64, "going": TensorProto.BOOL}
    return helper.make_graph(
        list(nodes),
        "body",
        [helper.make_tensor_value_info(name, kinds.get(name, TensorProto.FLOAT), s) for name, s in inputs.items()],
        [onnx.ValueInfoProto(name=name) for name in outputs],
    )


def scan(count: int) -> onnx.NodeProto:
    inner = body(node("Add", "s e", "r"), inputs={"s": [4], "e": [4]}, outputs=("r",))
    return node("Scan", "x z", "y", body=inner, num_scan_inputs=count)


@each(
    ("count", "shapes", "expected"),
    [
        (3, ((4,), (2, 4)), "num_scan_inputs is 3, but it has 2 operands."),
        (2, ((3, 4), (2, 4)), "its scanned operands have [2, 3] steps; they must agree, and be at most 1024."),
        (1, ((4,), (1025, 4)), "its scanned operands have [1025] steps; they must agree, and be at most 1024."),
    ],
)
def test_scans(count: int, shapes: tuple[tuple[int, ...], ...], expected: str, tmp_path: Path) -> None:
    told = sentence(network([scan(count)], dict(zip("xz", shapes, strict=True)), ["y"]), tmp_path)
    assert told == f"node 'Scan_y' (Scan): {expected}"


def test_a_loop_that_never_runs_has_no_parts(tmp_path: Path) -> None:
    inner = body(
        node("Identity", "going", "on"),
        node("Relu", "c", "r"),
        inputs={"i": [], "going": [], "c": [4]},
        outputs=("on", "r", "r"),
    )
    weights = {"zero": np.array(0, np.int64)}
    model = network([node("Loop", "zero - x", "last y", body=inner)], {"x": [4]}, ["y"], weights)
    assert sentence(model, tmp_path) == "node 'Loop_last' (Loop): it never runs, so 'y' has no elements."


def test_a_branch_that_is_not_there(tmp_path: Path) -> None:
    then = body(node("Relu", "x", "r"), inputs={}, outputs=("r",))
    model = network([node("If", "c", "y", then_branch=then)], {"x": [4]}, ["y"], {"c": np.array(False)})
    assert "it has no graph 'else_branch'" in sentence(model, tmp_path)


def test_a_version_that_is_none(tmp_path: Path) -> None:
    model = network([node("Relu", "x", "y")], {"x": [4]}, ["y"], opset=1 << 20)
    assert sentence(model, tmp_path) == "opset 1048576 does not exist. Export it again."


def test_a_name_that_is_no_text(tmp_path: Path) -> None:
    content = network([node("Relu", "x", "y")], {"x": [4]}, ["y"]).SerializeToString()
    with pytest.raises(TpucError, match=r"node 0 has a name that is not text\. Export or download the file again\.$"):
        read(content.replace(b"Relu_y", b"Relu\xff\xfe"), tmp_path)


def test_a_batch_for_a_scalar(tmp_path: Path) -> None:
    model = network([node("Relu", "x", "y")], {"x": []}, ["y"])
    assert sentence(model, tmp_path, ImportOptions("m", batch=2)) == (
        "input 'x' is a scalar, which has no batch. Leave out --batch, and give the shapes with --input-shapes."
    )


def test_constants_that_cannot_be_computed(tmp_path: Path) -> None:
    weights = {"a": np.zeros((2, 3), np.float32), "shape": np.array([4], np.int64)}
    nodes = [node("Reshape", "a shape", "b"), node("Add", "x b", "y")]
    told = sentence(network(nodes, {"x": [4]}, ["y"], weights), tmp_path)
    assert told.startswith("node 'Reshape_b' (Reshape): its operands are constants, but it cannot be computed: ")


def test_constants_whose_shapes_do_not_fit_each_other(tmp_path: Path) -> None:
    """A zero point of two dimensions beside a scale of one: onnx's reference fails without a word."""
    weights = {"w": np.zeros((4, 4), np.int8), "s": np.ones(4, np.float32), "z": np.zeros((4, 1), np.int8)}
    nodes = [node("DequantizeLinear", "w s z", "d", axis=0), node("Add", "x d", "y")]
    told = sentence(network(nodes, {"x": [4, 4]}, ["y"], weights), tmp_path)
    assert told == (
        "node 'DequantizeLinear_d' (DequantizeLinear): its operands are constants, but it cannot be computed: their "
        "shapes or types do not fit each other. Export the network again, or check --input-shapes."
    )
    assert told.endswith(". Export the network again, or check --input-shapes.")
