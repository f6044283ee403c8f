"""Every version of both formats, names of values, phases; and one sentence for what cannot be read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tpuc.api import ImporterTable, InvalidModel, Module, TpucError, Unsupported
from tpuc.interpreter import Interpreter
from tpuc.registry import Offer, Registry
from tpuc_ops import top

from tests.families import each
from tests.frontends.caffe import reference
from tests.frontends.caffe.files import (
    Array,
    Weights,
    blob,
    block,
    caffemodel,
    count,
    double_blob,
    inputs,
    layer,
    old_blob,
    read,
    values,
)

X = values(1, 2, 5, 5)
W, B = values(3, 2, 3, 3), values(3)
CONV = layer("Convolution", "convolution_param { num_output: 3 kernel_size: 3 pad: 1 }", tops="y", name="c")
NET = inputs(x=X.shape) + CONV
EXPECTED = reference.convolution(X, W, (1, 1), (1, 1)) + B.reshape(-1, 1, 1)
CONVOLUTION_V1 = 4


def outputs(module: Module, x: Array = X) -> dict[str, Array]:
    return Interpreter(module).run({"x": x})


# Versions


@each("write", [blob, old_blob, double_blob])
def test_numbers_in_every_form(write: Callable[[Array], bytes], tmp_path: Path) -> None:
    content = block(100, block(1, b"c") + block(7, write(W)) + block(7, write(B)))
    np.testing.assert_allclose(outputs(read(NET, tmp_path, content))["y"], EXPECTED, atol=1e-5)


def test_unknown_fields_of_a_caffemodel_do_not_matter(tmp_path: Path) -> None:
    noise = block(99, b"\x08\x01") + count(77, 5) + block(106, b"\xff\xff not a message")
    content = block(100, block(1, b"c") + noise + block(7, blob(W) + block(12, b"raw")) + block(7, blob(B)))
    np.testing.assert_allclose(outputs(read(NET, tmp_path, content + noise))["y"], EXPECTED, atol=1e-5)


def test_layers_of_version_1(tmp_path: Path) -> None:
    text = """
        input: "x" input_dim: 1 input_dim: 2 input_dim: 5 input_dim: 5
        layers { name: "c" type: CONVOLUTION bottom: "x" top: "y" blobs_lr: 1 weight_decay: 0
                 convolution_param { num_output: 3 kernel_size: 3 pad: 1 weight_filler { type: "xavier" } } }
        layers { name: "r" type: RELU bottom: "y" top: "y" }
    """
    content = block(2, block(4, b"c") + count(5, CONVOLUTION_V1) + block(6, blob(W)) + block(6, blob(B)))
    np.testing.assert_allclose(outputs(read(text, tmp_path, content))["y"], EXPECTED.clip(0), atol=1e-5)


def test_layers_of_version_0_with_padding_of_their_own(tmp_path: Path) -> None:
    text = """
        input: "x" input_dim: 1 input_dim: 2 input_dim: 5 input_dim: 5
        layers { layer { name: "p" type: "padding" pad: 1 } bottom: "x" top: "p" }
        layers { layer { name: "c" type: "conv" num_output: 3 kernelsize: 3 biasterm: true } bottom: "p" top: "y" }
        layers { layer { name: "r" type: "relu" } bottom: "y" top: "y" }
        layers { layer { name: "s" type: "pool" pool: MAX kernelsize: 2 stride: 2 } bottom: "y" top: "s" }
    """
    content = block(2, block(1, block(1, b"c") + block(2, b"conv") + block(50, blob(W)) + block(50, blob(B))))
    wanted = reference.pool(EXPECTED.clip(0), (2, 2), (2, 2), (0, 0), mean=False)
    np.testing.assert_allclose(outputs(read(text, tmp_path, content))["s"], wanted, atol=1e-5)


def test_shapes_of_old_inputs(tmp_path: Path) -> None:
    text = 'input: "x" input_shape { dim: 1 dim: 2 dim: 5 dim: 5 }' + layer("ReLU")
    np.testing.assert_array_equal(outputs(read(text, tmp_path))["y"], X.clip(0))


def test_training_layers_stay_out_by_their_phase(tmp_path: Path) -> None:
    train = layer("Data", "include { phase: TRAIN } data_param { batch_size: 64 }", "", "x label", "train")
    loss = layer("SoftmaxWithLoss", "exclude { phase: TEST }", "y label", "loss", "loss")
    test = layer("Data", "include { phase: TEST } transform_param { scale: 0.5 }", "", "x label", "test")
    module = read(train + test + layer("ReLU") + loss, tmp_path, input_shapes=((1, 2, 5, 5),))
    assert [*outputs(module)] == ["y"]


# Names and choices


def test_values_are_named_after_blobs_and_layers(tmp_path: Path) -> None:
    text = inputs(x=X.shape) + CONV.replace('top: "y"', 'top: "c"')
    text += layer("ReLU", "", "c", "c", "r") + layer("TanH", "", "c", "c", "t") + layer("Sigmoid", "", "c", "z", "s")
    module = read(text, tmp_path, {"c": [W, B]})
    names = [operation.name for operation in module.main.operations if operation.operands and operation.results]
    # The last writer of a blob has its name; the first one cannot be called after the layer, which is called so too.
    assert names == ["x", "c_convolution", "r", "c", "z"]


def test_outputs_that_the_user_chose(tmp_path: Path) -> None:
    text = inputs(x=X.shape) + layer("ReLU", "", "x", "a", "r") + layer("Nonsense", "", "a", "b", "n")
    module = read(text, tmp_path, output_names=("a",))
    assert [*outputs(module)] == ["a"]
    with pytest.raises(InvalidModel, match=r"has no blob named 'aa' \(--output-names\)\. Did you mean 'a'\?$"):
        read(text, tmp_path, output_names=("aa",))


def test_another_batch(tmp_path: Path) -> None:
    x = np.concatenate([X, X * 2])
    module = read(NET, tmp_path, {"c": [W, B]}, batch=2)
    assert outputs(module, x)["y"].shape == (2, 3, 5, 5)


def test_silence_takes_a_blob_from_the_outputs(tmp_path: Path) -> None:
    text = inputs(x=X.shape) + layer("Slice", tops="a b") + layer("Silence", "", "b", "", "s")
    assert [*outputs(read(text, tmp_path))] == ["a"]


def test_random_weights_are_the_same_every_time_and_need_to_be_asked_for(tmp_path: Path) -> None:
    first, second = (read(NET, tmp_path, random_weights=True) for _ in range(2))
    assert set(first.weights) == {"c_0", "c_1"}
    for name in first.weights:
        np.testing.assert_array_equal(first.weights[name], second.weights[name])
    assert abs(float(np.std(first.weights["c_0"])) - np.sqrt(2 / 18)) < 0.1  # 54 numbers; the deviation of "msra"
    with pytest.raises(
        Unsupported, match=r"layer 'c' needs weights, but no file with weights is given\. Give the caffe"
    ):
        read(NET, tmp_path)


@each(
    ("filler", "low", "high", "deviation"),
    [
        ('type: "constant" value: 0.5', 0.5, 0.5, 0),
        ('type: "uniform" min: -2 max: 1', -2, 1, 3 / np.sqrt(12)),
        ('type: "gaussian" std: 0.25', -1.5, 1.5, 0.25),
        ('type: "xavier"', -np.sqrt(3 / 800), np.sqrt(3 / 800), np.sqrt(1 / 800)),
        ('type: "msra" variance_norm: FAN_OUT', -np.inf, np.inf, np.sqrt(2 / 40)),
    ],
)
def test_fillers(filler: str, low: float, high: float, deviation: float, tmp_path: Path) -> None:
    body = f"inner_product_param {{ num_output: 40 bias_term: false weight_filler {{ {filler} }} }}"
    text = inputs(x=(1, 800)) + layer("InnerProduct", body, name="c")
    weight = read(text, tmp_path, random_weights=True).weights["c_0"]
    assert weight.shape == (800, 40)
    assert low <= weight.min() <= weight.max() <= high
    np.testing.assert_allclose(weight.std(), deviation, rtol=0.02)  # 32000 draws


def test_bilinear_filler_enlarges_evenly(tmp_path: Path) -> None:
    body = (
        "convolution_param { num_output: 1 kernel_size: 4 stride: 2 pad: 1 bias_term: false "
        'weight_filler { type: "bilinear" } }'
    )
    module = read(inputs(x=(1, 1, 5, 5)) + layer("Deconvolution", body), tmp_path, random_weights=True)
    result = outputs(module, np.ones((1, 1, 5, 5), np.float32))["y"]
    np.testing.assert_allclose(result[0, 0, 1:-1, 1:-1], 1, atol=1e-6)


TABLE = ImporterTable("caffe", "other")
TABLE.imports("Nonsense")(lambda node, build: build.build(top.Relu(), [build.value(node.inputs[0])], node.outputs[0]))


def test_other_packages_import_further_layers(tmp_path: Path) -> None:
    offers = [
        Offer("tpuc.dialects", "top", "tpuc", "0", "tpuc_ops.top:DIALECT"),
        Offer("tpuc.importers", "caffe.top", "tpuc", "0", "tpuc_caffe.importers:TABLE"),
        Offer("tpuc.dialects", "other", "else", "1", "other:DIALECT"),
        Offer("tpuc.importers", "caffe.other", "else", "1", f"{__name__}:TABLE", lambda: TABLE),
    ]
    module = read(inputs(x=X.shape) + layer("Nonsense"), tmp_path, registry=Registry(offers=offers))
    np.testing.assert_array_equal(outputs(module)["y"], X.clip(0))


# Refusals


def sentence(text: str, folder: Path, weights: Weights | bytes | None = None) -> str:
    with pytest.raises((InvalidModel, Unsupported)) as caught:
        read(text, folder, weights)
    assert isinstance(caught.value, TpucError)
    return str(caught.value).replace(f"{folder}/", "")


HEAD = inputs(x=X.shape)


@each(
    ("text", "wanted"),
    [
        ("", "net.prototxt: has no layers. Give the prototxt of a network."),
        ("layer {", "net.prototxt: is not a Caffe network, or a damaged one: line 1: "),
        ("layer { name: 5 }", "net.prototxt: is not a Caffe network, or a damaged one: line 1: "),
        (layer("ReLU"), "net.prototxt: has no input. Add a layer of type Input with its shape."),
        (
            HEAD + layer("ReLU", bottoms="xx"),
            "layer 'it' (ReLU) reads the blob 'xx', which no earlier layer computes. Did",
        ),
        (HEAD + layer("ReLU") + layer("TanH"), "layer 'it' (TanH) computes the blob 'y', which already exists."),
        (
            HEAD + layer("Flop") + layer("Twist", "", "y", "z", "t"),
            "2 layer types are not known: Flop (layer 'it'), Twist",
        ),
        (HEAD + layer("ReLU", "slope: 3"), 'Message type "Layer" has no field named "slope"'),
        (
            HEAD + layer("SoftmaxWithLoss", bottoms="x x"),
            "layer 'it' (SoftmaxWithLoss): it is a training layer. Give the deploy",
        ),
        (inputs(x=(1, 0, 5)) + layer("ReLU"), "input 'x' has the shape 1x0x5, and extents are at least 1."),
        (inputs(x=(1 << 20, 1 << 20, 9)) + layer("ReLU"), "a tensor of 1048576x1048576x9 is not possible"),
        (HEAD + layer("Concat", bottoms=""), "node 'it' (Concat): it has no bottoms."),
        (HEAD + layer("Eltwise", bottoms="x"), "node 'it' (Eltwise): it needs two bottoms or more."),
        (
            HEAD + layer("Softmax", "softmax_param { axis: 9 }"),
            "node 'it' (Softmax): its parameters do not fit together",
        ),
        (
            HEAD + layer("Pooling", "pooling_param { pool: STOCHASTIC kernel_size: 2 }"),
            "stochastic pooling draws random",
        ),
        (HEAD + layer("Pooling", "pooling_param { kernel_size: 9 }"), "its window of 9 does not fit 5 elements with 0"),
        (
            HEAD + layer("Split", tops="a a"),
            "layer 'it' (Split) needs a distinct name for every top, these are a, a.",
        ),
        (HEAD + layer("ReLU", tops="a b"), "has 2 tops, but a layer of this type computes 1 with 1 bottoms."),
        ("layers { layer { } }" + HEAD, "mixes `layer` and `layers`, which are two versions of the format. Use one."),
        ('input: "x" input_dim: 1 ' + layer("ReLU"), "has 1 input_dim, and every input needs four. Complete them."),
    ],
)
def test_networks_that_cannot_be_read(text: str, wanted: str, tmp_path: Path) -> None:
    said = sentence(text, tmp_path)
    assert said.startswith("net.prototxt: ")
    assert wanted in said
    assert said.count("\n") == 0


def test_all_refusals_at_once(tmp_path: Path) -> None:
    text = HEAD + layer("Flop", "", "x", "a", "f") + layer("LRN", "lrn_param { local_size: 4 }", "x", "b", "n")
    lines = sentence(text, tmp_path).splitlines()
    assert [line.split(": ", 1)[1] for line in lines] == [
        (
            "1 layer type is not known: Flop (layer 'f'). Install a package that imports it, or cut the network before "
            "it with --output-names."
        ),
        "node 'n' (LRN): local_size must be odd, this one is 4.",
    ]


@each(
    ("weights", "wanted"),
    [
        (b"", "net.caffemodel: not a caffemodel: there is no layer in its 0 bytes. Give the weights of the network."),
        (b"\x00\x01\x02", "net.caffemodel: not a caffemodel, or a truncated one (3 bytes). Download it again."),
        (
            {"c": [W]},
            "the caffemodel has 1 weights for it, but it needs 2 (filter, bias); give the caffemodel that belongs",
        ),
        ({"d": [W, B]}, "the caffemodel has no weights for it; give the one that belongs to this prototxt."),
        (
            {"c": [W[:2], B]},
            "the caffemodel's filter is 2x2x3x3, but it needs 3x2x3x3; give the caffemodel that belongs",
        ),
        (
            {"c": [W * np.nan, B]},
            "weight 'c_0' holds NaN (54 of 54 values). Export the network from a checkpoint whose",
        ),
        (
            block(100, block(1, b"c") + block(7, block(7, block(1, b"\x04")) + block(5, W.tobytes()))),
            "net.caffemodel: a weight of layer 'c' has the shape 4 and holds 54 numbers. The file is damaged; download",
        ),
    ],
)
def test_weights_that_cannot_be_used(weights: Weights | bytes, wanted: str, tmp_path: Path) -> None:
    assert wanted in sentence(NET, tmp_path, weights)


@each("keep", [20, 60, 200])
def test_truncated_caffemodel(keep: int, tmp_path: Path) -> None:
    said = sentence(NET, tmp_path, caffemodel({"c": [W, B]})[:keep])
    assert said == f"net.caffemodel: not a caffemodel, or a truncated one ({keep} bytes). Download it again."


def test_brackets_without_end(tmp_path: Path) -> None:
    assert sentence("layer { a " + "{ b " * 5000, tmp_path).startswith("net.prototxt: is not a Caffe network")


def test_weights_in_place_of_the_network(tmp_path: Path) -> None:
    path = tmp_path / "net.prototxt"
    path.write_bytes(b"\xff\xfe\x00")
    from tpuc.api import ImportOptions
    from tpuc_caffe.frontend import FRONTEND

    with pytest.raises(InvalidModel, match=r"is not text \(byte 0\)\. Give the prototxt here and the caffemodel with"):
        FRONTEND.read(path, ImportOptions(), Registry())
