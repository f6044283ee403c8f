"""Files that cannot be imported: one sentence each, with the thing, the reason and the way out."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from tpuc.api import ImportOptions, InvalidModel, PluginConflict, TpucError, Unsupported, UsageError
from tpuc.registry import Offer
from tpuc_onnx.frontend import FRONTEND

from tests.families import each
from tests.frontends.onnx.networks import network, node, read, registry, values

RELU = node("Relu", "x", "y")


def sentence(model: onnx.ModelProto | bytes, folder: Path, options: ImportOptions | None = None) -> str:
    """The error's text, without the folder."""
    with pytest.raises((InvalidModel, Unsupported, UsageError)) as caught:
        read(model, folder, options)
    assert isinstance(caught.value, TpucError)
    return str(caught.value).replace(f"{folder}/", "").replace(str(folder), "FOLDER")


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(InvalidModel, match=r"no\.onnx: there is no such file\. Check the path\.$"):
        FRONTEND.read(tmp_path / "no.onnx", ImportOptions(), registry())


def test_folder(tmp_path: Path) -> None:
    with pytest.raises(InvalidModel, match=r"cannot be read: Is a directory\. Check the path and its permissions\.$"):
        FRONTEND.read(tmp_path, ImportOptions(), registry())


@each("keep", [1, 10, 100, 200])
def test_truncated_file(keep: int, tmp_path: Path) -> None:
    content = network([node("Add", "x w", "y")], {"x": [100]}, ["y"], {"w": values(100)}).SerializeToString()
    text = sentence(content[:keep], tmp_path)
    assert re.fullmatch(r"m\.onnx: not an ONNX file, .*Export or download it again\.", text), text


@each("content", [b"", b"this is no network", b"\x00" * 64, b"\x89PNG\r\n\x1a\n"])
def test_file_of_another_kind(content: bytes, tmp_path: Path) -> None:
    text = sentence(content, tmp_path)
    assert text.startswith("m.onnx: not an ONNX file")
    assert text.endswith("Export or download it again.")


@each(("opset", "way_out"), [(6, 13), (29, 28)])
def test_opset(opset: int, way_out: int, tmp_path: Path) -> None:
    nodes = [node("Add", "x x", "y")]
    assert sentence(network(nodes, {"x": [2]}, ["y"], opset=opset), tmp_path) == (
        f"m.onnx: uses opset {opset}, but opsets 7 to 28 are supported. Export it again with opset {way_out}, or "
        "convert it with onnx.version_converter."
    )


def test_no_opset(tmp_path: Path) -> None:
    model = network([RELU], {"x": [2]}, ["y"])
    del model.opset_import[:]
    assert sentence(model, tmp_path) == "m.onnx: states no opset. Export it again."


def test_cycle(tmp_path: Path) -> None:
    nodes = [node("Add", "x c", "a"), node("Relu", "a", "b"), node("Neg", "b", "c"), node("Relu", "c", "y")]
    assert sentence(network(nodes, {"x": [2]}, ["y"]), tmp_path) == (
        "m.onnx: the graph has a cycle: 'Add_a' -> 'Relu_b' -> 'Neg_c' -> 'Add_a'. A network must not read its own "
        "results."
    )


def test_tensor_computed_twice(tmp_path: Path) -> None:
    nodes = [RELU, onnx.helper.make_node("Neg", ["x"], ["y"], name="again")]
    assert sentence(network(nodes, {"x": [2]}, ["y"]), tmp_path) == (
        "m.onnx: tensor 'y' is computed twice, by node 'Relu_y' and by node 'again'. Give one of them another name."
    )


def test_weight_computed_again(tmp_path: Path) -> None:
    assert sentence(network([RELU], {"x": [2]}, ["y"], {"y": values(2)}), tmp_path) == (
        "m.onnx: node 'Relu_y' computes tensor 'y', which is already an input or a weight. Give one of them another "
        "name."
    )


