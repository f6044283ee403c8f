"""The files that lie before the chapter's commands: small networks of our own, with images and arrays for them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from PIL import Image
from tpuc_driver.session import Session
from tpuc_onnx.engine import ENGINE

from tests.frontends.caffe import files as caffe
from tests.frontends.tflite.files import RELU, SAME, Node, Tensor, constant, tflite_file

Array = NDArray[Any]
Recipe = Callable[[Path], None]
SOMENET_INPUTS = {"a": (1, 3, 8, 8), "b": (1, 3, 8, 8), "c": (1, 10)}
CLASSES = 10


def make(folder: Path, given: str) -> None:
    """Make one file of a scene: `FILE`, or `FILE = RECIPE` where it is made as another one is."""
    name, _, recipe = (part.strip() for part in given.partition("="))
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    RECIPES[recipe or Path(name).name](path)


def numbers(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng([seed, *shape]).normal(0, 1, shape).astype(np.float32)


def onnx_file(
    path: Path, nodes: list[onnx.NodeProto], inputs: Mapping[str, tuple[int, ...]], weights: Mapping[str, Array]
) -> None:
    """A network whose output is `output`."""
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()]
    last = [helper.make_tensor_value_info("output", TensorProto.FLOAT, None)]
    held = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, path.stem, ends, last, held)
    path.write_bytes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8).SerializeToString()
    )


# Networks


def classifier(side: int) -> Recipe:
    """A convolution, a residual block and a linear layer, on images of that side."""

    def write(path: Path) -> None:
        nodes = [
            helper.make_node("Conv", ["input", "w1", "b1"], ["conv1"], strides=[4, 4], pads=[3, 3, 3, 3]),
            helper.make_node("Relu", ["conv1"], ["relu1"]),
            helper.make_node("Conv", ["relu1", "w2", "b1"], ["conv2"], pads=[1, 1, 1, 1]),
            helper.make_node("Add", ["conv2", "relu1"], ["add"]),
            helper.make_node("Relu", ["add"], ["relu2"]),
            helper.make_node("GlobalAveragePool", ["relu2"], ["pool"]),
            helper.make_node("Flatten", ["pool"], ["flat"]),
            helper.make_node("Gemm", ["flat", "w3", "b3"], ["scores"]),
            helper.make_node("Softmax", ["scores"], ["output"], axis=1),
        ]
        weights = {
            "w1": numbers(8, 3, 7, 7) / 600,
            "b1": numbers(8) / 10,
            "w2": numbers(8, 8, 3, 3) / 9,
            "w3": numbers(8, CLASSES),
            "b3": numbers(CLASSES),
        }
        onnx_file(path, nodes, {"input": (1, 3, side, side)}, weights)

    return write


def somenet(path: Path) -> None:
    """Three inputs."""
    nodes = [
        helper.make_node("Conv", ["a", "w1"], ["of_a"], pads=[1, 1, 1, 1]),
        helper.make_node("Conv", ["b", "w2"], ["of_b"], pads=[1, 1, 1, 1]),
        helper.make_node("Add", ["of_a", "of_b"], ["both"]),
        helper.make_node("Relu", ["both"], ["relu"]),
        helper.make_node("GlobalAveragePool", ["relu"], ["pool"]),
        helper.make_node("Flatten", ["pool"], ["flat"]),
        helper.make_node("MatMul", ["flat", "w3"], ["scores"]),
        helper.make_node("Add", ["scores", "c"], ["output"]),
    ]
    weights = {"w1": numbers(8, 3, 3, 3) / 5, "w2": numbers(8, 3, 3, 3, seed=1) / 5, "w3": numbers(8, CLASSES)}
    onnx_file(path, nodes, SOMENET_INPUTS, weights)


def convolution(path: Path) -> None:
    """The one of the book and the paper: 1x16x100x100 to 1x32x100x100."""
    node = helper.make_node("Conv", ["input", "filter_conv1", "bias_conv1"], ["output"], pads=[1, 1, 1, 1])
    weights = {"filter_conv1": numbers(32, 16, 3, 3), "bias_conv1": numbers(32)}
    onnx_file(path, [node], {"input": (1, 16, 100, 100)}, weights)


def detector(path: Path) -> None:
    """Rows of boxes, object and classes in the order of a YOLO v5 of three strides."""
    nodes: list[onnx.NodeProto] = []
    rows: list[str] = []
    weights: dict[str, Array] = {"shape": np.array([1, 3, 85, -1], np.int64), "all": np.array([1, -1, 85], np.int64)}
    for stride in (8, 16, 32):
        weights[f"w{stride}"] = numbers(255, 3, 1, 1, seed=stride) / 100
        nodes += [
            helper.make_node(
                "AveragePool", ["input"], [f"pool{stride}"], kernel_shape=[stride, stride], strides=[stride, stride]
            ),
            helper.make_node("Conv", [f"pool{stride}", f"w{stride}"], [f"conv{stride}"]),
            helper.make_node("Reshape", [f"conv{stride}", "shape"], [f"split{stride}"]),
            helper.make_node("Transpose", [f"split{stride}"], [f"turned{stride}"], perm=[0, 1, 3, 2]),
            helper.make_node("Reshape", [f"turned{stride}", "all"], [f"rows{stride}"]),
        ]
        rows.append(f"rows{stride}")
    nodes += [
        helper.make_node("Concat", rows, ["raw"], axis=1),
        helper.make_node("Sigmoid", ["raw"], ["output"]),
    ]
    onnx_file(path, nodes, {"input": (1, 3, 64, 64)}, weights)


def quantized_tflite(path: Path) -> None:
    """A convolution, a mean and a linear layer in int8."""
    filters = (numbers(8, 7, 7, 3) * 40).clip(-127, 127).astype(np.int8)
    matrix = (numbers(CLASSES, 8) * 40).clip(-127, 127).astype(np.int8)
    tensors = [
        Tensor("input", (1, 224, 224, 3), "INT8", None, (1.0,), (-10,)),
        constant("filters", filters, [0.001] * 8, [0] * 8),
        constant("bias", np.arange(8, dtype=np.int32) * 50, [0.001] * 8, [0] * 8),
        Tensor("conv", (1, 56, 56, 8), "INT8", None, (0.2,), (-128,)),
        constant("axes", np.array([1, 2], np.int32)),
        Tensor("mean", (1, 8), "INT8", None, (0.1,), (-128,)),
        constant("matrix", matrix, [0.02], [0]),
        constant("offset", np.arange(CLASSES, dtype=np.int32) * 20, [0.002], [0]),
        Tensor("scores", (1, CLASSES), "INT8", None, (0.25,), (-3,)),
    ]
    convolve = {"Padding": SAME, "StrideH": 4, "StrideW": 4, "FusedActivationFunction": RELU}
    nodes = [
        Node("CONV_2D", ["input", "filters", "bias"], ["conv"], ("Conv2DOptions", convolve)),
        Node("MEAN", ["conv", "axes"], ["mean"], ("ReducerOptions", {})),
        Node("FULLY_CONNECTED", ["mean", "matrix", "offset"], ["scores"], ("FullyConnectedOptions", {})),
    ]
    path.write_bytes(tflite_file(tensors, nodes, ["input"], ["scores"]))


def prototxt(path: Path) -> None:
    path.write_text(
        'name: "resnet18"\n'
        + caffe.inputs(data=(1, 3, 224, 224))
        + caffe.layer("Convolution", "convolution_param { num_output: 8 kernel_size: 7 stride: 4 }", "data", "c", "c1")
        + caffe.layer("BatchNorm", "", "c", "n", "bn")
        + caffe.layer("Scale", "scale_param { bias_term: true }", "n", "n", "scale")
        + caffe.layer("ReLU", "", "n", "n", "relu")
        + caffe.layer("Pooling", "pooling_param { pool: AVE global_pooling: true }", "n", "p", "pool")
        + caffe.layer("InnerProduct", f"inner_product_param {{ num_output: {CLASSES} }}", "p", "f", "fc")
        + caffe.layer("Softmax", "", "f", "prob", "prob"),
        "utf-8",
    )


def caffemodel(path: Path) -> None:
    weights = {
        "c1": [numbers(8, 3, 7, 7) / 600, numbers(8)],
        "bn": [numbers(8), numbers(8, seed=1) ** 2 + 0.5, np.ones(1, np.float32)],
        "scale": [numbers(8, seed=2), numbers(8, seed=3)],
        "fc": [numbers(CLASSES, 8), numbers(CLASSES)],
    }
    path.write_bytes(caffe.caffemodel(weights))


# Data


def image(seed: int, side: int = 240) -> Recipe:
    """A few colored squares."""

    def write(path: Path) -> None:
        squares = np.random.default_rng(seed).integers(0, 255, (8, 8, 3), np.uint8)
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(squares).resize((side, side), Image.Resampling.NEAREST).save(path)

    return write


def images(path: Path) -> None:
    for index in range(8):
        image(index)(path / f"{index}.png")


def somenet_samples(path: Path) -> None:
    path.mkdir()
    for index in range(12):
        np.savez(path / f"{index}.npz", **somenet_inputs(index))


def somenet_inputs(seed: int = 0) -> dict[str, Array]:
    return {name: numbers(*shape, seed=seed + ord(name)) for name, shape in SOMENET_INPUTS.items()}


def somenet_reference(path: Path) -> None:
    """Every value by ONNX Runtime."""
    network = path.with_name("reference.onnx")
    somenet(network)
    np.savez(path, **ENGINE.run(network, somenet_inputs()))


def array_of(name: str) -> Recipe:
    return lambda path: np.save(path, somenet_inputs()[name])


def classes(path: Path) -> None:
    """A folder per class, with two images each."""
    for index in range(CLASSES):
        for number in range(2):
            image(2 * index + number, 64)(path / f"n{index:08d}" / f"{number}.JPEG")


def photos(path: Path) -> None:
    for index in range(3):
        image(index, 64)(path / f"{index:012d}.jpg")


def photo_list(path: Path) -> None:
    """A sample per line, of the folder beside it."""
    path.write_text("".join(f"photos/{index}.png\n" for index in range(8)), "utf-8")


def labels(path: Path) -> None:
    """The class of each image, from 1 on, in the order of the images."""
    path.write_text("1\n5\n10\n", "utf-8")


def objects(path: Path) -> None:
    """One object per image."""
    boxes = [[4, 4, 20, 30], [10, 20, 30, 30], [0, 0, 60, 60]]
    content = {
        "images": [{"id": i, "file_name": f"{i:012d}.jpg", "width": 64, "height": 64} for i in range(3)],
        "categories": [{"id": i + 1, "name": f"kind{i}"} for i in range(80)],
        "annotations": [
            {"id": i + 1, "image_id": i, "category_id": i + 1, "bbox": box, "area": box[2] * box[3], "iscrowd": 0}
            for i, box in enumerate(boxes)
        ],
    }
    path.write_text(json.dumps(content), "utf-8")


TPULANG = """
import numpy as np
import tpuc_lang as bml

