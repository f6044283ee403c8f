"""Small networks of types that the planner was not tuned for, built from `graph.py`.

They are drawn once and stay as they are: a row that looks bad is a reason to change the compiler, not the row.
"""

from __future__ import annotations

from collections.abc import Callable

import onnx

from benchmarks.architectures.graph import Graph

Builder = Callable[[Graph], str]


def video(net: Graph) -> str:
    """Convolutions over time, rows, and columns, as C3D."""
    y = net.each("Relu", net.conv(net.input(3, 8, 56, 56), 16, 3, (1, 2, 2)))
    for target, stride in ((32, 2), (32, 1), (64, 2)):
        y = net.each("Relu", net.batch_norm(net.conv(y, target, 3, stride)))
    return net.linear(net.mean(y, 2, 3, 4, keep=False), 20)


def audio_unet(net: Graph) -> str:
    """Waveform to waveform with gated convolutions, as Demucs."""
    y = net.input(1, 8192)
    skips: list[str] = []
    for width in (16, 32, 64):
        y = net.each("Relu", net.conv(y, width, 8, 4, pads=[2, 2]))
        first, gate = net.halves(net.conv(y, 2 * width, 1), 1)
        y = net.both("Mul", first, net.each("Sigmoid", gate))
        skips.append(y)
    for width in (32, 16, 1):
        y = net.both("Add", y, skips.pop())
        first, gate = net.halves(net.conv(y, 2 * net.dims[y][1], 3), 1)
        y = net.deconv(net.both("Mul", first, net.each("Sigmoid", gate)), width, 8, 4, 2)
        y = net.each("Relu", y) if width > 1 else y
    return y


def rrdb(net: Graph) -> str:
    """Super-resolution by residual dense blocks, as ESRGAN."""
    head = y = net.conv(net.input(3, 64, 64), 32)
    for _ in range(2):
        parts = [y]
        for _ in range(3):
            parts.append(net.each("LeakyRelu", net.conv(net.join(*parts) if parts[1:] else y, 16), alpha=0.2))
        y = net.both("Add", y, net.both("Mul", net.conv(net.join(*parts), 32), 0.2))
    y = net.resize(net.both("Add", head, y), 128, 128, mode="nearest", corners="asymmetric")
    return net.conv(net.each("LeakyRelu", net.conv(y, 16), alpha=0.2), 3)


def gmlp(net: Graph) -> str:
    """Tokens gated by a product over their places."""
    x = net.input(64, 96)
    for _ in range(3):
        first, gate = net.halves(net.gelu(net.linear(net.norm(x), 256)), 2)
        gate = net.turn(net.linear(net.turn(net.norm(gate), 0, 2, 1), 64), 0, 2, 1)
        x = net.both("Add", x, net.linear(net.both("Mul", first, gate), 96))
    return net.linear(net.mean(net.norm(x), 1, keep=False), 100)


def mixer(net: Graph) -> str:
    """Products over patches and over channels in turn."""
    x = net.conv(net.input(3, 112, 112), 128, 8, 8, pads=[0] * 4)
    x = net.turn(net.reshape(x, 128, 196), 0, 2, 1)
    for _ in range(2):
        y = net.turn(net.norm(x), 0, 2, 1)
        y = net.linear(net.gelu(net.linear(y, 64)), 196)
        x = net.both("Add", x, net.turn(y, 0, 2, 1))
        x = net.both("Add", x, net.linear(net.gelu(net.linear(net.norm(x), 512)), 128))
    return net.linear(net.mean(net.norm(x), 1, keep=False), 100)


def hrnet(net: Graph) -> str:
    """Three resolutions side by side that exchange what they see."""

    def block(x: str, width: int) -> str:
        y = net.each("Relu", net.conv(x, width))
        return net.each("Relu", net.both("Add", x, net.conv(y, width)))

    x = net.each("Relu", net.conv(net.each("Relu", net.conv(net.input(3, 128, 128), 32, 3, 2)), 16, 3, 2))
    levels = [x, net.each("Relu", net.conv(x, 32, 3, 2))]
    levels.append(net.each("Relu", net.conv(levels[1], 64, 3, 2)))
    for _ in range(2):
        levels = [block(level, width) for level, width in zip(levels, (16, 32, 64), strict=True)]
        mixed: list[str] = []
        for target, width in enumerate((16, 32, 64)):
            total = levels[target]
            for source, other in enumerate(levels):
                if source > target:
                    other = net.resize(net.conv(other, width, 1), *net.dims[total][2:], mode="nearest")
                for _ in range(target - source):
                    other = net.conv(other, width, 3, 2)
                total = net.both("Add", total, other) if source != target else total
            mixed.append(net.each("Relu", total))
        levels = mixed
    parts = [levels[0], *(net.resize(level, 32, 32) for level in levels[1:])]
    return net.conv(net.join(*parts), 17, 1)


