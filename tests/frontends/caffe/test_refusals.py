"""Layers whose parameters or bottoms cannot be imported: the layer, the reason and, where there is one, the way out."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from tpuc.api import ImportOptions, InvalidModel, TpucError
from tpuc.registry import Registry
from tpuc_caffe.frontend import FRONTEND

from tests.families import each
from tests.frontends.caffe.files import inputs, layer, read

CONTRADICTION = ("its parameters do not fit together or do not fit its operands: ", ". Check them in the prototxt")
"""What stands around what a helper of several importers found."""

IMAGE, ROWS = (1, 4, 6, 6), (2, 3)


@each(
    ("type", "body", "shape", "expected"),
    [
        ("ArgMax", "argmax_param { top_k: 2 }", IMAGE, "top_k 2 is not supported, only 1"),
        (
            "BatchNorm",
            "batch_norm_param { use_global_stats: false }",
            IMAGE,
            "it computes its statistics from the batch: state use_global_stats: true",
        ),
        (
            "Convolution",
            "convolution_param { num_output: 2 kernel_size: 1 }",
            ROWS,
            "only images (n, c, h, w) can be convolved, over their rows and columns",
        ),
        (
            "Convolution",
            "convolution_param { num_output: 2 kernel_size: 1 dilation: 1 dilation: 1 dilation: 1 }",
            IMAGE,
            "it has 3 dilations, for rows and columns there are at most 2",
        ),
        (
            "Convolution",
            "convolution_param { num_output: 2 }",
            IMAGE,
            "it does not state the size of its kernel (kernel_size)",
        ),
        (
            "Convolution",
            "convolution_param { kernel_size: 1 }",
            IMAGE,
            "it does not state its output channels (num_output)",
        ),
        (
            "Deconvolution",
            "convolution_param { num_output: 6 kernel_size: 1 group: 3 }",
            IMAGE,
            "4 input and 6 output channels do not divide into 3 groups",
        ),
        (
            "ContinuationIndicator",
            "continuation_indicator_param { time_step: 0 }",
            IMAGE,
            "0 steps of 1 sequences are out of range",
        ),
        (
            "DummyData",
            'dummy_data_param { shape { dim: 2 } data_filler { type: "gaussian" } }',
            IMAGE,
            ("random data are not supported; replace the layer by an Input layer"),
        ),
        (
            "DummyData",
            "dummy_data_param { shape { dim: 16777217 } }",
            IMAGE,
            "its data would have 16777217 numbers",
        ),
        (
            "Embed",
            "embed_param { num_output: 3 }",
            ROWS,
            "it does not state the extents of its table (input_dim, num_output)",
        ),
        ("Exp", "exp_param { base: -2 }", IMAGE, "base -2 must be positive, or -1 for e"),
        ("Flatten", "flatten_param { axis: 2 end_axis: 1 }", IMAGE, "axis 2 is after end_axis 1"),
        ("InnerProduct", "", IMAGE, "it does not state its outputs (num_output)"),
        ("Interp", "interp_param { height: 3 }", ROWS, "only images (n, c, h, w) can be resized"),
        (
            "Interp",
            "interp_param { pad_beg: -3 pad_end: -3 }",
            IMAGE,
            "pad_beg -3 and pad_end -3 must leave something of the operand",
        ),
        (
            "Interp",
            "interp_param { shrink_factor: 0 }",
            IMAGE,
            "shrink_factor 0, zoom_factor 1 or its size is not positive",
        ),
        ("Log", "log_param { base: 1 }", IMAGE, "a logarithm to base 1 does not exist"),
        (
            "Lstm",
            "lstm_param { batch_size: 1 }",
            IMAGE,
            "it does not state its outputs (num_output), or its operand has no steps and sequences",
        ),
        (
            "Lstm",
            "recurrent_param { num_output: 2 expose_hidden: true }",
            IMAGE,
            "states as bottoms and tops (expose_hidden) are not supported",
        ),
        ("MVN", "", ROWS, "its operand has no rows and columns to average"),
        ("Padding", "", ROWS, "only images (n, c, h, w) can be padded"),
        ("Pooling", "pooling_param { kernel_size: 2 }", ROWS, "only images (n, c, h, w) can be pooled"),
        (
            "Pooling",
            "pooling_param { kernel_size: 2 stride: 0 }",
            IMAGE,
            "a kernel of [2, 2], stride [0, 0] and pad [0, 0] do not form a window",
        ),
        (
            "Pooling",
            "pooling_param { kernel_size: 1 stride: 9 }",
            IMAGE,
            "with a stride of 9 its last window lies outside of 6 elements",
        ),
        (
            "Pooling",
            "pooling_param { kernel_size: 2 kernel_size: 2 kernel_size: 2 }",
            IMAGE,
            "kernel_size has 3 values, for rows and columns there are at most 2",
        ),
        (
            "Reorg",
            "reorg_param { stride: 0 }",
            IMAGE,
            "only images (n, c, h, w) can be reorganized, with a stride of at least 1, not 0",
        ),
        ("Reorg", "reorg_param { stride: 3 }", IMAGE, "4x6x6 is not divisible by the stride 3"),
        (
            "Reshape",
            "reshape_param { shape { dim: 4 } axis: 3 num_axes: 2 }",
            IMAGE,
            "axis 3 with num_axes 2 do not lie within 4 axes",
        ),
        ("Scale", "scale_param { axis: 3 num_axes: 2 }", IMAGE, "2 axes from axis 3 on are more than the operand has"),
        ("ShuffleChannel", "shuffle_channel_param { group: 3 }", IMAGE, "4 channels do not divide into 3 groups"),
        ("Tile", "tile_param { tiles: 0 }", IMAGE, "it states 0 tiles"),
        (
            "Upsample",
            "upsample_param { scale: 0 }",
            IMAGE,
            "only images (n, c, h, w) can be enlarged, and by integer factors, not 0",
        ),
        (
            "Upsample",
            "upsample_param { scale: 2 upsample_h: 11 }",
            IMAGE,
            "upsample_h and upsample_w are not supported; state a scale",
        ),
        (
            "Upsample",
            "upsample_param { scale: 2 pad_out_h: true }",
            IMAGE,
            "pad_out_h and pad_out_w are not supported: they crop a row or column",
        ),
    ],
)
def test_one_bottom(type: str, body: str, shape: tuple[int, ...], expected: str, tmp_path: Path) -> None:
    bottoms = "" if type in ("ContinuationIndicator", "DummyData") else "x"
    text = inputs(x=shape) + layer(type, body, bottoms)
    assert reason(text, tmp_path, type) == expected


@each(
    ("type", "body", "shapes", "expected"),
    [
        (
            "Crop",
            "crop_param { offset: 1 offset: 1 offset: 1 }",
            (IMAGE, (1, 4, 3, 3)),
            "3 offsets and a reference of 4 axes do not fit its operand",
        ),
        (
            "Crop",
            "crop_param { offset: 4 }",
            (IMAGE, (1, 4, 3, 3)),
            "a part of [1, 4, 3, 3] at [0, 0, 4, 4] does not lie within [1, 4, 6, 6]",
        ),
        (
            "Crop",
            "crop_param { offset: -1 }",
            (IMAGE, (1, 4, 3, 3)),
            "a part of [1, 4, 3, 3] at [0, 0, -1, -1] does not lie within [1, 4, 6, 6]",
        ),
        ("Eltwise", "", (ROWS, (3, 2)), "its bottoms have different shapes"),
        (
            "Eltwise",
            "eltwise_param { coeff: 1 }",
            (ROWS, ROWS),
            "1 coefficients do not fit 2 bottoms of a SUM",
        ),
        ("Eltwise", "eltwise_param { operation: SUB }", (ROWS, ROWS, ROWS), "SUB needs two bottoms"),
        (
            "LSTM",
            "recurrent_param { num_output: 2 }",
            ((5, 2, 3), (5, 2)),
            "the starts of its sequences are computed at run time by 'b'; use a ContinuationIndicator",
        ),
        (
            "MatMul",
            "matmul_param { dim_1: 3 }",
            (ROWS, ROWS),
            "dim_1 is not supported: reshape the bottoms to matrices",
        ),
        ("PReLU", "", (ROWS, ROWS), "it has 2 bottoms, and a layer of this type needs 1"),
        (
            "Bias",
            "bias_param { axis: 1 }",
            (IMAGE, (3,)),
            "extents [3] do not lie along the operand's [1, 4, 6, 6] from axis 1",
        ),
        (
            "PriorBox",
            "prior_box_param { min_size: 4 min_size: 5 max_size: 6 }",
            (IMAGE, IMAGE),
            "2 min_size and 1 max_size do not belong together",
        ),
        (
            "PriorBox",
            "prior_box_param { min_size: 4 aspect_ratio: 0 }",
            (IMAGE, IMAGE),
            "aspect_ratio 0 is not positive",
        ),
        (
            "PriorBox",
            "prior_box_param { min_size: 4 max_size: 4 }",
            (IMAGE, IMAGE),
            "max_size 4 is not above min_size 4",
        ),
        (
            "PriorBox",
            "prior_box_param { min_size: 4 variance: 0.5 variance: 0.25 }",
            (IMAGE, IMAGE),
            "one variance or four, above 0, are needed, these are [0.5, 0.25]",
        ),
        (
            "PriorBox",
            "prior_box_param { min_size: 4 }",
            ((1, 1, 2048, 2049), IMAGE),
            "2048x2049 positions with 1 boxes each exceed what a network can use",
        ),
    ],
)
def test_several_bottoms(
    type: str, body: str, shapes: tuple[tuple[int, ...], ...], expected: str, tmp_path: Path
) -> None:
    named = dict(zip("abc", shapes, strict=False))
    text = inputs(**named) + layer(type, body, " ".join(named))
    assert reason(text, tmp_path, type) == expected


@each(
    ("type", "body", "expected"),
    [
        (
            "Pooling",
            "pooling_param { kernel_size: 2 }",
            "the positions of the maxima, its second top, are not supported: upsample without them",
        ),
        ("Slice", "slice_param { axis: 2 slice_point: 6 }", "slice_point [6] does not divide 6 elements into 2 parts"),
        ("Slice", "slice_param { axis: 0 }", "1 elements do not divide into 2 equal parts; state slice_point"),
    ],
)
def test_two_tops(type: str, body: str, expected: str, tmp_path: Path) -> None:
    assert reason(inputs(x=IMAGE) + layer(type, body, tops="y z"), tmp_path, type) == expected


def reason(text: str, folder: Path, type: str) -> str:
    """What is told about the layer `it`."""
    told = sentence(text, folder)
    found = re.fullmatch(rf"net\.prototxt: node 'it' \({type}\): (.*)\.", told)
    assert found, told
    return found[1].removeprefix(CONTRADICTION[0]).removesuffix(CONTRADICTION[1])


def sentence(text: str, folder: Path, **options: Any) -> str:
    """The error's text, without the folder."""
    with pytest.raises(TpucError) as caught:
        read(text, folder, **options)
    return str(caught.value).replace(f"{folder}/", "")


