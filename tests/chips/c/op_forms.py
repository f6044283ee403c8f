"""Forms of ONNX operators by chance: ranks, axes, attributes and constants of every family that chip C computes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

Array = NDArray[Any]
Random = np.random.Generator


@dataclass(frozen=True, eq=False)
class Form:
    """One node: computed operands, constants behind them, or None for an operand that is left out."""

    op: str
    operands: Sequence[Array | None]
    constants: Sequence[Array | None] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict[str, Any])
    results: int = 1


def dims(random: Random, rank: int | None = None, low: int = 1, high: int = 7) -> tuple[int, ...]:
    return tuple(map(int, random.integers(low, high, int(random.integers(1, 5)) if rank is None else rank)))


def values(random: Random, shape: Sequence[int], low: float = -2.0, high: float = 2.0) -> Array:
    return random.uniform(low, high, tuple(shape)).astype(np.float32)


def whole(*numbers: int) -> Array:
    return np.array(numbers, np.int64)


def axis_of(random: Random, shape: Sequence[int]) -> int:
    return int(random.integers(-len(shape), len(shape)))


def pick(random: Random, *items: Any) -> Any:
    return items[int(random.integers(len(items)))]


def other(random: Random, shape: Sequence[int]) -> tuple[int, ...]:
    """A shape that repeats to the given one."""
    kept = [1 if random.integers(3) == 0 else extent for extent in shape]
    return tuple(kept[int(random.integers(len(kept))) :] if random.integers(3) == 0 else kept)


def pair(op: str, *, steps: bool = False) -> Callable[[Random], Form]:
    """Two operands of which the second repeats; `steps` gives values that are often equal."""

    def make(random: Random) -> Form:
        shape = dims(random)
        x, y = values(random, shape), values(random, other(random, shape))
        if steps:
            x, y = np.rint(x), np.rint(y)
        return Form(op, [x, y]) if random.integers(2) else Form(op, [x], [y])

    return make


def transposed(random: Random) -> Form:
    rank, group = int(pick(random, 1, 2, 2)), int(pick(random, 1, 1, 2))
    kernel = dims(random, rank, 1, 4)
    strides, dilations = dims(random, rank, 1, 4), dims(random, rank, 1, 3)
    extents = [d * (k - 1) + 1 for k, d in zip(kernel, dilations, strict=True)]
    pads = [int(random.integers(0, (extent + 1) // 2)) for extent in extents]
    shape = (int(random.integers(1, 3)), 4, *dims(random, rank, 3, 7))
    attributes: dict[str, Any] = {"strides": strides, "dilations": dilations, "pads": pads * 2, "group": group}
    if random.integers(2):
        attributes["output_padding"] = [min(s, d) - 1 for s, d in zip(strides, dilations, strict=True)]
    outputs = int(random.integers(1, 4))
    bias = [values(random, (outputs * group,))] if random.integers(2) else []
    return Form("ConvTranspose", [values(random, shape)], [values(random, (4, outputs, *kernel)), *bias], attributes)


def product(random: Random) -> Form:
    m, k, n = dims(random, 3, 1, 9)
    batch = dims(random, int(random.integers(0, 3)), 1, 4)
    left, right = (*other(random, (*batch, 1))[:-1], m, k), (*batch, k, n)
    if random.integers(4) == 0:
        return Form("MatMul", [values(random, left)], [values(random, right)])
    if random.integers(4) == 0:
        return Form("MatMul", [values(random, (*right[:-2], n, k))], [values(random, (k, m))])
    return Form("MatMul", [values(random, left), values(random, right)])


def gemm(random: Random) -> Form:
    m, k, n = dims(random, 3, 1, 9)
    a, b = bool(random.integers(2)), bool(random.integers(2))
    operands = [values(random, (k, m) if a else (m, k)), values(random, (n, k) if b else (k, n))]
    return Form("Gemm", operands, [values(random, (n,))], {"transA": int(a), "transB": int(b), "alpha": 0.5})


def einsum(random: Random) -> Form:
    b, i, j, k = dims(random, 4, 2, 5)
    text, shapes = pick(
        random,
        ("bik,bkj->bij", [(b, i, k), (b, k, j)]),
        ("bhid,bhjd->bhij", [(b, 2, i, k), (b, 2, j, k)]),
        ("i,j->ij", [(i,), (j,)]),
        ("ijk->kj", [(i, j, k)]),
        ("bij,bj->bi", [(b, i, j), (b, j)]),
    )
    return Form("Einsum", [values(random, shape) for shape in shapes], (), {"equation": text})


def gather(random: Random) -> Form:
    shape = dims(random)
    axis = axis_of(random, shape)
    indices = random.integers(-shape[axis], shape[axis], dims(random, int(random.integers(0, 3)), 1, 5))
    return Form("Gather", [values(random, shape)], [np.asarray(indices)], {"axis": axis})


def gather_elements(random: Random) -> Form:
    shape = dims(random)
    axis = axis_of(random, shape)
    taken = list(shape)
    taken[axis] = int(random.integers(1, 6))
    indices = random.integers(-shape[axis], shape[axis], taken)
    return Form("GatherElements", [values(random, shape)], [indices], {"axis": axis})


def gather_nd(random: Random) -> Form:
    shape = dims(random, int(random.integers(2, 5)))
    depth = int(random.integers(1, len(shape) + 1))
    columns = [random.integers(-extent, extent, (3, 2)) for extent in shape[:depth]]
    return Form("GatherND", [values(random, shape)], [np.stack(columns, -1)])


def scatter_elements(random: Random) -> Form:
    shape = dims(random, None, 2)
    axis = axis_of(random, shape)
    taken = list(shape)
    taken[axis] = int(random.integers(1, shape[axis] + 1))
    order = np.argsort(random.random(shape), axis)
    indices = np.take(order, range(taken[axis]), axis)
    updates = values(random, taken)
    return Form("ScatterElements", [values(random, shape)], [indices, updates], {"axis": axis})


def scatter_nd(random: Random) -> Form:
    shape = dims(random, int(random.integers(2, 5)), 2)
    depth = int(random.integers(1, len(shape) + 1))
    places = random.permutation(int(np.prod(shape[:depth])))[: int(random.integers(1, 4))]
    indices = np.stack(np.unravel_index(places, shape[:depth]), -1)
    return Form("ScatterND", [values(random, shape)], [indices, values(random, (len(places), *shape[depth:]))])


def top_k(random: Random) -> Form:
    shape = dims(random, None, 2, 9)
    axis = axis_of(random, shape)
    attributes = {"axis": axis, "largest": int(random.integers(2))}
    x = values(random, shape) if random.integers(2) else np.rint(values(random, shape))
    return Form("TopK", [x], [whole(int(random.integers(1, shape[axis] + 1)))], attributes, results=2)


def arg(op: str) -> Callable[[Random], Form]:
    def make(random: Random) -> Form:
        shape = dims(random)
        x = np.rint(values(random, shape))
        last = int(random.integers(2))
        attributes = {"axis": axis_of(random, shape), "keepdims": int(random.integers(2)), "select_last_index": last}
        return Form(op, [x], (), attributes)

    return make


def where(random: Random) -> Form:
    shape = dims(random)
    truths = values(random, other(random, shape)) > 0
    branches = [values(random, shape), values(random, other(random, shape))]
    if random.integers(3) == 0:
        return Form("Where", [truths, branches[0]], [np.float32(pick(random, -9.0, 0.0)).reshape(())])
    return Form("Where", [truths, *branches])


def cumulative(random: Random) -> Form:
    shape = dims(random)
    attributes = {"exclusive": int(random.integers(2)), "reverse": int(random.integers(2))}
    return Form("CumSum", [values(random, shape)], [np.int64(axis_of(random, shape)).reshape(())], attributes)


def trilu(random: Random) -> Form:
    shape = dims(random, int(random.integers(2, 5)))
    return Form(
        "Trilu",
        [values(random, shape)],
        [np.int64(random.integers(-3, 4)).reshape(())],
        {"upper": int(random.integers(2))},
    )


def modulo(random: Random) -> Form:
    shape = dims(random)
    x, y = values(random, shape, -20, 20), values(random, other(random, shape), 0.5, 3) * pick(random, 1, -1)
    return Form("Mod", [x], [y.astype(np.float32)], {"fmod": 1})


def reduced(op: str) -> Callable[[Random], Form]:
    def make(random: Random) -> Form:
        shape = dims(random)
        axes = sorted({int(axis) for axis in random.integers(0, len(shape), 2)})
        x = values(random, shape, 0.2 if "Log" in op else -2)
        return Form(op, [x], [whole(*axes)], {"keepdims": int(random.integers(2))})

    return make


def grid(random: Random) -> Form:
    n, c, h, w = dims(random, 4, 2, 6)
    attributes = {
        "mode": pick(random, "bilinear", "nearest"),
        "padding_mode": pick(random, "zeros", "border"),
        "align_corners": int(random.integers(2)),
    }
    return Form("GridSample", [values(random, (n, c, h, w)), values(random, (n, 3, 4, 2), -1.3, 1.3)], (), attributes)


def regions(random: Random) -> Form:
    boxes = np.sort(values(random, (3, 2, 2), 0, 8), 1).reshape(3, 4)
    attributes = {"output_height": 2, "output_width": 3, "sampling_ratio": 2, "spatial_scale": 0.5}
    shape = (2, int(random.integers(1, 4)), 8, 9)
    return Form("RoiAlign", [values(random, shape), boxes], [whole(0, 1, 1)], attributes)


def padded(random: Random) -> Form:
    shape = dims(random, None, 4, 8)
    mode = pick(random, "constant", "reflect", "edge", "constant")
    pads = random.integers(-1, 3, 2 * len(shape)) if mode == "constant" else random.integers(0, 3, 2 * len(shape))
    return Form("Pad", [values(random, shape)], [pads, np.float32(0.5).reshape(())], {"mode": mode})


def function(op: str, low: float = -2.0, high: float = 2.0, **attributes: Any) -> Callable[[Random], Form]:
    return lambda random: Form(op, [values(random, dims(random), low, high)], (), attributes)


def recurrent(op: str, gates: int) -> Callable[[Random], Form]:
    def make(random: Random) -> Form:
        steps, batch, width, hidden = (int(number) for number in random.integers(1, 6, 4))
        direction = pick(random, "forward", "reverse", "bidirectional")
        ways = 2 if direction == "bidirectional" else 1
        constants: list[Array | None] = [
            values(random, (ways, gates * hidden, width), -1, 1),
            values(random, (ways, gates * hidden, hidden), -1, 1),
            values(random, (ways, 2 * gates * hidden), -1, 1),
        ]
        if random.integers(2):
            constants += [None, values(random, (ways, batch, hidden), -1, 1)]
        attributes: dict[str, Any] = {"hidden_size": hidden, "direction": direction}
        if op == "GRU":
            attributes["linear_before_reset"] = int(random.integers(2))
        return Form(op, [values(random, (steps, batch, width))], constants, attributes)

    return make


def moved(op: str) -> Callable[[Random], Form]:
    def make(random: Random) -> Form:
        shape = dims(random)
        if op == "Transpose":
            return Form(op, [values(random, shape)], (), {"perm": random.permutation(len(shape)).tolist()})
        if op == "Expand":
            return Form(op, [values(random, other(random, shape))], [np.array(shape, np.int64)])
        if op == "Tile":
            return Form(op, [values(random, shape)], [random.integers(1, 4, len(shape))])
        if op == "Concat":
            return Form(op, [values(random, shape), values(random, shape)], (), {"axis": axis_of(random, shape)})
        image = values(random, (1, 8, 4, 6))
        mode = {"mode": pick(random, "DCR", "CRD")} if op == "DepthToSpace" else {}
        return Form(op, [image], (), {"blocksize": 2, **mode})

    return make


def not_(random: Random) -> Form:
    return Form("Not", [values(random, dims(random)) > 0])


def truths(op: str) -> Callable[[Random], Form]:
    def make(random: Random) -> Form:
        shape = dims(random)
        return Form(op, [values(random, shape) > 0, values(random, other(random, shape)) > 0])

    return make


FAMILIES: Mapping[str, Callable[[Random], Form]] = {
    "ConvTranspose": transposed,
    "MatMul": product,
    "Gemm": gemm,
    "Einsum": einsum,
    "Gather": gather,
    "GatherElements": gather_elements,
    "GatherND": gather_nd,
    "ScatterElements": scatter_elements,
    "ScatterND": scatter_nd,
    "TopK": top_k,
    "Where": where,
    "CumSum": cumulative,
    "Trilu": trilu,
    "Mod": modulo,
    "GridSample": grid,
    "RoiAlign": regions,
    "Pad": padded,
    "Not": not_,
    "LSTM": recurrent("LSTM", 4),
    "GRU": recurrent("GRU", 3),
    "RNN": recurrent("RNN", 1),
    "Clip": lambda random: Form("Clip", [values(random, dims(random))], [np.float32(-1), np.float32(0.5)]),
    "HardSigmoid": function("HardSigmoid"),
    **{op: arg(op) for op in ("ArgMax", "ArgMin")},
    **{op: pair(op, steps=True) for op in ("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual")},
    **{op: pair(op) for op in ("Add", "Sub", "Mul", "Max", "Min")},
    **{op: truths(op) for op in ("And", "Or", "Xor")},
    **{op: moved(op) for op in ("Transpose", "Expand", "Tile", "Concat", "DepthToSpace", "SpaceToDepth")},
    **{
        f"Reduce{mode}": reduced(f"Reduce{mode}")
        for mode in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")
    },
    **{
        op: function(op)
        for op in (
            *("Abs", "Atan", "Asinh", "Ceil", "Cos", "Cosh", "Elu", "Erf", "Exp", "Floor", "HardSwish", "LeakyRelu"),
            *("LogSoftmax", "Mish", "Neg", "Round", "Selu", "Sigmoid", "Sign", "Sin", "Sinh", "Softmax", "Softplus"),
            *("Softsign", "Tanh"),
        )
    },
    **{op: function(op, -0.9, 0.9) for op in ("Acos", "Asin", "Atanh", "Tan")},
    **{op: function(op, 0.2, 3.0) for op in ("Log", "Reciprocal", "Sqrt")},
    "Acosh": function("Acosh", 1.1, 4.0),
}


def network(forms: Mapping[str, Form]) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """All forms side by side as one network, and its inputs."""
    nodes: list[onnx.NodeProto] = []
    inputs: dict[str, Array] = {}
    outputs: list[onnx.ValueInfoProto] = []
    constants: list[onnx.TensorProto] = []
    for name, form in forms.items():
        operands: list[str] = []
        for number, array in enumerate((*form.operands, *form.constants)):
            if array is None:
                operands.append("")
                continue
            operands.append(f"{name}_x{number}")
            if number >= len(form.operands):
                constants.append(numpy_helper.from_array(np.asarray(array), operands[-1]))
            elif array.dtype == np.bool_:  # truths come as numbers
                inputs[f"{name}_n{number}"] = array.astype(np.float32)
                constants.append(numpy_helper.from_array(np.float32(0.5).reshape(()), f"{name}_half{number}"))
                compared = [f"{name}_n{number}", f"{name}_half{number}"]
                nodes.append(helper.make_node("Greater", compared, operands[-1:], f"{name}_truth{number}"))
            else:
                inputs[operands[-1]] = array
        results = [f"{name}_y{number}" for number in range(form.results)]
        nodes.append(helper.make_node(form.op, operands, results, name, **form.attributes))
        ends = [f"{name}_z{number}" for number in range(form.results)]
        for result, end in zip(results, ends, strict=True):
            nodes.append(helper.make_node("Cast", [result], [end], f"{end}_cast", to=TensorProto.FLOAT))
        outputs += [helper.make_tensor_value_info(end, TensorProto.FLOAT, None) for end in ends]
    given = [helper.make_tensor_value_info(name, TensorProto.FLOAT, array.shape) for name, array in inputs.items()]
    graph = helper.make_graph(nodes, "forms", given, outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8), inputs