def test_unnamed_output_of_a_node(tmp_path: Path) -> None:
    nodes = [onnx.helper.make_node("Relu", ["x"], [""]), RELU]
    assert sentence(network(nodes, {"x": [2]}, ["y"]), tmp_path) == (
        "m.onnx: node 0 (Relu) has no named output, so it has no effect. Remove it or name its output."
    )


def test_unnamed_input(tmp_path: Path) -> None:
    assert sentence(network([RELU], {"x": [2], "": [2]}, ["y"]), tmp_path) == (
        "m.onnx: an input has no name. Name it when you export the network."
    )


def test_tensor_from_nowhere(tmp_path: Path) -> None:
    assert sentence(network([node("Add", "x ghost", "y")], {"x": [2]}, ["y"]), tmp_path) == (
        "m.onnx: node 'Add_y' (Add) reads tensor 'ghost', which is not an input, weight or result of a node. Export "
        "the network again."
    )


def test_no_outputs(tmp_path: Path) -> None:
    assert sentence(network([RELU], {"x": [2]}, []), tmp_path) == (
        "m.onnx: the graph has no outputs. Export it again, or choose some with --output-names."
    )


def test_output_that_nobody_computes(tmp_path: Path) -> None:
    assert sentence(network([RELU], {"x": [2]}, ["z"]), tmp_path) == (
        "m.onnx: output 'z' is not computed by any node. Export it again, or choose outputs with --output-names."
    )


def test_output_that_is_constant(tmp_path: Path) -> None:
    nodes = [RELU, node("Neg", "w", "z")]
    assert sentence(network(nodes, {"x": [2]}, ["y", "z"], {"w": values(2)}), tmp_path) == (
        "m.onnx: output 'z' does not depend on any input. Choose other outputs with --output-names."
    )


def test_output_that_is_constant_behind_an_operator_that_reads_an_input(tmp_path: Path) -> None:
    """CastLike takes only the type of its second operand."""
    nodes = [RELU, node("CastLike", "w x", "like"), node("Sign", "like", "z")]
    assert sentence(network(nodes, {"x": [2]}, ["y", "z"], {"w": values(2)}, opset=17), tmp_path) == (
        "m.onnx: output 'z' does not depend on any input. Choose other outputs with --output-names."
    )


def test_output_names_that_are_not_there(tmp_path: Path) -> None:
    text = sentence(network([RELU], {"x": [2]}, ["y"]), tmp_path, ImportOptions(output_names=("yy",)))
    assert text == "m.onnx: has no tensor named 'yy' (--output-names). Did you mean 'y'?"


@each(("value", "what"), [(np.nan, "NaN"), (np.inf, "infinite values")])
def test_weights_that_are_no_numbers(value: float, what: str, tmp_path: Path) -> None:
    weight = values(3, 4)
    weight[1, 2] = value
    assert sentence(network([node("MatMul", "x w", "y")], {"x": [2, 3]}, ["y"], {"w": weight}), tmp_path) == (
        f"m.onnx: node 'MatMul_y' (MatMul): weight 'w' holds {what} (1 of 12 values). Export the network from a "
        "checkpoint whose weights are finite."
    )


def test_weight_with_too_few_values(tmp_path: Path) -> None:
    model = network([node("Add", "x w", "y")], {"x": [100]}, ["y"], {"w": values(100)})
    model.graph.initializer[0].raw_data = model.graph.initializer[0].raw_data[:40]
    assert sentence(model, tmp_path) == (
        "m.onnx: weight 'w' does not hold as many values as its shape 100 says. Export or download the file again."
    )


def test_weight_of_an_unknown_type(tmp_path: Path) -> None:
    """A newer version of the format may have more types than this one."""
    model = network([node("Add", "x w", "y")], {"x": [100]}, ["y"], {"w": values(100)})
    model.graph.initializer[0].data_type = 99
    assert sentence(model, tmp_path) == (
        "m.onnx: weight 'w' holds elements of type 99, which are not known. Export the network with floats or integers."
    )


