"""Small networks as files, with samples to calibrate them with."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from PIL import Image


def write_two_headed(path: Path, shape: tuple[int, int, int, int]) -> Path:
    """Convolution, relu, and two outputs: `map`, another convolution, and `score` behind a reshape to one row."""
    random = np.random.default_rng(5)
    n, c, h, w = shape

    def weight(name: str, *dims: int) -> onnx.TensorProto:
        return numpy_helper.from_array(random.normal(0, 0.4, dims).astype(np.float32), name)

    nodes = [
        helper.make_node("Conv", ["image", "w0", "b0"], ["conv"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["conv"], ["relu"]),
        helper.make_node("Conv", ["relu", "w1"], ["map"], kernel_shape=[1, 1]),
        helper.make_node("MaxPool", ["relu"], ["pool"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Reshape", ["pool", "row"], ["flat"]),
        helper.make_node("Gemm", ["flat", "w2", "b2"], ["score"]),
    ]
    features = 6 * (h // 2) * (w // 2)
    constants = [
        weight("w0", 6, c, 3, 3),
        weight("b0", 6),
        weight("w1", 2, 6, 1, 1),
        weight("w2", features, 5),
        weight("b2", 5),
        numpy_helper.from_array(np.array([n, features], np.int64), "row"),
    ]
    inputs = [helper.make_tensor_value_info("image", TensorProto.FLOAT, shape)]
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("map", "score")]
    graph = helper.make_graph(nodes, "two_headed", inputs, outputs, constants)
    path.write_bytes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=9).SerializeToString()
    )
    return path


def pixels(shape: tuple[int, ...], seed: int = 0) -> NDArray[np.uint8]:
    """Bytes in which every value occurs, where there is room for it."""
    size = int(np.prod(shape))
    return np.random.default_rng(seed).permutation(np.resize(np.arange(256, dtype=np.uint8), size)).reshape(shape)


def write_images(folder: Path, rows: int, columns: int, count: int = 3, *, gray: bool = False) -> Path:
    """Pictures of exactly this size, without loss."""
    folder.mkdir()
    for index in range(count):
        shape = (rows, columns) if gray else (rows, columns, 3)
        Image.fromarray(pixels(shape, index)).save(folder / f"{index}.png")
    return folder
