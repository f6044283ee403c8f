"""The rewritten ResNet-8 is the network it was rewritten from."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper

from tests.models import resnet8
from tests.models.datasets import evaluation_set


def test_outputs_equal_the_references_of_the_tflite_file(resnet8_onnx: Path, model_data: Path) -> None:
    session = onnxruntime.InferenceSession(resnet8_onnx)
    with np.load(model_data / "ref" / "tflite" / "ic01_resnet8_float32.npz") as reference:
        samples, expected = reference["in0"], reference["out0"]
    for sample, probabilities in zip(samples, expected, strict=True):
        (result,) = session.run(None, {"input_1": sample.transpose(0, 3, 1, 2)})
        np.testing.assert_allclose(result, probabilities, rtol=0, atol=1e-5)  # two float libraries, other sum orders


def test_161_of_200_evaluation_images_are_right(resnet8_onnx: Path, model_data: Path) -> None:
    session = onnxruntime.InferenceSession(resnet8_onnx)
    images, labels = evaluation_set("ic01", model_data)
    right = sum(session.run(None, {"input_1": x[None]})[0].argmax() == y for x, y in zip(images, labels, strict=True))
    assert right == 161


def test_nodes_and_weights_carry_the_layer_names(model_data: Path) -> None:
    graph = resnet8.from_tflite(model_data / resnet8.SOURCE).graph
    names = [node.name for node in graph.node]
    assert names[:4] == ["conv2d", "conv2d_relu", "conv2d_1", "conv2d_1_relu"]
    assert len(set(names)) == len(names) == 23  # 9 Conv, 7 Relu, 3 Add, pool, flatten, gemm, softmax
    shapes = {weight.name: numpy_helper.to_array(weight).shape for weight in graph.initializer}
    assert shapes["conv2d_8.weight"] == (64, 32, 1, 1)
    assert shapes["dense.bias"] == (10,)


def test_the_same_file_gives_the_same_bytes(model_data: Path) -> None:
    first, second = (resnet8.from_tflite(model_data / resnet8.SOURCE) for _ in range(2))
    assert first.SerializeToString() == second.SerializeToString()
    onnx.checker.check_model(first)