def test_external_data_that_is_missing_or_truncated(tmp_path: Path) -> None:
    model = network([node("Add", "x w", "y")], {"x": [2, 3]}, ["y"], {"w": values(2, 3)})
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0)
    content = (tmp_path / "m.onnx").read_bytes()
    data = (tmp_path / "m.data").read_bytes()
    (tmp_path / "m.data").write_bytes(data[:8])
    assert sentence(content, tmp_path) == (
        "m.data: is truncated: tensor 'w' ends at byte 24, the file at byte 8. Export or download it again."
    )
    (tmp_path / "m.data").unlink()
    assert sentence(content, tmp_path) == (
        "m.onnx: the data of tensor 'w' is in the file 'm.data', which is missing in FOLDER. Put it there."
    )


def test_external_data_in_strange_places(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    model = network([node("Add", "x w", "y")], {"x": [2, 3]}, ["y"], {"w": values(2, 3)})
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0)
    moved = onnx.load(tmp_path / "m.onnx", load_external_data=False)
    entries = {entry.key: entry for entry in moved.graph.initializer[0].external_data}
    entries["location"].value = "../m.data"
    text = sentence(moved, tmp_path / "in")
    assert text.startswith("m.onnx: the data of tensor 'w' is in '../m.data', outside of FOLDER. Put both files into")
    entries["location"].value, entries["offset"].value = "m.data", "-4"
    assert sentence(moved, tmp_path) == (
        "m.onnx: the data of tensor 'w' is at offset '-4' with length '24', which are not numbers. Export or download "
        "the file again."
    )
    entries["offset"].value, entries["length"].value = "0", "20"
    assert sentence(moved, tmp_path) == (
        "m.onnx: weight 'w' does not hold as many values as its shape 2x3 says. Export or download the file again."
    )


def test_sparse_weights(tmp_path: Path) -> None:
    model = network([node("Add", "x w", "y")], {"x": [4]}, ["y"])
    entries = onnx.numpy_helper.from_array(np.float32([1]), "w")
    indices = onnx.numpy_helper.from_array(np.array([2]), "w_indices")
    model.graph.sparse_initializer.append(onnx.helper.make_sparse_tensor(entries, indices, [4]))
    text = sentence(model, tmp_path)
    assert text == "m.onnx: initializer 'w' is sparse. Export the network with dense weights."


def test_open_dimensions(tmp_path: Path) -> None:
    model = network([RELU], {"x": ["batch", 3, None]}, ["y"])
    assert sentence(model, tmp_path) == (
        "m.onnx: input 'x' has the shape batchx3x?: dimensions 0 ('batch'), 2 are dynamic, but compiled shapes are "
        "static. Give them with --input-shapes, for example --input-shapes [[1,3,1]]."
    )
    model = network([node("Add", "x s", "y")], {"x": ["n", 3, None, "w"], "s": []}, ["y"])
    assert sentence(model, tmp_path).endswith("for example --input-shapes [[1,3,224,224],[]].")


def test_open_dimensions_with_names(tmp_path: Path) -> None:
    model = network([node("Add", "ids mask", "y")], {"ids": ["batch", "seq_len"], "mask": ["batch", "seq_len"]}, ["y"])
    assert sentence(model, tmp_path) == (
        "m.onnx: compiled shapes are static, and these dimensions are open: batch (of 'ids', 'mask'); seq_len (of "
        "'ids', 'mask'). Choose the extents, for example --dim batch=1 --dim seq_len=128."
    )
    assert sentence(model, tmp_path, ImportOptions(batch=2)) == (
        "m.onnx: compiled shapes are static, and this dimension is open: seq_len (of 'ids', 'mask'). Choose the "
        "extents, for example --dim seq_len=128."
    )
    assert sentence(model, tmp_path, ImportOptions(dims={"sequence": 5})) == (
        "m.onnx: no input has a dimension named 'sequence' (--dim). Its dimensions are batch, seq_len."
    )