bml.init("BM1684X", True)
in_shape = [1, 3, 173, 141]
k_shape = [64, 3, 7, 7]  # the print has 1 channel here, which fits no input of 3
x = bml.Tensor(dtype="float32", shape=in_shape)
weight_data = np.random.default_rng(0).random(k_shape).astype(np.float32)
weight = bml.Tensor(dtype="float32", shape=k_shape, data=weight_data, is_const=True)
bias_data = np.random.default_rng(1).random(k_shape[0]).astype(np.float32)
bias = bml.Tensor(dtype="float32", shape=k_shape[0], data=bias_data, is_const=True)
conv = bml.conv_v2(x, weight, bias=bias, stride=[2, 2], pad=[0, 0, 1, 1], out_dtype="float32")
bml.compile("model_def", inputs=[x], outputs=[conv], cmp=True)
bml.deinit()
"""


# What earlier commands would have left


def module(network: Recipe, name: str) -> Recipe:
    """The TOP module of a network."""

    def write(path: Path) -> None:
        source = path.with_name(f"of_{name}.onnx")
        network(source)
        session = Session()
        session.save(session.transform(source, model_name=name, preprocess={"pixel_format": "rgb"}), path)

    return write


def compiled(network: Recipe, name: str) -> Recipe:
    """The compiled file of a network in f16."""

    def write(path: Path) -> None:
        source = path.with_name(f"of_{name}.onnx")
        network(source)
        Session(chip="bm1684x", quantize="f16").compile(source, path, model_name=name)

    return write


def lowered(network: Recipe, name: str, samples: Recipe) -> Recipe:
    """The lowered module of a network in int8."""

    def write(path: Path) -> None:
        source, data = path.with_name(f"of_{name}.onnx"), path.with_name("calibration")
        network(source)
        samples(data)
        session = Session(chip="bm1684x", quantize="int8")
        top = session.transform(source, model_name=name, preprocess={"pixel_format": "rgb"})
        table = session.calibrate(top, dataset=data, options={"tune_num": 0, "bias_num": 0})
        session.build(top, table, after_lowering=lambda tpu: session.save(tpu, path))

    return write


def written(text: str) -> Recipe:
    """A file of text."""

    def write(path: Path) -> None:
        path.write_text(text, "utf-8")

    return write


SMALL, LARGE = classifier(64), classifier(224)
RECIPES: Mapping[str, Recipe] = {
    "resnet.onnx": LARGE,
    "resnet_in.npz": lambda path: np.savez(path, input=numbers(1, 3, 224, 224)),
    "cat.jpg": image(1),
    "dog.jpg": image(2),
    "images": images,
    "somenet.onnx": somenet,
    "somenet_in.npz": lambda path: np.savez(path, **somenet_inputs()),
    "a.npy": array_of("a"),
    "b.npy": array_of("b"),
    "c.npy": array_of("c"),
    "somenet.mlir": module(somenet, "somenet"),
    "dataset": somenet_samples,
    "somenet_in_f32.npz": lambda path: np.savez(path, **somenet_inputs()),
    "somenet_top_outputs.npz": somenet_reference,
    "resnet50_int8.tflite": quantized_tflite,
    "resnet18.prototxt": prototxt,
    "resnet18.caffemodel": caffemodel,
    "sample.onnx": SMALL,
    "sample.mlir": module(SMALL, "sample"),
    "sample.bmodel": compiled(SMALL, "sample"),
    "sample_in_fp32.npz": lambda path: np.savez(path, input=numbers(1, 3, 64, 64)),
    "f32.mlir": module(somenet, "somenet"),
    "quant.mlir": lowered(somenet, "somenet", somenet_samples),
    "top_input_f32.npz": lambda path: np.savez(path, **somenet_inputs()),
    "mobilenet_v2.onnx": SMALL,
    "ILSVRC2012_img_val_with_subdir": classes,
    "yolov5s.onnx": detector,
    "yolov5s.mlir": module(detector, "yolov5s"),
    "yolov5s_bm1684x_int8_sym_tpu.mlir": lowered(detector, "yolov5s", photos),
    "val2017": photos,
    "photos": photos,
    "list.txt": photo_list,
    "labels.txt": labels,
    "model_def.py": written(TPULANG),
    "instances_val2017.json": objects,
    "Conv2d.onnx": convolution,
    "Conv2d_in.npz": lambda path: np.savez(path, input=numbers(1, 16, 100, 100)),
    "yolov5s.toml": written(
        'files = ["yolov5s.onnx", "dog.jpg"]\n'
        "steps = [\n"
        '  "transform --model-name yolov5s --model-def yolov5s.onnx --preprocess yolo --test-input dog.jpg '
        '--mlir yolov5s.mlir",\n'
        '  "deploy --mlir yolov5s.mlir --chip {chip} --quantize {mode} --test-input dog.jpg -o {chip}_{mode}.out",\n'
        "]\n"
        '[each]\nchip = ["bm1684x"]\nmode = ["f16"]\n'
    ),
    "resnet.toml": written(
        'files = ["resnet.onnx"]\n'
        'steps = ["transform --model-name resnet --model-def resnet.onnx --mlir resnet.mlir"]\n'
    ),
}
"""How each file is made, by its name."""
