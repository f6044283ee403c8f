"""Graphs: what folds away, in which order nodes come, what values are called, where the network is cut."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from tpuc.api import ImportOptions, IntegerAttr, Module, StringAttr
from tpuc_ops import top

from tests.families import each
from tests.frontends.onnx.networks import assert_same, network, node, ops, read, values

I64 = np.int64


def names(module: Module) -> list[str]:
    """Value names in order, without weights."""
    return [op.name for op in module.walk() if op.results and op.op.name not in ("top.None", "top.Weight")]


def test_shape_glue_folds_away(tmp_path: Path) -> None:
    """What exporters write for `x.reshape(x.shape[0], -1, x.shape[3] * 2)`."""
    nodes = [
        node("Shape", "x", "s"),
        node("Gather", "s zero", "n"),
        node("Unsqueeze", "n", "n1", axes=[0]),
        node("Gather", "s three", "w"),
        node("Mul", "w two", "w2"),
        node("Unsqueeze", "w2", "w3", axes=[0]),
        node("Constant", "", "rest", value=numpy_helper.from_array(np.array([-1], I64))),
        node("Concat", "n1 rest w3", "shape", axis=0),
        node("Reshape", "x shape", "r"),
        node("Relu", "r", "y"),
    ]
    weights = {"zero": np.array(0, I64), "three": np.array(3, I64), "two": np.array(2, I64)}
    model = network(nodes, {"x": [2, 3, 4, 5]}, ["y"], weights, opset=11)
    module = read(model, tmp_path)
    assert ops(module) == ["Reshape", "Relu"]
    assert module.main.outputs[0].tensor.dims == (2, 6, 10)
    assert_same(model, module)


def test_shapes_of_computed_values_fold_too(tmp_path: Path) -> None:
    nodes = [
        node("MaxPool", "x", "p", kernel_shape=[2, 2]),
        node("Shape", "p", "s"),
        node("ConstantOfShape", "s", "ones", value=numpy_helper.from_array(np.array([3], np.float32))),
        node("Add", "p ones", "y"),
    ]
    model = network(nodes, {"x": [1, 2, 4, 5]}, ["y"])
    module = read(model, tmp_path)
    assert ops(module) == ["MaxPool", "Add"]
    assert_same(model, module)


def test_weights_that_are_computed_from_weights_fold(tmp_path: Path) -> None:
    nodes = [
        node("Transpose", "w", "t"),
        node("Cast", "t", "c", to=TensorProto.FLOAT),
        node("MatMul", "x c", "y"),
    ]
    model = network(nodes, {"x": [2, 3]}, ["y"], {"w": values(4, 3).astype(np.float16)})
    module = read(model, tmp_path)
    assert ops(module) == ["MatMul"]
    assert list(module.weights) == ["c"]
    assert module.weights["c"].dtype == np.float32
    assert_same(model, module)


def test_nodes_may_come_in_any_order(tmp_path: Path) -> None:
    nodes = [node("Relu", "b", "y"), node("Add", "a x", "b"), node("Relu", "x", "a")]
    assert names(read(network(nodes, {"x": [2]}, ["y"]), tmp_path)) == ["x", "a", "b", "y"]


def test_sorted_nodes_keep_their_order(tmp_path: Path) -> None:
    nodes = [node("Relu", "x", "b"), node("Neg", "x", "a"), node("Add", "a b", "y")]
    assert names(read(network(nodes, {"x": [2]}, ["y"]), tmp_path)) == ["x", "b", "a", "y"]


def test_output_names_cut_the_network(tmp_path: Path) -> None:
    nodes = [node("Relu", "x", "a"), node("Neg", "a", "b"), node("Unheard", "b", "y"), node("Neg", "x", "c")]
    module = read(network(nodes, {"x": [2]}, ["y"]), tmp_path, ImportOptions(output_names=("b", "a")))
    assert names(module) == ["x", "a", "b"]
    assert [value.name for value in module.main.outputs] == ["b", "a"]


def test_made_up_names_keep_away_from_those_of_the_file(tmp_path: Path) -> None:
    nodes = [node("MaxPool", "x", "y_2d", kernel_shape=[2]), node("MaxPool", "y_2d", "y", kernel_shape=[2])]
    module = read(network(nodes, {"x": [1, 2, 9]}, ["y"]), tmp_path)
    assert len(set(names(module))) == len(names(module))
    assert module.main.outputs[0].name == "y"


def test_an_output_that_is_another_value_keeps_its_name(tmp_path: Path) -> None:
    nodes = [
        node("Relu", "x", "a"),
        node("Identity", "a", "y"),
        node("Identity", "x", "z"),
        node("Neg", "x", "n"),
        node("Identity", "n", "m"),
    ]
    model = network(nodes, {"x": [2, 3]}, ["y", "z", "n", "m"])
    module = read(model, tmp_path)
    assert [value.name for value in module.main.outputs] == ["y", "z", "n", "m"]
    assert_same(model, module)


def test_inputs_may_be_listed_among_them_weights(tmp_path: Path) -> None:
    """As IR versions before 4 demanded."""
    model = network([node("Add", "x w", "y")], {"x": [2, 3], "w": [2, 3]}, ["y"], {"w": values(2, 3)})
    assert [value.name for value in read(model, tmp_path).main.inputs] == ["x"]


def test_input_shapes_fix_open_dimensions(tmp_path: Path) -> None:
    model = network([node("Add", "x w", "y")], {"x": ["batch", 3]}, ["y"], {"w": values(3)})
    module = read(model, tmp_path, ImportOptions(input_shapes=((5, 3),)))
    assert module.main.outputs[0].tensor.dims == (5, 3)


def test_module_says_where_it_comes_from(tmp_path: Path) -> None:
    model = network([node("Relu", "x", "y")], {"x": [2, 3]}, ["y"])
    module = read(model, tmp_path, ImportOptions(model_name="my net"))
    assert module.name == "my_net"
    assert module.attributes == {
        "module.FLOPs": IntegerAttr(6),
        "module.chip": StringAttr("ALL"),
        "module.platform": StringAttr("ONNX"),
        "module.state": StringAttr("TOP_F32"),
        "module.top_run_mode": StringAttr("STATIC"),
        "module.weight_file": StringAttr("my_net_top_f32_all_weight.npz"),
    }


@each(("shape", "is_image"), [([1, 3, 6, 8], True), ([1, 48], False)])
def test_preprocessing_is_noted_on_images(shape: list[int], is_image: bool, tmp_path: Path) -> None:
    options = ImportOptions(preprocess={"mean": (1.0, 2.0, 3.0), "pixel_format": "rgb"})
    module = read(network([node("Relu", "x", "y")], {"x": shape}, ["y"]), tmp_path, options)
    (op,) = [operation.op for operation in module.walk() if isinstance(operation.op, top.Input)]
    noted = top.Input(
        do_preprocess=True,
        channel_format="nchw",
        keep_aspect_ratio=False,
        keep_ratio_mode="letterbox",
        mean=(1.0, 2.0, 3.0),
        pad_type="center",
        pad_value=0,
        pixel_format="rgb",
        resize_dims=(6, 8),
        scale=(1.0, 1.0, 1.0),
        yuv_type="",
    )
    assert op == (noted if is_image else top.Input())


def test_local_functions_are_inlined(tmp_path: Path) -> None:
    body = [helper.make_node("Relu", ["a"], ["b"]), helper.make_node("Neg", ["b"], ["c"])]
    function = helper.make_function("acme", "Twice", ["a"], ["c"], body, [helper.make_opsetid("", 13)])
    model = network([helper.make_node("Twice", ["x"], ["y"], domain="acme")], {"x": [2]}, ["y"])
    model.functions.append(function)
    model.ir_version = 9
    assert ops(read(model, tmp_path)) == ["Relu", "MulConst"]


def test_external_data_is_read_beside_the_file(tmp_path: Path) -> None:
    model = network([node("Add", "x w", "y")], {"x": [2, 3]}, ["y"], {"w": values(2, 3)})
    onnx.save(model, tmp_path / "big.onnx", save_as_external_data=True, location="big.data", size_threshold=0)
    module = read((tmp_path / "big.onnx").read_bytes(), tmp_path)
    np.testing.assert_array_equal(module.weights["w"], values(2, 3))