def test_input_without_a_shape(tmp_path: Path) -> None:
    model = network([RELU], {"x": None}, ["y"])
    assert sentence(model, tmp_path) == (
        "m.onnx: input 'x' has no shape, but compiled shapes are static. Give it with --input-shapes, for example "
        "--input-shapes [[1,3,224,224]]."
    )


def test_input_shapes_that_do_not_fit(tmp_path: Path) -> None:
    model = network([RELU], {"x": ["n", 3]}, ["y"])
    assert sentence(model, tmp_path, ImportOptions(input_shapes=((1, 3), (2, 2)))) == (
        "m.onnx: --input-shapes gives 2 shapes, but the network has 1 inputs: 'x'. Give one shape for each, in this "
        "order."
    )
    for shape in ((1, 3, 4), (0, 3)):
        assert sentence(model, tmp_path, ImportOptions(input_shapes=(shape,))) == (
            f"m.onnx: input 'x' has the shape nx3, which --input-shapes [{','.join(map(str, shape))}] does not fit. "
            "Give 2 dimensions of at least 1."
        )


def test_operands_that_do_not_fit(tmp_path: Path) -> None:
    model = network([node("MatMul", "x w", "y")], {"x": [2, 3]}, ["y"], {"w": values(4, 5)})
    assert re.fullmatch(
        r"m\.onnx: node 'MatMul_y' \(MatMul\): its operands do not fit \('x' 2x3, 'w' 4x5\): .+\. Export the network "
        r"again, or check --input-shapes\.",
        sentence(model, tmp_path),
    )
    model = network([node("Conv", "x w", "y")], {"x": [1, 4, 8, 8]}, ["y"], {"w": values(2, 3, 3, 3)})
    assert re.fullmatch(
        r"m\.onnx: node 'Conv_y' \(Conv\): weight 2x3x3x3 has 3 channels per filter; 4 input channels in group 1 "
        r"need 4 \(operands 1x4x8x8, 2x3x3x3\)\.",
        sentence(model, tmp_path),
    )


def test_constants_that_cannot_be_computed(tmp_path: Path) -> None:
    nodes = [node("Gather", "w far", "g"), node("Add", "x g", "y")]
    weights = {"w": values(4), "far": np.array(9, np.int64)}
    assert re.fullmatch(
        r"m\.onnx: node 'Gather_g' \(Gather\): its operands are constants, but it cannot be computed: .+\. Export the "
        r"network again, or check --input-shapes\.",
        sentence(network(nodes, {"x": [1]}, ["y"], weights), tmp_path),
    )


def test_all_unknown_operators_are_told_at_once(tmp_path: Path) -> None:
    nodes = [
        *(node("Unheard", "x", f"u{index}") for index in range(7)),
        onnx.helper.make_node("Gelu7", ["u0"], ["g"], name="gelu", domain="acme"),
        node("Shape", "g", "s"),
        node("Reshape", "g s", "y"),
    ]
    model = network(nodes, {"x": [2]}, ["y", *(f"u{index}" for index in range(7))])
    assert sentence(model, tmp_path) == (
        "m.onnx: 2 operators are not known: Unheard (nodes 'Unheard_u0', 'Unheard_u1', 'Unheard_u2', 'Unheard_u3', "
        "'Unheard_u4' and 2 more), acme::Gelu7 (node 'gelu'). Install a package that imports them, or cut the network "
        "before them with --output-names."
    )


def test_one_unknown_operator(tmp_path: Path) -> None:
    assert sentence(network([node("Unheard", "x", "y")], {"x": [2]}, ["y"]), tmp_path) == (
        "m.onnx: 1 operator is not known: Unheard (node 'Unheard_y'). Install a package that imports it, or cut the "
        "network before it with --output-names."
    )


