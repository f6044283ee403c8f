"""Random quantized networks of one to three ops whose scales clip, as percentile calibration leaves them.

Each case is a chain of its own in one network; a chain is judged op by op with the operands that the chip computed.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from tests.frontends.quantized.networks import Array, session_options

OPSET = 21
_STEPS = {"uint8": 255, "int8": 255, "int16": 65535}
_SIGNS = ("uint8", "int8", "uint8 from 0", "int8 around 0")
"""Of stored values whose types are mixed."""
_WEIGHT_ZEROS = (0, 1, 60, 100, 127, 128, 128, 129, 200, 255)
_BEFORE_RELU = ("Conv", "ConvTranspose", "Gemm", "Add", "BatchNormalization", "Concat")
_GATES = ("Add", "Sub", "Mul")
"""Ops that read a value beside an older one of the chain, such as a gate beside what it is computed from."""
_SHARE_OUTSIDE = (0.0, 0.0, 0.02, 0.1, 0.25)
"""Of values, below and above, that a scale leaves out."""


@dataclass
class Graph:
    """Nodes and constants in the making."""

    nodes: list[onnx.NodeProto] = field(default_factory=list[onnx.NodeProto])
    constants: list[onnx.TensorProto] = field(default_factory=list[onnx.TensorProto])

    def constant(self, name: str, array: Any) -> str:
        self.constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def do(self, op: str, inputs: Sequence[str], result: str, **attributes: Any) -> str:
        self.nodes.append(helper.make_node(op, list(inputs), [result], name=result, **attributes))
        return result

    def stored(self, value: str, scale: float, zero: Any) -> str:
        """The value through integers, called `<value>_q`."""
        parameters = [self.constant(f"{value}_scale", np.float32(scale)), self.constant(f"{value}_zero", zero)]
        whole = self.do("QuantizeLinear", [value, *parameters], f"{value}_q")
        return self.do("DequantizeLinear", [whole, *parameters], f"{value}_dq")

    def weight(self, name: str, array: Array, axis: int | None, kind: str) -> str:
        """A constant as its integers, with scales along `axis`. Unsigned ones have zero points anywhere, which leave
        out what is below or above.
        """
        others = tuple(index for index in range(array.ndim) if index != axis)
        largest = np.abs(array).max(others if axis is not None else None).astype(np.float32)
        scale = np.maximum(largest, np.float32(1e-4)) / 127
        shape = [1] * array.ndim
        if axis is not None:
            shape[axis] = -1
        whole, zero = np.rint(array / scale.reshape(shape)).clip(-127, 127), np.zeros(scale.shape, np.int8)
        if kind == "uint8":
            own = np.random.default_rng(zlib.crc32(array.tobytes()))
            zero = own.choice(_WEIGHT_ZEROS, scale.shape).astype(np.uint8)
            whole = (whole + zero.reshape(shape)).clip(0, 255)
        whole = whole.astype(kind)
        parameters = [self.constant(f"{name}_scale", scale), self.constant(f"{name}_zero", zero)]
        integers = self.constant(f"{name}_i", whole)
        attributes = {} if axis is None else {"axis": axis}
        return self.do("DequantizeLinear", [integers, *parameters], name, **attributes)

    def model(self, inputs: Mapping[str, Sequence[int]], outputs: Mapping[str, Sequence[int]]) -> onnx.ModelProto:
        def declared(values: Mapping[str, Sequence[int]]) -> list[onnx.ValueInfoProto]:
            return [helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name, dims in values.items()]

        graph = helper.make_graph(self.nodes, "clipping", declared(inputs), declared(outputs), self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)


def runtime(model: onnx.ModelProto, given: Mapping[str, Array]) -> dict[str, Array]:
    """What ONNX Runtime computes in floats between the casts."""
    session = onnxruntime.InferenceSession(model.SerializeToString(), session_options(plain=True))
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, map(np.asarray, session.run(names, dict(given))), strict=True))


@dataclass(frozen=True)
class Draw:
    """One op being written: its operands' shapes, where its constants go, and the choices."""

    graph: Graph
    name: str
    rng: np.random.Generator
    dims: tuple[int, ...]
    weights: str
    per_channel: bool

    def pick(self, *choices: Any) -> Any:
        return choices[int(self.rng.integers(len(choices)))]

    def array(self, *dims: int) -> Array:
        return self.rng.normal(0, 1, dims).astype(np.float32)

    def weight(self, suffix: str, array: Array, axis: int | None = None, kind: str | None = None) -> str:
        along = axis if self.per_channel else None
        return self.graph.weight(f"{self.name}_{suffix}", array, along, kind or self.weights)

    def integers(self, suffix: str, values: Sequence[int]) -> str:
        return self.graph.constant(f"{self.name}_{suffix}", np.array(values, np.int64))

    def do(self, op: str, operands: Sequence[str], **attributes: Any) -> str:
        return self.graph.do(op, operands, self.name, **attributes)

    @property
    def axis(self) -> int:
        """Any dimension but the batch."""
        return int(self.rng.integers(1, len(self.dims)))


