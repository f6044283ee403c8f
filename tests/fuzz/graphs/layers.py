"""Operators that sum: convolutions, pools, products, reductions, normalizations, recurrences."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.fuzz.graphs.maker import Maker, Rejected, Value
from tests.fuzz.graphs.table import makes

# Windows


def _window(m: Maker, x: Value, largest: int = 4) -> dict[str, Any]:
    """Kernel, strides, pads and dilations that fit the operand."""
    spatial = x.shape[2:]
    kernel, strides, dilations, pads = [], [], [], []
    for extent in spatial:
        size = m.whole(1, min(largest, extent + 1))
        dilation = m.choose((1, 1, 1, 2)) if (size - 1) * 2 < extent else 1
        pad = m.whole(0, min(size - 1, 2)), m.whole(0, min(size - 1, 2))
        if dilation * (size - 1) + 1 > extent + sum(pad):
            raise Rejected("the window is larger than the image")
        kernel.append(size), dilations.append(dilation), pads.append(pad), strides.append(m.choose((1, 1, 2, 2, 3)))
    attributes: dict[str, Any] = {"kernel_shape": kernel}
    if m.chance(0.7):
        attributes["strides"] = strides
    if m.chance(0.15):
        attributes["auto_pad"] = m.choose(("SAME_UPPER", "SAME_LOWER", "VALID"))
        if any(size > extent for size, extent in zip(kernel, x.shape[2:], strict=True)):
            raise Rejected("without padding the window is larger than the image")
        if any(stride > size for size, stride in zip(kernel, attributes.get("strides", ()), strict=False)):
            raise Rejected("ONNX Runtime reads memory of others for strides above the window with auto_pad")
        return attributes
    attributes["pads"] = [pad[0] for pad in pads] + [pad[1] for pad in pads]
    if any(dilation > 1 for dilation in dilations):
        attributes["dilations"] = dilations
    return attributes


def _image(m: Maker) -> Value:
    return m.ranked(4, 4, 4, 4, 3, 5)


@makes("Conv", weight=5)
def conv(m: Maker, name: str) -> None:
    x = _image(m)
    attributes, channels = _window(m, x), x.shape[1]
    group = m.choose([1, 1, channels, *(size for size in (2, 3, 4) if channels % size == 0)])
    target = group * m.whole(1, max(1, 12 // group))
    inner = channels // group
    taps = inner * int(np.prod(attributes["kernel_shape"]))
    filters = m.normal(target, inner, *attributes["kernel_shape"], spread=1.2 * taps**-0.5)
    bias = [m.normal(target, spread=0.3)] if m.chance(0.7) else []
    m.node(name, x, filters, *bias, group=group, **attributes)


@makes("ConvTranspose", weight=2)
def conv_transpose(m: Maker, name: str) -> None:
    x = _image(m)
    channels, spatial = x.shape[1], x.rank - 2
    group = m.choose([1, 1, channels, *(size for size in (2, 3) if channels % size == 0)])
    each = m.whole(1, max(1, 8 // group))
    kernel = [m.whole(1, 4) for _ in range(spatial)]
    strides = [m.whole(1, 3) for _ in range(spatial)]
    attributes: dict[str, Any] = {"kernel_shape": kernel, "strides": strides, "group": group}
    match m.whole(0, 4):
        case 0:
            attributes["auto_pad"] = m.choose(("SAME_UPPER", "SAME_LOWER", "VALID"))
        case 1:
            attributes["output_padding"] = [m.whole(0, stride - 1) for stride in strides]
        case 2:
            attributes["pads"] = [m.whole(0, (size - 1) // 2) for size in kernel * 2]
        case 3 if m.chance(0.4):
            attributes["dilations"] = [m.whole(1, 2) for _ in range(spatial)]
        case _:
            pass
    taps = channels // group * int(np.prod([-(-size // step) for size, step in zip(kernel, strides, strict=True)]))
    filters = m.normal(channels, each, *kernel, spread=1.2 * taps**-0.5)
    bias = [m.normal(group * each, spread=0.3)] if m.chance(0.6) else []
    m.node(name, x, filters, *bias, **attributes)


@makes("MaxPool", "AveragePool", weight=2)
@makes("LpPool", weight=0.6)
def pool(m: Maker, name: str) -> None:
    x = _image(m)
    attributes = _window(m, x)
    since = {"MaxPool": 10, "AveragePool": 19, "LpPool": 18}[name]
    if m.opset < since:
        attributes.pop("dilations", None)
    if m.chance(0.3) and (name != "LpPool" or m.opset >= 18):
        attributes["ceil_mode"] = 1
    if name == "AveragePool":
        attributes["count_include_pad"] = m.whole(0, 1)
    if name == "LpPool":
        attributes["p"] = m.whole(1, 2)
    m.node(name, x, **attributes)


@makes("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def global_pool(m: Maker, name: str) -> None:
    m.node(name, _image(m))


# Products


@makes("MatMul", weight=4)
def matmul(m: Maker, name: str) -> None:
    x = m.pick(where=lambda v: v.rank >= 1)
    inner = x.shape[-1]
    others = [v for v in m.values if v.kind == "f" and v.rank >= 2 and v.shape[-2] == inner and v is not x]
    if others and m.chance(0.5):
        y = m.choose(others)
        x = m.node("Mul", x, m.constant(round(inner**-0.5, 4))) if inner > 4 else x
        m.node(name, x, y)
    elif m.chance(0.25) and x.rank >= 2:
        y = m.node("Transpose", x, perm=[*range(x.rank - 2), x.rank - 1, x.rank - 2])
        m.node(name, m.node("Mul", x, m.constant(round(inner**-0.5, 4))), y)
    else:
        batch = x.shape[:-2] if m.chance(0.2) else ()
        shape = (inner,) if m.chance(0.1) else (*batch, inner, m.whole(1, 16))
        m.node(name, x, m.normal(*shape, spread=1.2 * inner**-0.5))


@makes("MatMulOfConstant")
def matmul_of_constant(m: Maker, name: str) -> None:
    """The constant at the left."""
    x = m.pick(where=lambda v: v.rank >= 2)
    m.node("MatMul", m.normal(m.whole(1, 9), x.shape[-2], spread=1.2 * x.shape[-2] ** -0.5), x)


@makes("Gemm", weight=2)
def gemm(m: Maker, name: str) -> None:
    x = m.ranked(2)
    turn_x, turn_y, width = m.chance(0.3), m.chance(0.5), m.whole(1, 12)
    rows, inner = x.shape[::-1] if turn_x else x.shape
    y = m.normal(*((width, inner) if turn_y else (inner, width)), spread=1.2 * inner**-0.5)
    bias = [m.normal(*m.choose(((width,), (1, width), (rows, width), (rows, 1), (1,), ())))] if m.chance(0.8) else []
    attributes = {"alpha": m.real(0.5, 1.5), "beta": m.real(0.5, 1.5)} if m.chance(0.4) else {}
    m.node(name, x, y, *bias, transA=int(turn_x), transB=int(turn_y), **attributes)


@makes("Einsum")
def einsum(m: Maker, name: str) -> None:
    x = m.ranked(3, 4)
    b, n, k = x.shape[0], x.shape[-2], x.shape[-1]
    spread, width = k**-0.5, m.whole(1, 6)
    if x.rank == 4:
        m.node(name, x, m.normal(k, width, spread=spread), equation=m.choose(("abnk,kj->abnj", "abnk,kj->bnaj")))
        return
    match m.whole(0, 3):
        case 0:
            m.node(name, x, m.normal(k, width, spread=spread), equation="bnk,kj->bnj")
        case 1:
            m.node(name, x, m.normal(b, width, k, spread=spread), equation="bnk,bjk->bnj")
        case 2:
            m.node(name, x, equation="bnk->nbk")
        case _:
            m.node(name, x, m.normal(n, k, spread=spread), equation="bnk,nk->bn")


@makes("Det", weight=0.4)
def det(m: Maker, name: str) -> None:
    count = m.whole(2, 3)
    values = m.pick(where=lambda v: v.size >= count * count)
    flat = m.node("Reshape", m.inside(values, -2, 2), m.integers(-1))
    matrices = min(values.size // count**2, 5)
    part = m.node("Slice", flat, m.integers(0), m.integers(matrices * count**2))
    m.node(name, m.node("Reshape", part, m.integers(matrices, count, count)))


# Reductions


@makes("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", weight=2)
@makes("ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSumExp")
def reduce(m: Maker, name: str) -> None:
    x = m.pick(where=lambda v: v.rank >= 1)
    axes = None if m.chance(0.1) else [axis - (x.rank if m.chance(0.3) else 0) for axis in m.some(range(x.rank))]
    m.reduced(name, x, axes, keepdims=m.whole(0, 1))


@makes("ReduceProd", "ReduceLogSum", weight=0.6)
def reduce_positive(m: Maker, name: str) -> None:
    x = m.pick(where=lambda v: v.rank >= 1 and v.shape[-1] <= 12)
    m.reduced(name, m.inside(x, 0.4, 1.8), [x.rank - 1], keepdims=m.whole(0, 1))


@makes("Softmax", weight=3)
@makes("LogSoftmax")
def softmax(m: Maker, name: str) -> None:
    x = m.pick(where=lambda v: v.rank >= 1)
    m.node(name, m.inside(x, -12, 12), **({} if m.chance(0.2) else {"axis": m.whole(-x.rank, x.rank - 1)}))


# Normalizations


@makes("BatchNormalization", weight=2)
def batch_normalization(m: Maker, name: str) -> None:
    x = m.ranked(2, 3, 4, 4, 5)
    count = x.shape[1]
    spread = [m.between(0.5, 1.5, count), m.normal(count, spread=0.3), m.normal(count, spread=0.3)]
    m.node(name, x, *spread, m.between(0.3, 2, count), **({"epsilon": 1e-3} if m.chance(0.5) else {}))


def _spread_along(m: Maker, x: Value, axis: int) -> None:
    """Differences that a normalization would blow up are noise on a chip."""
    for array in x.arrays:
        rows = array.reshape(int(np.prod(array.shape[:axis])), -1)
        if rows.shape[1] < 3 or float(rows.std(1).min()) < 0.05 * max(float(np.abs(array).max()), 1e-6):
            raise Rejected("hardly any spread to normalize")


@makes("LayerNormalization", since=17, weight=2)
@makes("RMSNormalization", since=23)
def layer_normalization(m: Maker, name: str) -> None:
    x = m.pick(where=lambda v: v.rank >= 1)
    axis = m.whole(0, x.rank - 1) if m.chance(0.4) else x.rank - 1
    _spread_along(m, x, axis)
    shape = x.shape[axis:]
    bias = [m.normal(*shape, spread=0.3)] if name.startswith("Layer") and m.chance(0.6) else []
    attributes = {"axis": axis - x.rank if m.chance(0.5) else axis, "epsilon": m.choose((1e-5, 1e-3))}
    m.node(name, x, m.between(0.5, 1.5, *shape), *bias, **attributes)


@makes("InstanceNormalization")
def instance_normalization(m: Maker, name: str) -> None:
    x = _image(m)
    _spread_along(m, x, 2)
    m.node(name, x, m.between(0.5, 1.5, x.shape[1]), m.normal(x.shape[1], spread=0.3), epsilon=1e-3)


@makes("GroupNormalization", since=21)
def group_normalization(m: Maker, name: str) -> None:
    x = m.ranked(4, 4, 3)
    groups = m.choose([size for size in range(1, x.shape[1] + 1) if x.shape[1] % size == 0])
    for array in x.arrays:
        _spread_along(m, Value("", (array.reshape(x.shape[0] * groups, -1),), varies=False), 1)
    count = x.shape[1]
    m.node(name, x, m.between(0.5, 1.5, count), m.normal(count, spread=0.3), num_groups=groups, epsilon=1e-3)


@makes("LRN")
def lrn(m: Maker, name: str) -> None:
    m.node(name, m.inside(m.ranked(4), -4, 4), size=m.choose((1, 3, 5)), alpha=m.real(0.01, 0.3), beta=0.75, bias=1.0)


@makes("LpNormalization", "MeanVarianceNormalization", weight=0.6)
def other_normalization(m: Maker, name: str) -> None:
    x = m.ranked(4) if name.startswith("Mean") else m.pick(where=lambda v: v.rank >= 1)
    if name.startswith("Mean"):
        _spread_along(m, Value("", tuple(np.moveaxis(array, 1, 0) for array in x.arrays), varies=False), 1)
        m.node(name, x)
        return
    axis = m.whole(0, x.rank - 1)
    _spread_along(m, Value("", tuple(np.moveaxis(array, axis, -1) for array in x.arrays), varies=False), x.rank - 1)
    m.node(name, x, axis=axis, p=m.whole(1, 2))


# Recurrences and sampling


@makes("LSTM", "GRU", "RNN", weight=0.7)
def recurrent(m: Maker, name: str) -> None:
    x = m.ranked(3)
    if x.shape[0] > 12:
        raise Rejected("many steps")
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[name]
    hidden, direction = m.whole(2, 7), m.choose(("forward", "reverse", "bidirectional"))
    count, width = 2 if direction == "bidirectional" else 1, x.shape[2]
    operands: list[Value | None] = [
        m.inside(x, -4, 4),
        m.normal(count, gates * hidden, width, spread=width**-0.5),
        m.normal(count, gates * hidden, hidden, spread=0.7 * hidden**-0.5),
    ]
    if m.chance(0.6):
        operands.append(m.normal(count, 2 * gates * hidden, spread=0.3))
    attributes = {"linear_before_reset": m.whole(0, 1)} if name == "GRU" else {}
    m.nodes_of(name, operands, m.whole(1, 2), hidden_size=hidden, direction=direction, **attributes)


@makes("GridSample", since=16, weight=0.6)
def grid_sample(m: Maker, name: str) -> None:
    x = m.ranked(4)
    mode = m.choose(("linear", "nearest") if m.opset >= 20 else ("bilinear", "nearest"))
    grid = m.input((x.shape[0], m.whole(1, 5), m.whole(1, 5), 2))
    padding, corners = m.choose(("zeros", "border", "reflection")), m.whole(0, 1)
    m.node(name, x, m.inside(grid, -1.2, 1.2), mode=mode, padding_mode=padding, align_corners=corners)


@makes("RoiAlign", since=16, weight=0.4)
def roi_align(m: Maker, name: str) -> None:
    x, count = m.ranked(4), m.whole(1, 3)
    starts = m.random.uniform(0, 0.4, (count, 2)) * x.shape[:1:-1]
    ends = m.random.uniform(0.6, 1, (count, 2)) * x.shape[:1:-1]
    batches = m.constant(m.random.integers(0, x.shape[0], count), np.int64)
    sizes = {"output_height": m.whole(1, 4), "output_width": m.whole(1, 4), "sampling_ratio": m.whole(1, 2)}
    m.node(name, x, m.constant(np.concatenate([starts, ends], 1)), batches, spatial_scale=1.0, **sizes)


@makes("Col2Im", since=18, weight=0.4)
def col2im(m: Maker, name: str) -> None:
    size, channels = 2, m.whole(1, 3)
    height, width = m.whole(3, 5), m.whole(2, 5)
    x = m.input((m.whole(1, 2), channels * size**2, (height - size + 1) * (width - size + 1)))
    m.node(name, x, m.integers(height, width), m.integers(size, size))