RANK = "windows over 4 dimensions are not supported; use 1 to 3"
REFUSALS = [
    (
        node("MaxPool", "x", "y where", kernel_shape=[2, 2], dilations=[2, 2]),
        "indices of dilated windows, or over other than 1 or 2 dimensions, are not supported",
    ),
    (node("Conv", "x w", "y"), RANK),
    (node("Pad", "x eight", "y", mode="mirror"), "mode 'mirror' is not supported; use constant, reflect, edge or wrap"),
    (node("Pad", "x nine", "y", mode="wrap"), "pads 0 and 9 do not wrap around an axis of extent 8"),
    (node("Resize", "x - twice", "y", mode="area"), "mode 'area' is not supported; use nearest, linear or cubic"),
    (
        node("Resize", "x - twice", "y", coordinate_transformation_mode="tf_half_pixel_for_nn"),
        "coordinate_transformation_mode 'tf_half_pixel_for_nn' is not supported",
    ),
    (node("Cast", "x", "y", to=8), "a cast from float to string is not supported: only numbers are"),
    (node("NonZero", "x", "y"), "the size of its result depends on the data"),
    (node("Bernoulli", "x", "y"), "its result is random"),
    (node("BitCast", "x", "y", to=6), "it reads the bits of float as int32"),
]


@each(("refused", "reason"), REFUSALS, ids=[f"{n.op_type}{i}" for i, (n, _) in enumerate(REFUSALS)])
def test_operator_with_attributes_that_top_does_not_have(refused: onnx.NodeProto, reason: str, tmp_path: Path) -> None:
    shape = [1, 2, 8, 8, 8, 8] if reason == RANK else [1, 2, 8, 8]
    weights = {
        "w": values(2, 2, 3, 3, 3, 3),
        "nine": np.array([0, 0, 0, 0, 0, 0, 0, 9]),
        "eight": np.array([0, 0, 1, 1, 0, 0, 1, 1]),
        "twice": np.float32([1, 1, 2, 2]),
    }
    model = network([node("Neg", "scalar", "z"), refused], {"x": shape, "scalar": []}, ["y"], weights, opset=26)
    text = sentence(model, tmp_path)
    assert re.search(rf"^m\.onnx: node '{refused.op_type}_y' \({refused.op_type}\): {reason}.*\.$", text), text


def test_batch_normalization_in_training(tmp_path: Path) -> None:
    weights = {"s": values(2), "b": values(2), "m": values(2), "v": values(2)}
    nodes = [node("BatchNormalization", "x s b m v", "y mean var", training_mode=1)]
    assert sentence(network(nodes, {"x": [1, 2, 4]}, ["y"], weights, opset=14), tmp_path) == (
        "m.onnx: node 'BatchNormalization_y' (BatchNormalization): it is in training mode: export the network for "
        "inference."
    )


def test_second_result_that_only_training_needs(tmp_path: Path) -> None:
    weights = {"s": values(2), "b": values(2), "m": values(2), "v": values(2)}
    nodes = [node("BatchNormalization", "x s b m v", "p mean v1 v2 v3"), node("Neg", "mean", "y")]
    assert sentence(network(nodes, {"x": [1, 2, 4, 4]}, ["y"], weights), tmp_path) == (
        "m.onnx: node 'Neg_y' (Neg): it reads the result 'mean' of another node, which only training needs. Change "
        "the network, or cut it before with --output-names."
    )


def test_refusals_are_told_together(tmp_path: Path) -> None:
    nodes = [
        node("NonZero", "x", "a"),
        node("Unique", "x", "b"),
        node("Unheard", "x", "c"),
    ]
    lines = sentence(network(nodes, {"x": [1, 2, 8, 8]}, ["a", "b", "c"]), tmp_path).splitlines()
    assert ["not known" in lines[0], "'NonZero_a'" in lines[1], "'Unique_b'" in lines[2]] == [True] * 3


def test_outputs_that_nothing_is_computed_for(tmp_path: Path) -> None:
    bounds = {"zeros": np.zeros(1, np.int64)}
    assert sentence(network([node("Slice", "x zeros zeros", "y")], {"x": [2, 3]}, ["y"], bounds), tmp_path) == (
        "m.onnx: output 'y' has no elements (0x3). Choose other outputs with --output-names."
    )