RELU = layer("ReLU")


@each(
    ("text", "expected"),
    [
        (
            'input: "x" input_dim: 1 input_dim: 1 input_dim: 2 input_dim: 2 input_shape { dim: 2 }' + RELU,
            "states both input_dim and input_shape. Leave one of them out.",
        ),
        (
            'input: "x" input_shape { dim: 2 } input_shape { dim: 3 }' + RELU,
            "has 1 inputs and 2 shapes for them. Complete them.",
        ),
        (
            inputs(x=ROWS) + layer("Input", "input_param { shape { dim: 2 } }", "", "x", "again") + RELU,
            "inputs need distinct names, these are x, x.",
        ),
        (
            layer("Input", "input_param { shape { dim: 2 } shape { dim: 3 } }", "", "a b c", "data"),
            "layer 'data' (Input) has 3 tops and 2 shapes. State one for each.",
        ),
        (
            """
            input: "x" input_dim: 1 input_dim: 2 input_dim: 5 input_dim: 5
            layers { layer { name: "p" type: "padding" pad: 1 } bottom: "x" top: "p" }
            layers { layer { name: "r" type: "relu" } bottom: "p" top: "y" }
            """,
            (
                "layer 'r' (ReLU) reads the padding layer 'p'; only convolution and pooling can. Put the padding into "
                "the layer that needs it."
            ),
        ),
        (
            inputs(x=ROWS) + layer("Silence", "", "x", "", "s"),
            "has no output: every blob is read by a layer. Choose some outputs.",
        ),
    ],
)
def test_networks(text: str, expected: str, tmp_path: Path) -> None:
    assert sentence(text, tmp_path) == f"net.prototxt: {expected}"


