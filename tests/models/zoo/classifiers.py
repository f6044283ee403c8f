"""Networks that see an image, or something like one, and give classes or another image."""

from __future__ import annotations

from collections.abc import Callable

import onnx

from tests.models.zoo.graph import Graph


def squeeze_and_excitation() -> onnx.ModelProto:
    """Inverted bottlenecks with SiLU, their channels weighed by gates."""
    graph = Graph("squeeze_and_excitation")
    y = graph.conv(graph.input(1, 3, 64, 64), 3, 24, 3, 2, then="SiLU")
    for source, target, stride in ((24, 24, 1), (24, 40, 2), (40, 40, 1)):
        wide = source * 4
        z = graph.conv(graph.conv(y, source, wide, 1, then="SiLU"), wide, wide, 3, stride, group=wide, then="SiLU")
        gate = graph.head(graph.node("GlobalAveragePool", z), wide, source, then="SiLU")
        z = graph.node("Mul", z, graph.head(gate, source, wide, then="Sigmoid"))
        z = graph.conv(z, wide, target, 1, then="")
        y = graph.node("Add", z, y) if source == target else z
    y = graph.node("Flatten", graph.node("GlobalAveragePool", graph.conv(y, 40, 128, 1, then="SiLU")))
    return graph.model(graph.node("Gemm", y, graph.normal(10, 128, spread=0.1), graph.normal(10), transB=1))


def channel_shuffle() -> onnx.ModelProto:
    """Channels are split, and their halves shuffled through five dimensions."""
    graph = Graph("channel_shuffle")

    def shuffled(*halves: str) -> str:
        y = graph.permute(graph.reshape(graph.concat(*halves), 1, 2, 58, 8, 8), 0, 2, 1, 3, 4)
        return graph.reshape(y, 1, 116, 8, 8)

    def branch(x: str, source: int, stride: int) -> str:
        y = graph.conv(graph.conv(x, source, 58, 1), 58, 58, 3, stride, group=58, then="")
        return graph.conv(y, 58, 58, 1)

    y = graph.max_pool(graph.conv(graph.input(1, 3, 64, 64), 3, 24, 3, 2), 3, 2, 1)
    left = graph.conv(graph.conv(y, 24, 24, 3, 2, group=24, then=""), 24, 58, 1)
    y = shuffled(left, branch(y, 24, 2))
    for _ in range(2):
        left, right = graph.nodes_of("Split", [y, graph.integers(58, 58)], 2, axis=1)
        y = shuffled(left, branch(right, 58, 1))
    y = graph.node("ReduceMean", y, axes=[2, 3], keepdims=0)
    return graph.model(graph.linear(y, 116, 10))


def dense_block() -> onnx.ModelProto:
    """Every layer adds twelve channels to all before it; ends in a Softmax."""
    graph = Graph("dense_block")
    y, channels = graph.conv(graph.input(1, 3, 48, 48), 3, 20, 7, 2), 20
    for _ in range(4):
        z = graph.conv(graph.node("Relu", graph.batch_norm(y, channels)), channels, 48, 1)
        z = graph.node("Conv", z, graph.normal(12, 48, 3, 3, spread=0.07), kernel_shape=[3, 3], pads=[1] * 4)
        y, channels = graph.concat(y, z), channels + 12
    y = graph.conv(y, channels, channels // 2, 1)
    y = graph.node("AveragePool", y, kernel_shape=[2, 2], strides=[2, 2])
    y = graph.head(graph.node("GlobalAveragePool", y), channels // 2, 10)
    return graph.model(graph.node("Softmax", graph.node("Flatten", y), axis=1))


def u_shape() -> onnx.ModelProto:
    """Down by pooling, up by transposed convolutions, joined across."""
    graph = Graph("u_shape")

    def up(x: str, source: int, target: int) -> str:
        filters = graph.normal(source, target, 2, 2, spread=source**-0.5)
        bias = graph.normal(target, spread=0.1)
        return graph.node("ConvTranspose", x, filters, bias, kernel_shape=[2, 2], strides=[2, 2])

    large = graph.conv(graph.conv(graph.input(1, 1, 64, 64), 1, 16), 16, 16)
    middle = graph.conv(graph.conv(graph.max_pool(large, 2, 2), 16, 32), 32, 32)
    y = graph.conv(graph.max_pool(middle, 2, 2), 32, 64)
    y = graph.conv(graph.concat(up(y, 64, 32), middle), 64, 32)
    y = graph.conv(graph.concat(up(y, 32, 16), large), 32, 16)
    return graph.model(graph.head(y, 16, 1, then="Sigmoid"))


def inception() -> onnx.ModelProto:
    """Four windows side by side, pooling with a ceiling and with counted borders, local response normalization."""
    graph = Graph("inception")
    y = graph.conv(graph.input(1, 3, 56, 56), 3, 32, 7, 2, norm=False)
    y = graph.node("LRN", y, size=5, alpha=1e-4, beta=0.75, bias=1.0)
    y = graph.max_pool(y, 3, 2, ceil_mode=1)
    branches = [
        graph.conv(y, 32, 16, 1),
        graph.conv(graph.conv(y, 32, 24, 1), 24, 32, 3),
        graph.conv(graph.conv(y, 32, 8, 1), 8, 16, 5),
        graph.conv(graph.max_pool(y, 3, 1, 1), 32, 16, 1),
    ]
    sizes = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1] * 4, "count_include_pad": 1}
    y = graph.node("Flatten", graph.node("AveragePool", graph.concat(*branches), **sizes))
    matrix = graph.normal(10, 80 * 49, spread=0.02)
    return graph.model(graph.node("Softmax", graph.node("Gemm", y, matrix, graph.normal(10), transB=1), axis=1))