def deeplab(net: Graph) -> str:
    """Dilated convolutions at several rates and the mean of the whole picture, resized to the input."""
    x = net.input(3, 128, 128)
    for width in (16, 32, 64):
        x = net.each("Relu", net.conv(x, width, 3, 2))
    x = net.each("Relu", net.conv(x, 128, 3, 1, dilation=2))
    parts = [net.each("Relu", net.conv(x, 64, 1))]
    parts += [net.each("Relu", net.conv(x, 64, 3, dilation=rate)) for rate in (3, 6, 9)]
    whole = net.each("Relu", net.conv(net.node("GlobalAveragePool", [x], (net.batch, 128, 1, 1)), 64, 1))
    parts.append(net.resize(whole, 16, 16))
    y = net.each("Relu", net.conv(net.join(*parts), 64, 1))
    return net.resize(net.conv(y, 21, 1), 128, 128)


def depth(net: Graph) -> str:
    """A pyramid that is resized with aligned corners, as DPT, with reflecting borders at the end."""
    x = net.input(3, 128, 128)
    levels: list[str] = []
    for width in (16, 32, 64, 64):
        x = net.each("Relu", net.conv(x, width, 3, 2))
        levels.append(x)
    y = levels.pop()
    while levels:
        skip = levels.pop()
        y = net.resize(y, *net.dims[skip][2:], corners="align_corners")
        y = net.each("Elu", net.conv(net.join(y, skip), net.dims[skip][1]))
    y = net.resize(y, 128, 128, corners="align_corners")
    y = net.each("Elu", net.conv(net.pad(y, (1, 1), (1, 1), "reflect"), 16, pads=[0] * 4))
    return net.each("Sigmoid", net.conv(y, 1))


def poolformer(net: Graph) -> str:
    """Mean of neighbors instead of attention, normalized over whole pictures."""
    x = net.conv(net.input(3, 112, 112), 64, 7, 4, pads=[2] * 4)
    for width in (64, 128):
        x = net.conv(x, width, 3, 2) if width > 64 else x
        for _ in range(2):
            y = net.group_norm(x)
            y = net.both("Sub", net.pool(y, "AveragePool", 3, 1, 1), y)
            x = net.both("Add", x, net.both("Mul", y, net.random(width, 1, 1, spread=0.3)))
            y = net.conv(net.gelu(net.conv(net.group_norm(x), 4 * width, 1)), width, 1)
            x = net.both("Add", x, net.both("Mul", y, net.random(width, 1, 1, spread=0.3)))
    return net.linear(net.mean(x, 2, 3, keep=False), 100)


def tcn(net: Graph) -> str:
    """Causal dilated convolutions of a sequence."""
    x = net.conv(net.input(8, 1024), 64, 1)
    for dilation in (1, 2, 4, 8):
        y = x
        for _ in range(2):
            padded = net.pad(y, [2 * dilation], [0])
            y = net.each("Relu", net.conv(padded, 64, 3, dilation=dilation, pads=[0, 0]))
        x = net.each("Relu", net.both("Add", x, y))
    return net.linear(net.reshape(net.cut(x, 2, 1023, 1024), 64), 10)


def fastvit(net: Graph) -> str:
    """Large depthwise filters and scaled branches, then attention over a small picture."""
    x = net.gelu(net.conv(net.gelu(net.conv(net.input(3, 128, 128), 48, 3, 2)), 48, 3, 2, groups=48))
    for width in (48, 96):
        x = net.gelu(net.conv(x, width, 7, 2, groups=48)) if width > 48 else x
        for _ in range(2):
            x = net.both("Add", x, net.conv(x, width, 3, groups=width))
            y = net.conv(net.gelu(net.conv(net.conv(x, width, 7, groups=width), 3 * width, 1)), width, 1)
            x = net.both("Add", x, net.both("Mul", y, net.random(width, 1, 1, spread=0.3)))
    x = net.conv(x, 96, 3, 2)
    y = net.attention(net.turn(net.reshape(net.batch_norm(x), 96, 64), 0, 2, 1), 3)
    x = net.both("Add", x, net.reshape(net.turn(y, 0, 2, 1), 96, 8, 8))
    return net.linear(net.mean(x, 2, 3, keep=False), 100)


