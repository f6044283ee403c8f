"""Operators that arrange elements: shapes, parts, borders, repetitions, images larger and smaller."""

from __future__ import annotations

import numpy as np

from tests.fuzz.graphs.maker import MOST_ELEMENTS, Maker, Rejected, Value
from tests.fuzz.graphs.table import makes


@makes("Reshape", weight=1.5)
def reshape(m: Maker, name: str) -> None:
    x = m.pick()
    match m.whole(0, 3):
        case 0 if x.rank:
            m.node(name, x, m.integers(*([0] * m.whole(0, x.rank - 1)), -1))
        case 1:
            m.node(name, x, m.integers(-1))
        case _:
            m.reshaped(x, m.whole(1, 5))


@makes("ReshapeByShape")
def reshape_by_shape(m: Maker, name: str) -> None:
    """What exporters write: Shape, Gather, Concat, Reshape."""
    x = m.pick(where=lambda v: v.rank >= 2)
    first = m.node("Gather", m.node("Shape", x), m.constant(0, np.int64), axis=0)
    parts = [m.node("Unsqueeze", first, m.integers(0)), m.integers(-1)]
    m.node("Reshape", x, m.node("Concat", *parts, axis=0))


@makes("Flatten")
def flatten(m: Maker, name: str) -> None:
    x = m.pick(where=lambda v: v.rank >= 1)
    m.node(name, x, axis=m.whole(-x.rank, x.rank))


@makes("Squeeze")
def squeeze(m: Maker, name: str) -> None:
    x = m.pick(where=lambda v: 1 in v.shape and v.rank > 1)
    ones = [axis - (x.rank if m.chance(0.3) else 0) for axis, extent in enumerate(x.shape) if extent == 1]
    m.node(name, x, *([] if m.chance(0.3) else [m.integers(*m.some(ones))]))


@makes("Unsqueeze")
def unsqueeze(m: Maker, name: str) -> None:
    x = m.pick(where=lambda v: v.rank < 5)
    count = m.whole(1, min(2, 5 - x.rank))
    m.node(name, x, m.integers(*m.random.permutation(x.rank + count)[:count].tolist()))


@makes("Transpose", weight=2)
def transpose(m: Maker, name: str) -> None:
    x = m.pick(where=lambda v: v.rank >= 2)
    m.node(name, x, **({} if m.chance(0.1) else {"perm": m.random.permutation(x.rank).tolist()}))


@makes("Concat", weight=3)
def concat(m: Maker, name: str) -> None:
    x = m.pick(where=lambda v: v.rank >= 1)
    axis = m.whole(0, x.rank - 1)

    def joins(other: Value) -> bool:
        return other.rank == x.rank and all(
            index == axis or extent == x.shape[index] for index, extent in enumerate(other.shape)
        )

    operands = [x]
    for _ in range(m.whole(1, 3)):
        fitting = [value for value in m.values if value.kind == "f" and joins(value)]
        if m.chance(0.25):
            shape = [m.whole(1, 3) if index == axis else extent for index, extent in enumerate(x.shape)]
            operands.append(m.normal(*shape))
        else:
            operands.append(m.choose(fitting))
    order = m.random.permutation(len(operands)).tolist()
    m.node(name, *(operands[index] for index in order), axis=axis - (x.rank if m.chance(0.3) else 0))


@makes("Split", weight=2)
def split(m: Maker, name: str) -> None:
    x = m.pick(where=lambda v: v.rank >= 1 and max(v.shape) >= 2)
    axis = m.choose([index for index, extent in enumerate(x.shape) if extent >= 2])
    count = m.whole(2, min(3, x.shape[axis]))
    if m.opset >= 18 and m.chance(0.4):
        m.nodes_of(name, [x], count, axis=axis, num_outputs=count)
        return
    cuts = sorted((m.random.permutation(x.shape[axis] - 1)[: count - 1] + 1).tolist())
    sizes = np.diff([0, *cuts, x.shape[axis]]).tolist()
    m.nodes_of(name, [x, m.integers(*sizes)], count, axis=axis)


@makes("Slice", weight=3)
def slice_(m: Maker, name: str) -> None:
    x = m.pick(where=lambda v: v.rank >= 1)
    axes = m.some(range(x.rank))
    starts, ends, steps = [], [], []
    for axis in axes:
        extent, step = x.shape[axis], m.choose((1, 1, 1, 2, 3, -1, -2))
        start, end = sorted((m.whole(0, extent), m.whole(0, extent)))
        if start == end:
            start, end = 0, extent
        if step < 0:
            start, end = end - 1, start - 1 if start else -extent - 1
        elif m.chance(0.2):
            start, end = start - extent, 2**31 if end == extent else end - extent
        starts.append(start), ends.append(end), steps.append(step)
    operands = [m.integers(*starts), m.integers(*ends), m.integers(*axes)]
    m.node(name, x, *operands, *([] if set(steps) == {1} and m.chance(0.7) else [m.integers(*steps)]))


