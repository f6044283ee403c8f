"""Small sound networks to damage, made without any data from elsewhere."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.fuzz.mutate import Files

ROOT = Path(__file__).resolve().parents[2]


def networks() -> dict[str, Files]:
    """By name."""
    digits = (ROOT / "examples" / "digits" / "digits.onnx").read_bytes()
    return {
        "digits": {".onnx": digits},
        "glue": {".onnx": glue()},
        "functions": {".onnx": functions()},
        "stated": {".onnx": stated()},
        "masked": {".onnx": masked()},
        "learned": {".onnx": learned()},
        "streamed": {".onnx": streamed()},
        "caffe": caffe(),
        "boxes": {".prototxt": boxes().encode()},
        "tflite": {".tflite": tflite()},
        "blocks": {".tflite": blocks()},
        "landmarks": {".tflite": landmarks()},
        **{name: {".tflite": content} for name, content in control().items()},
        **tensorflow(),
    }


def tensorflow() -> dict[str, Files]:
    """Graphs in binary and text, with control flow of the executor."""
    folder = ROOT / "tests" / "frontends" / "tensorflow" / "files"
    suffixes = {"small": ".pb", "branch": ".pb", "loop": ".pb", "loop text": ".pbtxt"}
    paths = {name: folder / f"{name.partition(' ')[0]}{suffix}" for name, suffix in suffixes.items()}
    return {name: {path.suffix: path.read_bytes()} for name, path in paths.items()}


def _model(nodes: list[onnx.NodeProto], constants: dict[str, np.ndarray], **more: Any) -> bytes:
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 4, 8, 8))]
    outputs = [helper.make_tensor_value_info("out", TensorProto.FLOAT, None)]
    stored = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    graph = helper.make_graph(nodes, "g", inputs, outputs, stored)
    return helper.make_model(graph, opset_imports=opsets, ir_version=9, **more).SerializeToString()


def functions() -> bytes:
    """Functions that call each other, and loops in loops."""
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    made = [helper.make_function("own", "F2", ["a"], ["b"], [helper.make_node("Relu", ["a"], ["b"])], opsets)]
    for level in (1, 0):
        calls = [helper.make_node(f"F{level + 1}", [a], [b], domain="own") for a, b in (("a", "m"), ("m", "b"))]
        made.append(helper.make_function("own", f"F{level}", ["a"], ["b"], calls, opsets))
    body: list[onnx.NodeProto] = [helper.make_node("F2", ["v0"], ["w0"], domain="own")]
    for level in (0, 1):
        kinds = ((f"i{level}", TensorProto.INT64), (f"c{level}", TensorProto.BOOL), (f"v{level}", TensorProto.FLOAT))
        ends = ((f"d{level}", TensorProto.BOOL), (f"w{level}", TensorProto.FLOAT))
        inputs = [helper.make_tensor_value_info(name, kind, None) for name, kind in kinds]
        outputs = [helper.make_tensor_value_info(name, kind, None) for name, kind in ends]
        graph = helper.make_graph(
            [*body, helper.make_node("Identity", [f"c{level}"], [f"d{level}"])], "body", inputs, outputs
        )
        around = ("v1", "w1") if level == 0 else ("h", "l")
        body = [helper.make_node("Loop", ["trips", "", around[0]], [around[1]], body=graph)]
    nodes = [
        helper.make_node("F0", ["x"], ["h"], domain="own"),
        *body,
        helper.make_node("Sum", ["h", "l", "x"], ["out"]),
    ]
    return _model(nodes, {"trips": np.array(3, np.int64)}, functions=made)


def stated() -> bytes:
    """A quantized network whose Q clips what comes before it."""
    constants = {
        "w": np.resize(np.array([-3, 5, -7], np.int8), (4, 4, 3, 3)),
        "ws": np.array([0.01, 0.02, 0.03, 0.04], np.float32),
        "wz": np.zeros(4, np.int8),
        "s": np.array(0.02, np.float32),
        "z": np.array(0, np.uint8),
        "bias": np.array([100, -100, 0, 7], np.int32),
    }
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q0"]),
        helper.make_node("DequantizeLinear", ["q0", "s", "z"], ["d0"]),
        helper.make_node("DequantizeLinear", ["w", "ws", "wz"], ["dw"], axis=0),
        helper.make_node("Conv", ["d0", "dw"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("QuantizeLinear", ["c", "s", "z"], ["q1"]),
        helper.make_node("DequantizeLinear", ["q1", "s", "z"], ["d1"]),
        helper.make_node("Add", ["d1", "d0"], ["a"]),
        helper.make_node("QuantizeLinear", ["a", "s", "z"], ["q2"]),
        helper.make_node("DequantizeLinear", ["q2", "s", "z"], ["out"]),
    ]
    return _model(nodes, constants)


def masked() -> bytes:
    """Attention with a mask of the lowest number, and the values that float types do not hold."""
    constants = {
        "flat": np.array([1, 4, 64], np.int64),
        "one": np.array(1, np.float32),
        "lowest": np.array(np.finfo(np.float32).min, np.float32),
        "mask": np.tri(4, dtype=np.float32)[None],
        "tiny": np.array([1e-12, 1e-40, -0.0, 1e30], np.float32).reshape(1, 4, 1),
        "zero": np.array(0, np.float32),
    }
    nodes = [
        helper.make_node("Reshape", ["x", "flat"], ["r"]),
        helper.make_node("Transpose", ["r"], ["t"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["r", "t"], ["scores"]),
        helper.make_node("Sub", ["one", "mask"], ["hidden"]),
        helper.make_node("Mul", ["hidden", "lowest"], ["added"]),
        helper.make_node("Add", ["scores", "added"], ["masked"]),
        helper.make_node("Softmax", ["masked"], ["p"], axis=-1),
        helper.make_node("MatMul", ["p", "r"], ["m"]),
        helper.make_node("Max", ["m", "tiny"], ["f"]),
        helper.make_node("Div", ["m", "f"], ["d"]),
        helper.make_node("Pow", ["d", "zero"], ["out"]),
    ]
    return _model(nodes, constants)


def learned() -> bytes:
    """Trees, vectors, and what encodes columns for them (ai.onnx.ml)."""
    from tests.frontends.onnx.test_learned import ML, said, trees

    random = np.random.default_rng(0)
    made = said(random, trees(random, 3, 3, ["BRANCH_LEQ", "BRANCH_GT"], missing=True), "target", [0, 1], -1.0)
    vectors = {"vectors_per_class": [2, 1, 2], "support_vectors": [0.5, -1.0, 0.25, 2.0] * 5, "rho": [0.1, -0.2, 0.3]}
    vectors |= {"coefficients": [0.5, -0.75] * 5, "kernel_type": "RBF", "kernel_params": [0.5, 0.0, 3.0]}
    vectors |= {"prob_a": [-1.0, -2.0, -0.5], "prob_b": [0.1, 0.0, 0.2], "classlabels_ints": [3, 1, 2]}
    nodes = [
        helper.make_node("Reshape", ["x", "rows"], ["r"]),
        helper.make_node("Scaler", ["r"], ["c"], domain=ML, offset=[0.5, 0.0, 1.0, -1.0], scale=[1.0, 2.0, 0.5, 1.0]),
        helper.make_node("TreeEnsembleRegressor", ["c"], ["t"], domain=ML, n_targets=2, **made),
        helper.make_node("SVMClassifier", ["c"], ["label", "p"], domain=ML, **vectors),
        helper.make_node("OneHotEncoder", ["label"], ["h"], domain=ML, cats_int64s=[1, 2, 3]),
        helper.make_node("Concat", ["t", "p", "h"], ["out"], axis=1),
    ]
    model = onnx.ModelProto.FromString(_model(nodes, {"rows": np.array([64, 4])}))
    model.opset_import.append(helper.make_opsetid(ML, 3))
    return model.SerializeToString()


def streamed() -> bytes:
    """A frame and two states, which are outputs again."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Add", ["c", "h"], ["out"]),
        helper.make_node("Relu", ["out"], ["h2"]),
        helper.make_node("Slice", ["d", "one", "last", "axis"], ["old"]),
        helper.make_node("Concat", ["old", "out"], ["d2"], axis=1),
    ]
    constants = {"w": np.resize(np.linspace(-1, 1, 7, dtype=np.float32), (4, 4, 3, 3))}
    constants |= {name: np.array([value]) for name, value in (("one", 4), ("last", 8), ("axis", 1))}
    model = onnx.ModelProto.FromString(_model(nodes, constants))
    for name, channels in (("h", 4), ("d", 8)):
        shape = (1, channels, 8, 8)
        model.graph.input.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))
        model.graph.output.append(helper.make_tensor_value_info(f"{name}2", TensorProto.FLOAT, shape))
    return model.SerializeToString()