def mobilenet_v3(net: Graph) -> str:
    """Inverted residuals with gates and hard swish."""
    x = net.each("HardSwish", net.conv(net.input(3, 160, 160), 16, 3, 2))
    rows = ((3, 16, 16, 2, True), (3, 72, 24, 2, False), (3, 88, 24, 1, False), (5, 96, 40, 2, True),
            (5, 240, 40, 1, True), (5, 120, 48, 1, True), (5, 288, 96, 2, True))  # fmt: skip
    for kernel, inner, width, stride, gated in rows:
        kind = "HardSwish" if width > 24 else "Relu"
        y = net.each(kind, net.conv(x, inner, 1))
        y = net.each(kind, net.conv(y, inner, kernel, stride, groups=inner))
        y = net.conv(net.squeeze_excite(y, inner // 4, "HardSigmoid") if gated else y, width, 1)
        x = net.both("Add", x, y) if stride == 1 and net.dims[x][1] == width else y
    x = net.each("HardSwish", net.conv(x, 576, 1))
    return net.linear(net.each("HardSwish", net.linear(net.mean(x, 2, 3, keep=False), 512)), 100)


def efficientnet(net: Graph) -> str:
    """Inverted residuals with gates and SiLU."""
    x = net.silu(net.conv(net.input(3, 128, 128), 32, 3, 2))
    for kernel, factor, width, stride in ((3, 1, 16, 1), (3, 6, 24, 2), (3, 6, 24, 1), (5, 6, 40, 2), (5, 6, 80, 2)):
        source = net.dims[x][1]
        y = net.silu(net.conv(x, factor * source, 1)) if factor > 1 else x
        y = net.silu(net.conv(y, factor * source, kernel, stride, groups=factor * source))
        y = net.conv(net.squeeze_excite(y, source // 4), width, 1)
        x = net.both("Add", x, y) if stride == 1 and source == width else y
    return net.linear(net.mean(net.silu(net.conv(x, 320, 1)), 2, 3, keep=False), 100)


def shufflenet(net: Graph) -> str:
    """Halves of the channels that are shuffled."""

    def shuffled(x: str) -> str:
        _, c, h, w = net.dims[x]
        return net.reshape(net.turn(net.reshape(x, 2, c // 2, h, w), 0, 2, 1, 3, 4), c, h, w)

    def branch(x: str, width: int, stride: int) -> str:
        y = net.each("Relu", net.conv(x, width, 1))
        return net.each("Relu", net.conv(net.conv(y, width, 3, stride, groups=width), width, 1))

    x = net.pool(net.each("Relu", net.conv(net.input(3, 160, 160), 24, 3, 2)), "MaxPool", 3, 2, 1)
    for width, blocks in ((48, 3), (96, 3), (192, 2)):
        source = net.dims[x][1]
        skip = net.each("Relu", net.conv(net.conv(x, source, 3, 2, groups=source), width // 2, 1))
        x = shuffled(net.join(skip, branch(x, width // 2, 2)))
        for _ in range(blocks):
            first, second = net.halves(x, 1)
            x = shuffled(net.join(first, branch(second, width // 2, 1)))
    return net.linear(net.mean(net.each("Relu", net.conv(x, 256, 1)), 2, 3, keep=False), 100)


def densenet(net: Graph) -> str:
    """Every layer reads all layers before it."""
    x = net.pool(net.each("Relu", net.conv(net.input(3, 128, 128), 32, 7, 2)), "MaxPool", 3, 2, 1)
    for block in range(2):
        for _ in range(4):
            y = net.each("Relu", net.conv(net.each("Relu", net.batch_norm(x)), 64, 1))
            x = net.join(x, net.conv(y, 16))
        x = net.each("Relu", net.batch_norm(x))
        x = x if block else net.pool(net.conv(x, net.dims[x][1] // 2, 1), "AveragePool")
    return net.linear(net.mean(x, 2, 3, keep=False), 100)


def convnext(net: Graph) -> str:
    """Depthwise filters, then a norm and products with channels last."""
    x = net.channel_norm(net.conv(net.input(3, 112, 112), 64, 4, 4, pads=[0] * 4))
    for width in (64, 128):
        x = net.conv(net.channel_norm(x), width, 2, 2, pads=[0] * 4) if width > 64 else x
        for _ in range(2):
            y = net.turn(net.conv(x, width, 7, groups=width), 0, 2, 3, 1)
            y = net.linear(net.gelu(net.linear(net.norm(y), 4 * width)), width)
            x = net.both("Add", x, net.turn(net.both("Mul", y, net.random(width, spread=0.3)), 0, 3, 1, 2))
    return net.linear(net.norm(net.mean(x, 2, 3, keep=False)), 100)


def windows(net: Graph) -> str:
    """Attention within windows of a picture, as Swin."""
    x = net.turn(net.reshape(net.conv(net.input(3, 112, 112), 96, 4, 4, pads=[0] * 4), 96, 784), 0, 2, 1)
    for _ in range(2):
        y = net.turn(net.reshape(net.norm(x), 4, 7, 4, 7, 96), 0, 1, 3, 2, 4, 5)
        y = net.linear(net.reshape(y, 16, 49, 96), 288)
        y = net.turn(net.reshape(y, 16, 49, 3, 3, 32), 3, 0, 1, 4, 2, 5)
        q, k, v = (net.node("Gather", [y, net.constant(part)], net.dims[y][1:], axis=0) for part in range(3))
        scores = net.product(net.both("Mul", q, 32**-0.5), net.turn(k, 0, 1, 2, 4, 3))
        scores = net.both("Add", scores, net.random(3, 49, 49, spread=0.5))
        y = net.turn(net.product(net.node("Softmax", [scores], axis=-1), v), 0, 1, 3, 2, 4)
        y = net.reshape(net.linear(net.reshape(y, 16, 49, 96), 96), 4, 4, 7, 7, 96)
        x = net.both("Add", x, net.reshape(net.turn(y, 0, 1, 3, 2, 4, 5), 784, 96))
        x = net.both("Add", x, net.linear(net.gelu(net.linear(net.norm(x), 384)), 96))
    return net.linear(net.mean(net.norm(x), 1, keep=False), 100)


def crnn(net: Graph) -> str:
    """Columns of a text line, read in both directions by an LSTM."""
    x = net.input(1, 32, 128)
    for width in (16, 32, 64):
        x = net.pool(net.each("Relu", net.conv(x, width)))
    x = net.each("Relu", net.conv(x, 128, (4, 1), 1, pads=[0] * 4))
    y = net.turn(net.reshape(x, 128, 16), 2, 0, 1)
    hidden, gates = 64, [net.random(2, 256, source, spread=0.09) for source in (128, 64)]
    y = net.node(
        "LSTM", [y, *gates, net.random(2, 512, spread=0.1)], (16, 2, net.batch, hidden), hidden_size=hidden,
        direction="bidirectional",
    )  # fmt: skip
    y = net.turn(y, 2, 0, 1, 3)
    return net.node("Softmax", [net.linear(net.reshape(y, 16, 2 * hidden), 37)], axis=-1)


def wav2vec(net: Graph) -> str:
    """A waveform through strided convolutions, then attention."""
    x = net.input(1, 6400)
    for kernel, stride in ((10, 5), (8, 4), (4, 2), (4, 2)):
        x = net.gelu(net.group_norm(net.conv(x, 64, kernel, stride, pads=[0, 0]), 64))
    x = net.norm(net.turn(x, 0, 2, 1))
    for _ in range(2):
        x = net.norm(net.both("Add", x, net.attention(x, 4)))
        x = net.norm(net.both("Add", x, net.linear(net.gelu(net.linear(x, 256)), 64)))
    return net.linear(x, 32)


def nafnet(net: Graph) -> str:
    """Restoration: norms over few channels, gates that multiply halves of the channels."""
    x = head = net.conv(net.input(3, 96, 96), 16)
    for _ in range(2):
        y = net.conv(net.conv(net.channel_norm(x), 32, 1), 32, groups=32)
        first, second = net.halves(y, 1)
        y = net.both("Mul", first, second)
        y = net.both("Mul", y, net.conv(net.node("GlobalAveragePool", [y], (net.batch, 16, 1, 1)), 16, 1))
        x = net.both("Add", x, net.both("Mul", net.conv(y, 16, 1), net.random(16, 1, 1, spread=0.3)))
        first, second = net.halves(net.conv(net.channel_norm(x), 32, 1), 1)
        y = net.conv(net.both("Mul", first, second), 16, 1)
        x = net.both("Add", x, net.both("Mul", y, net.random(16, 1, 1, spread=0.3)))
    return net.conv(net.both("Add", head, x), 3)


def unet(net: Graph) -> str:
    """Segmentation with transposed convolutions and skips."""

    def pair(x: str, width: int) -> str:
        return net.each("Relu", net.conv(net.each("Relu", net.conv(x, width)), width))

    x = net.input(3, 128, 128)
    skips: list[str] = []
    for width in (16, 32, 64):
        skips.append(pair(x, width))
        x = net.pool(skips[-1])
    x = pair(x, 128)
    for width in (64, 32, 16):
        x = pair(net.join(net.deconv(x, width), skips.pop()), width)
    return net.each("Sigmoid", net.conv(x, 2, 1))


def espcn(net: Graph) -> str:
    """Super-resolution of one channel by moving channels into pixels."""
    x = net.each("Tanh", net.conv(net.input(1, 96, 96), 32, 5))
    return net.pixel_shuffle(net.conv(net.each("Tanh", net.conv(x, 16)), 9), 3)


def conformer(net: Graph) -> str:
    """Attention and gated depthwise convolutions over frames."""
    x = net.linear(net.input(100, 80), 96)
    for _ in range(2):
        x = net.both("Add", x, net.both("Mul", net.linear(net.silu(net.linear(net.norm(x), 384)), 96), 0.5))
        x = net.both("Add", x, net.attention(net.norm(x), 4))
        first, gate = net.halves(net.conv(net.turn(net.norm(x), 0, 2, 1), 192, 1), 1)
        y = net.conv(net.both("Mul", first, net.each("Sigmoid", gate)), 96, 15, groups=96)
        y = net.conv(net.silu(net.batch_norm(y)), 96, 1)
        x = net.norm(net.both("Add", x, net.turn(y, 0, 2, 1)))
    return net.node("LogSoftmax", [net.linear(x, 40)], axis=-1)


def resnext(net: Graph) -> str:
    """Grouped convolutions in residual blocks."""
    x = net.pool(net.each("Relu", net.conv(net.input(3, 128, 128), 64, 7, 2)), "MaxPool", 3, 2, 1)
    for width, stride in ((64, 1), (128, 2), (256, 2)):
        y = net.each("Relu", net.conv(net.each("Relu", net.conv(x, width, 1)), width, 3, stride, groups=16))
        skip = net.conv(x, 2 * width, 1, stride)
        x = net.each("Relu", net.both("Add", net.conv(y, 2 * width, 1), skip))
    return net.linear(net.mean(x, 2, 3, keep=False), 100)


def points(net: Graph) -> str:
    """A cloud of points: the maximum over all of them, as PointNet."""
    x = local = net.each("Relu", net.conv(net.input(3, 1024), 64, 1))
    for width in (64, 128, 256):
        x = net.each("Relu", net.batch_norm(net.conv(x, width, 1)))
    whole = net.node("ReduceMax", [x], (net.batch, 256, 1), axes=[2], keepdims=1)
    whole = net.node("Expand", [whole, net.whole(net.batch, 256, 1024)], (net.batch, 256, 1024))
    y = net.each("Relu", net.conv(net.join(local, whole), 128, 1))
    return net.turn(net.conv(y, 13, 1), 0, 2, 1)


def style(net: Graph) -> str:
    """Pictures in another style: reflecting borders, norms of single pictures."""
    x = net.input(3, 96, 96)

    def block(x: str, width: int, kernel: int, stride: int = 1) -> str:
        side = [kernel // 2] * 2
        y = net.conv(net.pad(x, side, side, "reflect"), width, kernel, stride, pads=[0] * 4)
        return net.node("InstanceNormalization", [y, net.positive(width), net.random(width, spread=0.1)])

    for width, kernel, stride in ((16, 9, 1), (32, 3, 2), (64, 3, 2)):
        x = net.each("Relu", block(x, width, kernel, stride))
    x = net.both("Add", x, block(net.each("Relu", block(x, 64, 3)), 64, 3))
    for width in (32, 16):
        sides = [2 * extent for extent in net.dims[x][2:]]
        x = net.each("Relu", block(net.resize(x, *sides, mode="nearest", corners="asymmetric"), width, 3))
    return net.each("Tanh", net.conv(net.pad(x, (4, 4), (4, 4), "reflect"), 3, 9, pads=[0] * 4))


NETWORKS: dict[str, Builder] = {
    builder.__name__: builder
    for builder in (
        *(video, audio_unet, rrdb, gmlp, mixer, hrnet, deeplab, depth, poolformer, tcn, fastvit, mobilenet_v3),
        *(efficientnet, shufflenet, densenet, convnext, windows, crnn, wav2vec, nafnet, unet, espcn, conformer),
        *(resnext, points, style),
    )
}


def network(name: str, batch: int = 1) -> onnx.ModelProto:
    """A network for that many samples at once."""
    net = Graph(batch)
    return net.model(NETWORKS[name](net))