def grouped_residuals() -> onnx.ModelProto:
    """A batch of two through grouped convolutions, GroupNorm as exporters write it, and PRelu."""
    graph = Graph("grouped_residuals")
    y = graph.conv(graph.input(2, 3, 32, 32), 3, 64, then="HardSwish")
    for _ in range(2):
        z = graph.conv(graph.conv(graph.conv(y, 64, 64, 1), 64, 64, 3, group=16), 64, 64, 1, then="")
        y = graph.node("Relu", graph.node("Add", y, z))
    z = graph.reshape(y, 2, 8, -1)
    z = graph.node("InstanceNormalization", z, graph.between(1, 1.001, 8), graph.normal(8, spread=0.001))
    z = graph.node("Mul", graph.reshape(z, 2, 64, 32, 32), graph.between(0.5, 1.5, 64, 1, 1))
    y = graph.node("PRelu", graph.node("Add", z, graph.normal(64, 1, 1)), graph.between(0.1, 0.4, 64, 1, 1))
    return graph.model(graph.linear(graph.node("Flatten", graph.node("GlobalMaxPool", y)), 64, 10))


def pyramid_pooling() -> onnx.ModelProto:
    """Dilated branches, one that sees the whole image, and bilinear resizing to the image's size."""
    graph = Graph("pyramid_pooling")
    y = graph.conv(graph.conv(graph.input(1, 3, 65, 65), 3, 32, 3, 2), 32, 48, 3, 2)
    branches = [graph.conv(y, 48, 24, 1), graph.conv(y, 48, 24, dilation=2), graph.conv(y, 48, 24, dilation=6)]
    everywhere = graph.conv(graph.node("GlobalAveragePool", y), 48, 24, 1)
    branches.append(graph.resized(everywhere, "align_corners", 1, 24, 17, 17))
    y = graph.head(graph.conv(graph.concat(*branches), 96, 32, 1), 32, 5)
    return graph.model(graph.resized(y, "half_pixel", 1, 5, 65, 65))


def sub_pixel() -> onnx.ModelProto:
    """Three times the resolution, by channels that become pixels."""
    graph = Graph("sub_pixel")
    y = graph.conv(graph.input(1, 1, 40, 40), 1, 32, 5, norm=False, then="Tanh")
    y = graph.head(graph.conv(y, 32, 32, norm=False, then="LeakyRelu"), 32, 9, 3)
    y = graph.node("DepthToSpace", y, blocksize=3, mode="CRD")
    return graph.model(graph.node("Clip", y, graph.number(-1), graph.number(1)))


def video() -> onnx.ModelProto:
    """Convolutions and pooling over time as well."""
    graph = Graph("video")

    def conv(x: str, source: int, target: int) -> str:
        filters = graph.normal(target, source, 3, 3, 3, spread=(2 / (27 * source)) ** 0.5)
        bias = graph.normal(target, spread=0.1)
        return graph.node("Relu", graph.node("Conv", x, filters, bias, kernel_shape=[3] * 3, pads=[1] * 6))

    y = conv(graph.input(1, 3, 8, 16, 16), 3, 16)
    y = conv(graph.node("MaxPool", y, kernel_shape=[2] * 3, strides=[2] * 3), 16, 32)
    return graph.model(graph.linear(graph.node("Flatten", graph.node("GlobalAveragePool", y)), 32, 4))


CLASSIFIERS: dict[str, Callable[[], onnx.ModelProto]] = {
    one.__name__: one
    for one in (
        squeeze_and_excitation,
        channel_shuffle,
        dense_block,
        u_shape,
        inception,
        grouped_residuals,
        pyramid_pooling,
        sub_pixel,
        video,
    )
}