def glue() -> bytes:
    """Operators that compute shapes, arrange and normalize, as exporters write them."""

    def node(op: str, operands: str, result: str, **attributes: object) -> onnx.NodeProto:
        return helper.make_node(
            op, operands.split(), result.split(), name=f"n_{result.split(maxsplit=1)[0]}", **attributes
        )

    nodes = [
        node("Conv", "x w b", "c", kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2]),
        node("BatchNormalization", "c s b m v", "n"),
        node("Clip", "n low high", "k"),
        node(
            "Resize",
            "k none scales",
            "u",
            mode="nearest",
            coordinate_transformation_mode="asymmetric",
            nearest_mode="floor",
        ),
        node("Pad", "u pads", "p", mode="reflect"),
        node("AveragePool", "p", "a", kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1),
        node("Split", "a sizes", "g h", axis=1),
        node("Mul", "g h", "q"),
        node("Shape", "q", "shape"),
        node("Gather", "shape zero", "first", axis=0),
        node("Unsqueeze", "first axes", "batch"),
        node("Concat", "batch rest", "target", axis=0),
        node("Reshape", "q target", "r"),
        node("Transpose", "r", "t", perm=[0, 2, 1]),
        node("MatMul", "t matrix", "y"),
        node("LayerNormalization", "y gamma beta", "l", axis=-1),
        node("ReduceMean", "l", "e", axes=[1], keepdims=0),
        node("Softmax", "e", "out", axis=-1),
    ]
    ramp = np.linspace(-1, 1, 24, dtype=np.float32)
    constants = {
        "w": np.resize(ramp, (4, 3, 3, 3)),
        "b": ramp[:4],
        "s": np.abs(ramp[:4]),
        "m": ramp[4:8],
        "v": np.abs(ramp[8:12]) + 0.1,
        "low": np.float32(0),
        "high": np.float32(6),
        "none": np.zeros(0, np.float32),
        "scales": np.array([1, 1, 2, 2], np.float32),
        "pads": np.array([0, 0, 1, 0, 0, 0, 1, 1]),
        "sizes": np.array([2, 2]),
        "zero": np.array(0),
        "axes": np.array([0]),
        "rest": np.array([2, -1]),
        "matrix": np.resize(ramp, (2, 5)),
        "gamma": ramp[:5],
        "beta": ramp[5:10],
    }
    ends = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, 8])]
    result = [helper.make_tensor_value_info("out", TensorProto.FLOAT, [1, 5])]
    tensors = [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "glue", ends, result, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


PROTOTXT = """name: "fuzz"
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 dim: 16 dim: 16 } } }
layer {
  name: "conv"
  type: "Convolution"
  bottom: "data"
  top: "conv"
  convolution_param { num_output: 4 kernel_size: 3 pad: 1 stride: 2 }
}
layer { name: "bn" type: "BatchNorm" bottom: "conv" top: "conv" batch_norm_param { eps: 0.001 } }
layer { name: "scale" type: "Scale" bottom: "conv" top: "conv" scale_param { bias_term: true } }
layer { name: "relu" type: "ReLU" bottom: "conv" top: "conv" relu_param { negative_slope: 0.1 } }
layer { name: "lrn" type: "LRN" bottom: "conv" top: "lrn" lrn_param { local_size: 3 alpha: 0.5 beta: 0.75 } }
layer {
  name: "up"
  type: "Deconvolution"
  bottom: "lrn"
  top: "up"
  convolution_param { num_output: 4 kernel_size: 2 stride: 2 }
}
layer { name: "crop" type: "Crop" bottom: "up" bottom: "data" top: "crop" crop_param { axis: 2 offset: 0 } }
layer { name: "slice" type: "Slice" bottom: "crop" top: "a" top: "b" slice_param { axis: 1 slice_point: 2 } }
layer {
  name: "sum"
  type: "Eltwise"
  bottom: "a"
  bottom: "b"
  top: "sum"
  eltwise_param { operation: SUM coeff: 1 coeff: -1 }
}
layer { name: "cat" type: "Concat" bottom: "sum" bottom: "a" top: "cat" concat_param { axis: 1 } }
layer {
  name: "pool"
  type: "Pooling"
  bottom: "cat"
  top: "pool"
  pooling_param { pool: AVE kernel_size: 3 stride: 2 pad: 1 }
}
layer {
  name: "prior"
  type: "PriorBox"
  bottom: "pool"
  bottom: "data"
  top: "prior"
  prior_box_param { min_size: 4 max_size: 8 aspect_ratio: 2 variance: 0.1 }
}
layer { name: "perm" type: "Permute" bottom: "pool" top: "perm" permute_param { order: 0 order: 2 order: 3 order: 1 } }
layer { name: "reorg" type: "Reorg" bottom: "crop" top: "reorg" reorg_param { stride: 2 } }
layer { name: "shape" type: "Reshape" bottom: "perm" top: "shape" reshape_param { shape { dim: 0 dim: -1 dim: 4 } } }
layer { name: "ip" type: "InnerProduct" bottom: "shape" top: "ip" inner_product_param { num_output: 5 } }
layer { name: "prob" type: "Softmax" bottom: "ip" top: "prob" }
"""


def tflite() -> bytes:
    """A quantized network with what every image network has."""
    from tests.frontends.tflite.files import RELU6, SAME, Node, Tensor, constant, tflite_file

    weight = np.resize(np.arange(-60, 60, 5), (4, 3, 3, 3)).astype(np.int8)
    tensors = [
        Tensor("x", (1, 8, 8, 3), "INT8", scales=(0.5,), zeros=(3,)),
        constant("w", weight, [0.1, 0.2, 0.3, 0.4], [0, 0, 0, 0]),
        constant("b", np.arange(4, dtype=np.int32), [0.05, 0.1, 0.15, 0.2], [0, 0, 0, 0]),
        Tensor("c", (1, 4, 4, 4), "INT8", scales=(0.25,), zeros=(-128,)),
        Tensor("p", (1, 1, 1, 4), "INT8", scales=(0.25,), zeros=(-128,)),
        constant("s", np.array([1, 4], np.int32)),
        Tensor("r", (1, 4), "INT8", scales=(0.25,), zeros=(-128,)),
        constant("m", np.resize(weight, (5, 4)), [0.1], [0]),
        Tensor("f", (1, 5), "INT8", scales=(0.5,), zeros=(0,)),
        Tensor("y", (1, 5), "INT8", scales=(1 / 256,), zeros=(-128,)),
    ]
    windows = {"Padding": SAME, "StrideH": 2, "StrideW": 2, "FusedActivationFunction": RELU6}
    pool = {"Padding": SAME, "StrideH": 4, "StrideW": 4, "FilterHeight": 4, "FilterWidth": 4}
    nodes = [
        Node("CONV_2D", ["x", "w", "b"], ["c"], ("Conv2DOptions", windows)),
        Node("AVERAGE_POOL_2D", ["c"], ["p"], ("Pool2DOptions", pool)),
        Node("RESHAPE", ["p", "s"], ["r"]),
        Node("FULLY_CONNECTED", ["r", "m", ""], ["f"], ("FullyConnectedOptions", {})),
        Node("SOFTMAX", ["f"], ["y"], ("SoftmaxOptions", {"Beta": 1.0})),
    ]
    return tflite_file(tensors, nodes, ["x"], ["y"])


def blocks() -> bytes:
    """A convolution on blocks in the batch, indices, and a mirror."""
    from tests.frontends.tflite.files import VALID, Node, Tensor, constant, tflite_file

    ints = {"b": [2, 2], "p": [[0, 0], [0, 0]], "i": [[0, 1], [0, 3]], "d": 4, "axis": 2, "m": [[0, 0], [1, 1], [1, 1]]}
    tensors = [
        Tensor("x", (1, 8, 8, 3)),
        constant("w", np.resize(np.linspace(-1, 1, 11, dtype=np.float32), (1, 3, 3, 3))),
        *(constant(name, np.array(data, np.int32)) for name, data in ints.items()),
        constant("on", np.float32(1)),
        constant("off", np.float32(0)),
        Tensor("s", (4, 4, 4, 3)),
        Tensor("c", (4, 2, 2, 3)),
        Tensor("z", (1, 4, 4, 3)),
        Tensor("g", (2, 4, 3)),
        Tensor("r", (2, 6, 5)),
        Tensor("h", (2, 4), "INT32"),
        Tensor("y", (2, 4, 4)),
    ]
    nodes = [
        Node("SPACE_TO_BATCH_ND", ["x", "b", "p"], ["s"]),
        Node(
            "DEPTHWISE_CONV_2D",
            ["s", "w"],
            ["c"],
            ("DepthwiseConv2DOptions", {"Padding": VALID, "StrideH": 1, "StrideW": 1}),
        ),
        Node("BATCH_TO_SPACE_ND", ["c", "b", "p"], ["z"]),
        Node("GATHER_ND", ["z", "i"], ["g"]),
        Node("MIRROR_PAD", ["g", "m"], ["r"], ("MirrorPadOptions", {"Mode": 1})),
        Node("ARG_MAX", ["g", "axis"], ["h"], ("ArgMaxOptions", {})),
        Node("ONE_HOT", ["h", "d", "on", "off"], ["y"], ("OneHotOptions", {"Axis": -1})),
    ]
    return tflite_file(tensors, nodes, ["x"], ["r", "y"])


def landmarks() -> bytes:
    """Custom operators, whose options are structures in memory or name themselves."""
    from flatbuffers import flexbuffers

    from tests.frontends.tflite.files import Node, Tensor, tflite_file

    crop = {"left_rotation_idx": 1, "right_rotation_idx": 4, "output_height": 8, "output_width": 6, "scale_x": 1.5}
    crop |= {"scale_y": 1.25, "subset_idxs": [1, 4, 5], "target_rotation_radians": 0.3}
    pooling = struct.pack("<6i", 1, 2, 2, 2, 2, 0)
    shapes = {"points": (1, 9, 3), "moves": (1, 4, 4), "x": (1, 8, 8, 2), "y": (1, 8, 6, 2), "p": (1, 4, 3, 2)}
    shapes |= {"places": (1, 4, 3, 2), "u": (1, 8, 6, 2), "moved": (1, 9, 3)}
    sized = {"output_height": 8, "output_width": 6}
    options = [
        ("Landmarks2TransformMatrix", "points", "moves", bytes(flexbuffers.Dumps(crop))),
        ("TransformTensorBilinear", "x moves", "y", bytes(flexbuffers.Dumps(sized))),
        ("MaxPoolingWithArgmax2D", "y", "p places", pooling),
        ("MaxUnpooling2D", "p places", "u", pooling),
        ("TransformLandmarks", "points moves", "moved", b""),
    ]
    nodes = [
        Node("CUSTOM", operands.split(), results.split(), custom=name, custom_options=data, version=2)
        for name, operands, results, data in options
    ]
    tensors = [Tensor(name, shape) for name, shape in shapes.items()]
    return tflite_file(tensors, nodes, ["points", "x"], ["u", "moved"])


def control() -> Mapping[str, bytes]:
    """A loop that is unrolled, and a layer with a state."""
    from tests.frontends.tflite.test_control import loop, svdf

    return {"loop": loop(5), "state": svdf()[0]}


def boxes() -> str:
    """Last layers of detectors."""
    from tests.frontends.caffe.files import inputs, layer

    shapes = {"s": (1, 18, 4, 4), "d": (1, 36, 4, 4), "m": (1, 24, 4, 4), "n": (1, 24, 2, 2), "o": (4, 12), "q": (4, 3)}
    proposal = "net_input_h: 64 net_input_w: 64 rpn_nms_post_top_n: 4 rpn_obj_threshold: 0.5"
    yolo = "net_input_h: 64 net_input_w: 64 keep_topk: 5 class_num: 3 tiny: true nms_threshold: 0.5 obj_threshold: 0.5"
    frcn = "class_num: 3 keep_topk: 4 nms_threshold: 0.5 obj_threshold: 0.5"
    return (
        inputs(**shapes)
        + layer("Proposal", f"proposal_param {{ {proposal} }}", "s d", "r", "regions")
        + layer("FrcnDetection", f"frcn_detection_param {{ {frcn} }}", "o q r", "f", "found")
        + layer("YoloDetection", f"yolo_detection_param {{ {yolo} }}", "m n", "y", "objects")
    )


def caffe() -> Files:
    """A prototxt and its caffemodel."""
    from tests.frontends.caffe.files import caffemodel, values

    weights = {
        "conv": [values(4, 3, 3, 3), values(4)],
        "bn": [values(4), np.abs(values(4)), np.ones(1, np.float32)],
        "scale": [values(4), values(4)],
        "up": [values(4, 4, 2, 2), values(4)],
        "ip": [values(5, 324), values(5)],
    }
    return {".prototxt": PROTOTXT.encode(), ".caffemodel": caffemodel(weights)}