Maker: TypeAlias = Callable[[Draw, Sequence[str]], "str | None"]
"""Writes an op on operands of one shape; None where it takes no such shape."""


def _conv(draw: Draw, x: Sequence[str]) -> str | None:
    if len(draw.dims) not in (3, 4):
        return None
    channels, rank = draw.dims[1], len(draw.dims) - 2
    groups = draw.pick(*(number for number in (1, 1, 2, channels) if channels % number == 0))
    kernel = draw.pick(1, 3) if min(draw.dims[2:]) > 2 else 1
    outputs = groups * draw.pick(1, 3)
    filters = draw.array(outputs, channels // groups, *(kernel,) * rank)
    operands = [x[0], draw.weight("w", filters, 0), *_bias(draw, outputs)]
    pads = [draw.pick(0, 1) if kernel > 1 else 0] * 2 * rank
    return draw.do("Conv", operands, group=groups, pads=pads, strides=[draw.pick(1, 2)] * rank)


def _deconv(draw: Draw, x: Sequence[str]) -> str | None:
    if len(draw.dims) != 4:
        return None
    channels = draw.dims[1]
    groups = draw.pick(*(number for number in (1, 2, channels) if channels % number == 0))
    per_group, kernel, stride = draw.pick(1, 2, 3), draw.pick(2, 3, 4), draw.pick(1, 2, 3)
    filters = draw.array(channels, per_group, kernel, kernel)
    operands = [x[0], draw.weight("w", filters, 1), *_bias(draw, groups * per_group)]
    pads = [draw.pick(0, 1)] * 4 if kernel > 2 else [0] * 4
    more = {"output_padding": [1, 1]} if stride > 1 and draw.pick(False, True) else {}
    return draw.do("ConvTranspose", operands, group=groups, pads=pads, strides=[stride, stride], **more)


def _bias(draw: Draw, count: int) -> list[str]:
    return [draw.graph.constant(f"{draw.name}_b", draw.array(count))] if draw.pick(False, True) else []


def _gemm(draw: Draw, x: Sequence[str]) -> str | None:
    if len(draw.dims) != 2:
        return None
    turned, columns = draw.pick(0, 1), draw.pick(3, 5)
    depth = draw.dims[1]
    filters = draw.array(*((columns, depth) if turned else (depth, columns)))
    operands = [x[0], draw.weight("w", filters, 0 if turned else 1), *_bias(draw, columns)]
    return draw.do("Gemm", operands, transB=turned)


def _matmul(draw: Draw, x: Sequence[str]) -> str:
    return draw.do("MatMul", [x[0], draw.weight("w", draw.array(draw.dims[-1], draw.pick(3, 5)), 1)])


def _products(draw: Draw, x: Sequence[str]) -> str | None:
    if len(x) < 2 or len(draw.dims) < 3:
        return None
    order = [*range(len(draw.dims) - 2), len(draw.dims) - 1, len(draw.dims) - 2]
    turned = draw.graph.do("Transpose", [x[1]], f"{draw.name}_turned", perm=order)
    return draw.do("MatMul", [x[0], turned])


def _pair(op: str) -> Maker:
    def make(draw: Draw, x: Sequence[str]) -> str | None:
        return draw.do(op, x[:2]) if len(x) > 1 else None

    return make


def _with_constant(op: str) -> Maker:
    def make(draw: Draw, x: Sequence[str]) -> str:
        rows = [1] * len(draw.dims)
        rows[1] = draw.dims[1]
        array = draw.array(*draw.pick((), tuple(rows), draw.dims))
        array = np.abs(array) + np.float32(0.3) if op == "Div" else array
        constant = draw.graph.constant(f"{draw.name}_k", array)
        if draw.pick(False, True) and array.ndim:
            constant = draw.weight("k_stored", array, kind="int8" if op == "Div" else None)  # nothing is cut to 0
        return draw.do(op, [x[0], constant])

    return make


def _concat(draw: Draw, x: Sequence[str]) -> str:
    more = [draw.graph.constant(f"{draw.name}_k", draw.array(*draw.dims))] if draw.pick(False, False, True) else []
    return draw.do("Concat", [*x, *more], axis=draw.axis)


def _plain(op: str, **attributes: Any) -> Maker:
    def make(draw: Draw, x: Sequence[str]) -> str:
        return draw.do(op, x[:1], **attributes)

    return make


def _prelu(draw: Draw, x: Sequence[str]) -> str:
    dims = (draw.dims[1], *(1,) * (len(draw.dims) - 2))
    return draw.do("PRelu", [x[0], draw.graph.constant(f"{draw.name}_s", np.abs(draw.array(*dims)))])


def _clip(draw: Draw, x: Sequence[str]) -> str:
    bounds = [draw.graph.constant(f"{draw.name}_{name}", np.float32(value)) for name, value in (("l", -0.7), ("h", 1))]
    return draw.do("Clip", [x[0], *bounds])


def _norm(draw: Draw, x: Sequence[str]) -> str:
    channels = draw.dims[1]
    values = [draw.array(channels), draw.array(channels), draw.array(channels), np.abs(draw.array(channels)) + 1]
    constants = [draw.graph.constant(f"{draw.name}_n{index}", array) for index, array in enumerate(values)]
    return draw.do("BatchNormalization", [x[0], *constants])


def _pool(op: str) -> Maker:
    def make(draw: Draw, x: Sequence[str]) -> str | None:
        if len(draw.dims) != 4 or min(draw.dims[2:]) < 3:
            return None
        return draw.do(op, x[:1], kernel_shape=[2, 3], strides=[draw.pick(1, 2)] * 2, pads=[draw.pick(0, 1)] * 4)

    return make


def _global_pool(op: str) -> Maker:
    def make(draw: Draw, x: Sequence[str]) -> str | None:
        return draw.do(op, x[:1]) if len(draw.dims) == 4 else None

    return make


def _reduce(op: str) -> Maker:
    def make(draw: Draw, x: Sequence[str]) -> str:
        axes = draw.integers("axes", sorted({draw.axis, draw.axis}))
        return draw.do(op, [x[0], axes], keepdims=1)

    return make


def _number(draw: Draw, x: Sequence[str]) -> str:
    return draw.do(draw.pick("ReduceMean", "ReduceMax", "ReduceSum"), x[:1], keepdims=0)


def _resize(draw: Draw, x: Sequence[str]) -> str | None:
    if len(draw.dims) != 4:
        return None
    scales = draw.graph.constant(f"{draw.name}_f", np.array([1, 1, 2, 2], np.float32))
    if draw.pick(False, True):
        kind = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    else:
        kind = {"mode": "linear", "coordinate_transformation_mode": draw.pick("half_pixel", "asymmetric")}
    return draw.do("Resize", [x[0], "", scales], **kind)


def _resample(draw: Draw, x: Sequence[str]) -> str | None:
    """To any extents: up, down, or one and the other."""
    if len(draw.dims) != 4:
        return None
    sizes = draw.integers("sizes", [*draw.dims[:2], *(int(draw.rng.integers(1, 3 * one)) for one in draw.dims[2:])])
    kind = {"coordinate_transformation_mode": draw.pick("half_pixel", "asymmetric", "align_corners")}
    if draw.pick(False, False, True):
        kind |= {"mode": "nearest", "nearest_mode": draw.pick("floor", "round_prefer_floor", "ceil")}
    else:
        kind["mode"] = "linear"
    return draw.do("Resize", [x[0], "", "", sizes], **kind)


def _transpose(draw: Draw, x: Sequence[str]) -> str:
    return draw.do("Transpose", x[:1], perm=[0, *(int(axis) + 1 for axis in draw.rng.permutation(len(draw.dims) - 1))])


def _reshape(draw: Draw, x: Sequence[str]) -> str:
    return draw.do("Reshape", [x[0], draw.integers("shape", [draw.dims[0], -1])])


def _unsqueeze(draw: Draw, x: Sequence[str]) -> str | None:
    return draw.do("Unsqueeze", [x[0], draw.integers("axes", [1])]) if len(draw.dims) < 5 else None


def _slice(draw: Draw, x: Sequence[str]) -> str:
    parts = [draw.integers(name, [value]) for name, value in (("from", 0), ("to", 2), ("axes", draw.axis))]
    return draw.do("Slice", [x[0], *parts])


def _pad(draw: Draw, x: Sequence[str]) -> str:
    ends = [0] + [1] * (len(draw.dims) - 1)
    return draw.do("Pad", [x[0], draw.integers("pads", [0] * len(draw.dims) + ends)])


def _gather(draw: Draw, x: Sequence[str]) -> str:
    axis = draw.axis
    return draw.do("Gather", [x[0], draw.integers("places", [draw.dims[axis] - 1, 0])], axis=axis)


MAKERS: Mapping[str, Maker] = {
    "Conv": _conv,
    "ConvTranspose": _deconv,
    "Gemm": _gemm,
    "MatMul": _matmul,
    "MatMul of two": _products,
    **{op: _pair(op) for op in ("Add", "Sub", "Mul", "Max", "Min")},
    **{f"{op} constant": _with_constant(op) for op in ("Add", "Sub", "Mul", "Div")},
    "Concat": _concat,
    **{op: _plain(op) for op in ("Relu", "LeakyRelu", "Sigmoid", "Tanh", "HardSwish", "HardSigmoid", "Abs", "Elu")},
    "Softmax": _plain("Softmax", axis=-1),
    "PRelu": _prelu,
    "Clip": _clip,
    "BatchNormalization": _norm,
    **{op: _pool(op) for op in ("MaxPool", "AveragePool")},
    **{op: _global_pool(op) for op in ("GlobalAveragePool", "GlobalMaxPool")},
    **{op: _reduce(op) for op in ("ReduceMean", "ReduceMax", "ReduceMin", "ReduceSum")},
    "Reduce to a number": _number,
    "Resize": _resize,
    "Resize to any extents": _resample,
    "Transpose": _transpose,
    "Reshape": _reshape,
    "Unsqueeze": _unsqueeze,
    "Slice": _slice,
    "Pad": _pad,
    "Gather": _gather,
}

_SHAPES = ((2, 12), (2, 5, 6), (1, 4, 5, 6), (2, 6, 4, 4), (1, 2, 3, 4, 3))


@dataclass(frozen=True)
class Stored:
    """A value of a chain that goes through integers; `operands` are the real values that its op reads. `step` is what
    differences count in: the scale, of 16 bits a 255th of the range, since chips compute these in floats.
    """

    name: str
    op: str
    operands: tuple[str, ...]
    step: float
    dims: tuple[int, ...]

    @property
    def is_input(self) -> bool:
        return self.op == "input"


@dataclass
class Cases:
    """Chains of one network: `graph` is the network, `inputs` are its arrays, `values` its stored values."""

    graph: Graph
    inputs: dict[str, Array]
    values: list[Stored]
    outputs: dict[str, Sequence[int]]
    ops: list[str]

    def model(self) -> onnx.ModelProto:
        return self.graph.model({name: x.shape for name, x in self.inputs.items()}, self.outputs)

    def wanted(self, real: Mapping[str, Array]) -> dict[str, Array]:
        """What ONNX Runtime makes of every stored value's operands, given as `real`."""
        given = {operand for value in self.values for operand in value.operands if operand in real}
        cut = Graph([one for one in self.graph.nodes if one.output[0] not in given], self.graph.constants)
        dims = {name: array.shape for name, array in real.items() if name in given}
        model = cut.model(dims, {})
        model.graph.output.extend(onnx.ValueInfoProto(name=f"{value.name}_read") for value in self.values)
        for value in self.values:  # results that others read have another name, since those read what is given
            parameters = [f"{value.name}_q", f"{value.name}_scale", f"{value.name}_zero"]
            model.graph.node.append(helper.make_node("DequantizeLinear", parameters, [f"{value.name}_read"]))
        results = runtime(model, {name: array for name, array in real.items() if name in given})
        return {value.name: results[f"{value.name}_read"] for value in self.values}


def _meet(left: Sequence[int], right: Sequence[int]) -> bool:
    """True for extents of one number of dimensions that differ only where one of them is 1."""
    return len(left) == len(right) and all(1 in (a, b) or a == b for a, b in zip(left, right, strict=True))


def draw_cases(
    seed: int, count: int, ops: Sequence[str] = tuple(MAKERS), longest: int = 3, *, mixed: bool = False
) -> Cases:
    """So many chains that begin with a stored input each, or two. Every value has the type of its chain, or bytes with
    or without a sign of its own where types are `mixed`.
    """
    rng = np.random.default_rng(seed)
    cases = Cases(Graph(), {}, [], {}, [])
    signs = np.random.default_rng(seed) if mixed else None
    while len(cases.ops) < count:
        _draw_chain(cases, f"v{len(cases.ops)}", rng, ops, longest, signs)
    return cases


def _draw_chain(
    cases: Cases,
    prefix: str,
    rng: np.random.Generator,
    ops: Sequence[str],
    longest: int,
    signs: np.random.Generator | None,
) -> None:
    graph, values, arrays = Graph(), list[Stored](), dict[str, Array]()
    dims = _SHAPES[int(rng.integers(len(_SHAPES)))]
    kinds = ("uint8", "int8", "int8", "uint8") if rng.random() < 0.94 else ("int16",)
    kind = str(rng.choice(kinds))

    def kind_of() -> str:
        return kind if signs is None or kind == "int16" else str(signs.choice(_SIGNS))

    inputs: dict[str, Array] = {}
    reads: list[str] = []
    for index in range(int(rng.integers(1, 3))):
        name = f"{prefix}x{index}"
        inputs[name] = arrays[name] = rng.normal(rng.uniform(-0.5, 0.5), rng.uniform(0.3, 3), dims).astype(np.float32)
        reads.append(_stored(graph, name, "input", (name,), arrays[name], rng, kind_of(), values))
    written: list[str] = []
    older: dict[str, tuple[int, ...]] = dict.fromkeys(reads, dims) if signs is not None else {}
    wanted = int(rng.integers(1, longest + 1))
    for _ in range(20):
        op = str(rng.choice(list(ops)))
        name = f"{prefix}y{len(written)}"
        trial = Graph()
        draw = Draw(trial, name, rng, dims, str(rng.choice(["int8", "int8", "uint8"])), bool(rng.integers(2)))
        taken = reads
        if op in _GATES and written:
            taken = [reads[0], *(one for one, extents in older.items() if one != reads[0] and _meet(dims, extents))]
        if MAKERS[op](draw, taken) is None:
            continue
        if rng.random() < 0.3 and (op in _BEFORE_RELU or signs is not None):
            name = trial.do("Relu", [name], f"{name}r")
        graph.nodes += trial.nodes
        graph.constants += trial.constants
        model = graph.model({key: x.shape for key, x in inputs.items()}, {})
        model.graph.output.append(onnx.ValueInfoProto(name=name))
        array = runtime(model, inputs)[name]
        result = _stored(graph, name, op, tuple(taken), array, rng, kind_of(), values)
        reads = [result, *(one for one, extents in older.items() if extents == array.shape)]
        older |= {result: array.shape} if signs is not None else {}
        written.append(op)
        dims = array.shape
        if len(written) == wanted or not dims:
            break
    else:
        return
    cases.graph.nodes += graph.nodes
    cases.graph.constants += graph.constants
    cases.inputs |= inputs
    cases.values += values
    cases.outputs[reads[0]] = dims
    cases.ops.append(f"{prefix}: {kind} {' > '.join(written)} on {values[0].dims}")


def _stored(
    graph: Graph,
    name: str,
    op: str,
    operands: tuple[str, ...],
    array: Array,
    rng: np.random.Generator,
    kind: str,
    values: list[Stored],
) -> str:
    """The value through integers of a range that may leave some of it out."""
    below, above = (float(rng.choice(_SHARE_OUTSIDE)) for _ in range(2))
    low, high = np.quantile(array, below), np.quantile(array, 1 - above)
    low, high = min(low, 0.0), max(high, 0.0)
    if rng.random() < 0.3 or high - low < 1e-3 or kind.endswith(" 0"):
        high = max(-low, high, float(np.abs(array).max()) / 4, 0.1)
        low = 0.0 if kind.endswith("from 0") else -high
    kind = kind.split(maxsplit=1)[0]
    scale = np.float32((high - low) / _STEPS[kind])
    dtype = np.dtype(kind)
    zero = np.rint(np.iinfo(dtype).min - low / scale).clip(np.iinfo(dtype).min, np.iinfo(dtype).max)
    if kind == "int16":
        zero = np.zeros(())
        scale = np.float32(max(-low, high) / 32767)
    values.append(Stored(name, op, operands, float(scale) * _STEPS[kind] / 255, array.shape))
    return graph.stored(name, float(scale), zero.astype(dtype))