def test_inputs_that_are_no_numbers(tmp_path: Path) -> None:
    model = network([node("Identity", "x", "y")], {"x": [2]}, ["y"])
    model.graph.input[0].type.tensor_type.elem_type = onnx.TensorProto.STRING
    rest = (
        "but only tensors of numbers are supported. Cut the network after the nodes that read it, or export it without."
    )
    assert sentence(model, tmp_path) == f"m.onnx: input 'x' is text, {rest}"
    model.graph.input[0].type.Clear()
    model.graph.input[0].type.sequence_type.elem_type.tensor_type.elem_type = 1
    assert sentence(model, tmp_path) == f"m.onnx: input 'x' is a sequence, {rest}"


class TestForeignImporters:
    """A stranger's dialect brings its own operators, and changes nothing else."""

    model = network([onnx.helper.make_node("Gelu7", ["x"], ["y"], name="gelu", domain="acme")], {"x": [2, 3]}, ["y"])

    def offers(self, *dialects: str) -> list[Offer]:
        made = [Offer("tpuc.dialects", name, f"{name}-ops", "1", f"{name}:DIALECT") for name in dialects]
        for name in dialects:
            loader = functools.partial(_table, name)
            made.append(Offer("tpuc.importers", f"onnx.{name}", f"{name}-ops", "1", f"{name}:TABLE", loader))
        return made

    def read(self, model: onnx.ModelProto, folder: Path, *dialects: str) -> list[str]:
        (folder / "m.onnx").write_bytes(model.SerializeToString())
        module = FRONTEND.read(folder / "m.onnx", ImportOptions(), registry(*self.offers(*dialects)))
        return [operation.op.name for operation in module.walk()]

    def test_import_their_domain(self, tmp_path: Path) -> None:
        assert "top.MulConst" in self.read(self.model, tmp_path, "acme")

    def test_cannot_replace_ours(self, tmp_path: Path) -> None:
        assert "top.Relu" in self.read(network([RELU], {"x": [2]}, ["y"]), tmp_path, "acme")

    def test_of_two_dialects_conflict(self, tmp_path: Path) -> None:
        expected = (
            r"^importer 'acme::Gelu7' for onnx is offered for several dialects: acme-ops 1, other-ops 1\. Uninstall "
            r"one of them\.$"
        )
        with pytest.raises(PluginConflict, match=expected):
            self.read(self.model, tmp_path, "acme", "other")


def _table(dialect: str) -> object:
    from tpuc.api import ForeignNode, ImportBuilder, ImporterTable, Value
    from tpuc_ops import top

    table = ImporterTable("onnx", dialect)

    @table.imports("acme::Gelu7", "Relu")
    def seven(node: ForeignNode, build: ImportBuilder) -> Value:
        return build.build(top.MulConst(const_val=7.0), [build.value(node.inputs[0])], node.outputs[0])

    return table


@each(
    ("op", "index", "attributes"),
    [
        ("Gather", np.array([0, -5]), {"axis": 0}),
        ("Gather", np.array([0, 4]), {"axis": 0}),
        ("Gather", np.array(1 << 40), {"axis": 0}),
        ("GatherElements", np.full((2, 5), 4), {"axis": 0}),
        ("GatherND", np.array([[0, 4], [3, 5]]), {}),
        ("ScatterElements", np.full((1, 5), -5), {"axis": 0}),
        ("ScatterND", np.array([[4, 0]]), {}),
    ],
)
def test_constant_indices_beyond_the_extent(
    op: str, index: np.ndarray[Any, Any], attributes: dict[str, int], tmp_path: Path
) -> None:
    constants = {"i": index}
    if op.startswith("Scatter"):
        constants["u"] = values(*((1, 5) if op == "ScatterElements" else (1,)))
    model = network([node(op, " ".join(["x", *constants]), "y", **attributes)], {"x": (4, 5)}, ["y"], constants)
    assert re.search(
        r"contradict each other: index -?\d+ is beyond the extent [45]\. Export", sentence(model, tmp_path)
    )