@makes("Pad", weight=2)
def pad(m: Maker, name: str) -> None:
    x = m.pick(where=lambda v: v.rank >= 1)
    mode = m.choose(("constant", "constant", "reflect", "edge", *(("wrap",) if m.opset >= 19 else ())))
    most = [min(3, extent - (mode == "reflect")) for extent in x.shape]
    pads = [m.whole(0, extent) if m.chance(0.6) else 0 for extent in most * 2]
    if mode == "constant" and m.chance(0.1) and x.shape[-1] > 2:
        pads[-1] = -1
    operands: list[Value | None] = []
    if mode == "constant" and m.chance(0.6):
        operands.append(m.constant(m.real(-2, 2)))
    if m.opset >= 18 and m.chance(0.3):
        axes = m.some(range(x.rank))
        pads = [pads[axis] for axis in axes] + [pads[x.rank + axis] for axis in axes]
        operands += [*([] if operands else [None]), m.integers(*axes)]
    m.node(name, x, m.integers(*pads), *operands, mode=mode)


@makes("Tile")
def tile(m: Maker, name: str) -> None:
    x = m.pick(where=lambda v: v.rank >= 1 and v.size < MOST_ELEMENTS // 8)
    m.node(name, x, m.integers(*(m.choose((1, 1, 2, 3)) for _ in range(x.rank))))


@makes("Expand")
def expand(m: Maker, name: str) -> None:
    x = m.pick(where=lambda v: v.size < MOST_ELEMENTS // 8)
    shape = [m.whole(1, 4) if extent == 1 else m.choose((extent, 1)) for extent in x.shape]
    m.node(name, x, m.integers(*([m.whole(1, 2)] if x.rank < 5 and m.chance(0.2) else []), *shape))


@makes("DepthToSpace")
def depth_to_space(m: Maker, name: str) -> None:
    x, size = m.ranked(4), m.choose((2, 2, 3))
    c = x.shape[1]
    if c % size**2:
        channels = m.constant(m.random.normal(0, c**-0.5, (size**2 * m.whole(1, 3), c, 1, 1)))
        x = m.node("Conv", x, channels)
    m.node(name, x, blocksize=size, **({"mode": m.choose(("DCR", "CRD"))} if m.chance(0.7) else {}))


@makes("SpaceToDepth")
def space_to_depth(m: Maker, name: str) -> None:
    x, size = m.ranked(4), m.choose((2, 3))
    rest = [-extent % size for extent in x.shape[2:]]
    if any(rest):
        x = m.node("Pad", x, m.integers(0, 0, 0, 0, 0, 0, *rest))
    m.node(name, x, blocksize=size)


MODES = ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", "half_pixel", "asymmetric")


@makes("Resize", weight=3)
def resize(m: Maker, name: str) -> None:
    x = m.ranked(4)
    mode, coordinates = m.choose(("nearest", "linear", "nearest", "linear", "cubic")), m.choose(MODES)
    attributes = {"mode": mode, "coordinate_transformation_mode": coordinates}
    if mode == "nearest":
        attributes["nearest_mode"] = m.choose(("floor", "round_prefer_floor", "ceil", "round_prefer_ceil"))
    if m.chance(0.5):
        factors = (1.0, 2.0, 2.0, 3.0, 0.5, 1.5)
        m.node(name, x, None, m.constant([1, 1, m.choose(factors), m.choose(factors)]), **attributes)
    else:
        sizes = [*x.shape[:2], m.whole(1, 2 * x.shape[2] + 2), m.whole(1, 2 * x.shape[3] + 2)]
        m.node(name, x, None, None, m.integers(*sizes), **attributes)


@makes("CenterCropPad", since=18)
def center_crop_pad(m: Maker, name: str) -> None:
    x = m.pick(where=lambda v: v.rank >= 1)
    axes = m.some(range(x.rank))
    m.node(name, x, m.integers(*(max(1, x.shape[axis] + m.whole(-2, 3)) for axis in axes)), axes=axes)


@makes("Trilu", since=14)
def trilu(m: Maker, name: str) -> None:
    x = m.pick(where=lambda v: v.rank >= 2)
    operands = [m.constant(m.whole(-2, 2), np.int64)] if m.chance(0.6) else []
    m.node(name, x, *operands, upper=m.whole(0, 1))


@makes("ReverseSequence")
def reverse_sequence(m: Maker, name: str) -> None:
    x = m.pick(where=lambda v: v.rank >= 2)
    batch = m.whole(0, 1)
    lengths = [m.whole(1, x.shape[1 - batch]) for _ in range(x.shape[batch])]
    m.node(name, x, m.integers(*lengths), batch_axis=batch, time_axis=1 - batch)


@makes("ConstantOfShape", "Range", "EyeLike", weight=0.4)
def computed_constant(m: Maker, name: str) -> None:
    """What front ends fold, added to something."""
    x = m.pick(where=lambda v: v.rank >= 1)
    if name == "ConstantOfShape":
        from onnx import numpy_helper

        y = m.node(name, m.node("Shape", x), value=numpy_helper.from_array(np.float32([m.real(-2, 2)])))
    elif name == "Range":
        y = m.node(name, m.constant(0.0), m.constant(float(x.shape[-1])), m.constant(1.0))
        y = m.node("Mul", y, m.constant(0.05))
    else:
        x = m.pick(where=lambda v: v.rank == 2)
        y = m.node(name, x, k=m.whole(-1, 1), dtype=1)
    m.node("Add", x, y)


@makes("Size", weight=0.3)
def size(m: Maker, name: str) -> None:
    x = m.pick()
    count = m.node("Cast", m.node(name, x), to=1)
    m.node("Div", m.node("Mul", x, m.constant(3.0)), m.node("Sqrt", count)) if x.size < 400 else _too_many()


def _too_many() -> None:
    raise Rejected("a quotient near 0")