def test_shapes_for_other_inputs(tmp_path: Path) -> None:
    assert sentence(inputs(x=ROWS) + RELU, tmp_path, input_shapes=((2, 3), (2, 3))) == (
        "net.prototxt: --input-shapes gives 2 shapes, but the network has 1 inputs: 'x'. Give one shape for each, in "
        "this order."
    )


@each(
    ("body", "expected"),
    [
        (
            "num_output: 268435457",
            "its matrix would have 536870914 numbers; check the sizes that it states",
        ),
        (
            'num_output: 2 weight_filler { type: "positive_unitball" }',
            "its filler 'positive_unitball' is not known; give weights with --model-data",
        ),
    ],
)
def test_random_weights(body: str, expected: str, tmp_path: Path) -> None:
    text = inputs(x=(1, 2)) + layer("InnerProduct", f"inner_product_param {{ bias_term: false {body} }}")
    assert expected in sentence(text, tmp_path, random_weights=True)


def test_files(tmp_path: Path) -> None:
    missing, folder = tmp_path / "no.prototxt", tmp_path / "folder.prototxt"
    folder.mkdir()
    with pytest.raises(InvalidModel, match=r"no\.prototxt: there is no such file\. Check the path\.$"):
        FRONTEND.read(missing, ImportOptions(), Registry())
    with pytest.raises(InvalidModel, match=r"cannot be read: Is a directory\. Check the path and its permissions\.$"):
        FRONTEND.read(folder, ImportOptions(), Registry())
