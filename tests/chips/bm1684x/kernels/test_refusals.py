"""Every limit of kernels and lowerings: what is just inside is taken, what is just outside refused by its sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tpuc.api import ABSENT, F32, ElementType, KernelChoice, LoweringNode, Node, ScalarType, TensorType, Unsupported
from tpuc_bm1684x.chip import DESCRIPTION
from tpuc_bm1684x.kernels import TABLE as KERNELS
from tpuc_bm1684x.lowerings import TABLE as LOWERINGS
from tpuc_legalize import TABLE as LEGALIZATIONS
from tpuc_ops.top.avg_pool import AvgPool
from tpuc_ops.top.conv import Conv
from tpuc_ops.top.deconv import Deconv as TopDeconv
from tpuc_ops.top.deform_conv2d import DeformConv2D
from tpuc_ops.top.det import Det
from tpuc_ops.top.einsum import Einsum
from tpuc_ops.top.grid_sampler import GridSampler
from tpuc_ops.top.gru import GRU
from tpuc_ops.top.interp import Interp
from tpuc_ops.top.max_pool_with_mask import MaxPoolWithMask
from tpuc_ops.top.normalize import Normalize
from tpuc_ops.top.pow import Pow
from tpuc_ops.top.prelu import PRelu as TopPRelu
from tpuc_ops.top.roi_align import RoiAlign
from tpuc_ops.top.scale import Scale
from tpuc_ops.top.sigmoid import Sigmoid
from tpuc_ops.top.softmax import Softmax as TopSoftmax
from tpuc_ops.tpu.active import Active
from tpuc_ops.tpu.add import Add
from tpuc_ops.tpu.add_const import AddConst
from tpuc_ops.tpu.cast import Cast
from tpuc_ops.tpu.concat import Concat
from tpuc_ops.tpu.conv2d import Conv2D
from tpuc_ops.tpu.deconv import Deconv
from tpuc_ops.tpu.div import Div
from tpuc_ops.tpu.leaky_relu import LeakyRelu
from tpuc_ops.tpu.lut import Lut
from tpuc_ops.tpu.matmul import MatMul
from tpuc_ops.tpu.max import Max
from tpuc_ops.tpu.mul import Mul
from tpuc_ops.tpu.pad import Pad
from tpuc_ops.tpu.pool2d import Pool2D
from tpuc_ops.tpu.prelu_op import PReluOp
from tpuc_ops.tpu.reduce import Reduce
from tpuc_ops.tpu.reshape import Reshape
from tpuc_ops.tpu.slice import Slice
from tpuc_ops.tpu.softmax import Softmax
from tpuc_testing import quantized_element
from tpuc_testing.kernel_conformance import Fixed, Sample, compile_kernels

from tests.chips.bm1684x.kernels import place_limits
from tests.chips.bm1684x.kernels.nodes import node, t, top
from tests.families import each

I8 = quantized_element("int8", 0.05)
POINT = quantized_element("int8", 0.05, 3)
F16 = ScalarType("f16")
I16 = ScalarType("i16")


def q(*dims: int) -> TensorType:
    return t(*dims, element=I8)


def conv(dims: Sequence[int] = (1, 4, 40, 40), element: ElementType = F32, **fields: Any) -> Node:
    shape = (fields.pop("channels", 4), dims[1] // fields.get("group", 1), *fields.get("kernel_shape", (1, 1)))
    filters = t(*shape, element=fields.pop("filter_element", F32))
    op = Conv2D(**{"kernel_shape": (1, 1), **fields})
    result = t(dims[0], filters.dims[0], 1, 1)
    return Node(op, (t(*dims, element=element), filters, ABSENT), (result,), "node")


def deconv(element: ElementType = F32, **fields: Any) -> Node:
    op = Deconv(**{"kernel_shape": (1, 1), **fields})
    x = t(1, 4, 8, 8, element=element)
    filters = t(4, 4, *op.kernel_shape)
    (result,) = op.infer((t(1, 4, 8, 8), filters, ABSENT)) or ()
    return Node(op, (x, filters, ABSENT), (result,), "node")


def pool(element: ElementType = F32, dims: Sequence[int] = (1, 4, 40, 40), **fields: Any) -> Node:
    op = Pool2D(**{"pool_mode": "Avg", "kernel_shape": (2, 2), "round_mode": "HalfUp", **fields})
    x = t(*dims, element=element)
    return node(op, [x], op.infer((x,))[0].with_element(element))


DEEP = (2, 2, 2, 3, 5)
HALF = t(2, 3, element=F16)
RESCALING = Concat(multipliers=(1, 1), rshifts=(0, 0))
WIDE = {"kernel_shape": (2, 20)}
TALL = {"pool_mode": "Max", "kernel_shape": (20, 1), "strides": (2, 1), "pads": (15, 0, 15, 0), "ceil_mode": True}
CEIL = {"strides": (2, 2), "ceil_mode": True}

KERNEL_LIMITS: list[tuple[Node, Node, str]] = [
    (conv(strides=(15, 1)), conv(strides=(16, 1)), "stride at most 15, this one is 16"),
    (conv(**WIDE, pads=(0, 15, 0, 0)), conv(**WIDE, pads=(0, 16, 0, 0)), "padding at most 15, this one is 16"),
    (conv(**WIDE, pads=(0, 0, 1, 0)), conv(**WIDE, pads=(0, 0, 2, 0)), "the window's own extent, this one is 2 for 2"),
    (pool(**TALL), pool(dims=(1, 4, 41, 40), **TALL), "padding at most 15, this one is 16"),
    (conv(dilations=(16, 1)), conv(dilations=(17, 1)), "dilation at most 16, this one is 17"),
    (conv(**WIDE, group=4, pads=(0, 15, 0, 0)), conv(**WIDE, group=4, pads=(0, 16, 0, 0)), "padding at most 15"),
    (conv(inserts=(0, 0)), conv(inserts=(1, 1)), "zeros between rows"),
    (conv(group=4, kernel_zp=0), conv(group=4, kernel_zp=2), "a depthwise filter with a zero point has no kernel"),
    (conv(multiplier=(1,), rshift=(1,)), conv(multiplier=(1,), rshift=(1,), quant_mode="QDM"), "MultiplierShift"),
    (
        conv(group=4),
        conv(element=F16, group=4, filter_element=F16),
        "a depthwise filter of floats must be f32, this one is f16",
    ),
    (deconv(dilations=(16, 1)), deconv(dilations=(17, 1)), "dilation at most 16, this one is 17"),
    (
        deconv(strides=(3, 3), kernel_shape=(3, 3)),
        deconv(strides=(3, 3), kernel_shape=(3, 2)),
        "a window of at least the stride, this one is 2 for 3",
    ),
    (deconv(kernel_shape=(16, 1)), deconv(kernel_shape=(17, 1)), "a window of at most 16 places, this one has 17"),
    (
        deconv(strides=(2, 2), kernel_shape=(3, 3), pads=(1, 1, 1, 1), output_padding=(1, 1)),
        deconv(strides=(2, 2), kernel_shape=(3, 3), output_padding=(1, 1)),
        "at least the output padding",
    ),
    (deconv(element=I8), deconv(element=POINT), "zero points must be 0, this one is 3"),
    (
        deconv(multiplier=(1,), rshift=(1,)),
        deconv(multiplier=(1,), rshift=(1,), quant_mode="QDM"),
        "only quant_mode MultiplierShift",
    ),
    (
        node(Max(), [t(2, 3)] * 2),
        node(Max(), [t(2, 3)] * 2, t(2, 3, element=F16)),
        "operands and result of one type",
    ),
    (
        node(MatMul(), [t(2, 1, 2, 3), t(1, 1, 3, 4)]),
        node(MatMul(), [t(2, 1, 2, 3), t(1, 3, 3, 4)]),
        "both operands must have the same number of matrices",
    ),
    (
        node(MatMul(), [t(2, 2, 3), t(2, 3, 4), ABSENT]),
        node(MatMul(), [t(2, 2, 3), t(2, 3, 4), t(4)]),
        "takes no bias",
    ),
    (
        node(MatMul(multipliers=(1,), rshifts=(1,)), [q(2, 2, 3), q(2, 3, 4)], q(2, 2, 4)),
        node(MatMul(multipliers=(1, 1), rshifts=(1, 1)), [q(2, 2, 3), q(2, 3, 4)], q(2, 2, 4)),
        "one multiplier for all columns",
    ),
    (
        node(MatMul(), [t(2, 65535, 3), t(2, 3, 4)]),
        node(MatMul(), [t(2, 65536, 3), t(2, 3, 4)]),
        "at most 65535 matrices, rows and columns",
    ),
    (
        node(MatMul(), [t(2, 2, 3, element=F16), t(2, 3, 4, element=F16)]),
        node(MatMul(), [t(2, 2, 3, element=F16), t(2, 3, 4)]),
        "one float type, these are f16 and f32",
    ),
    (
        node(MatMul(multipliers=(1,), rshifts=(1,)), [q(2, 2, 3), q(2, 3, 4)], q(2, 2, 4)),
        node(MatMul(), [t(2, 2, 3, element=I16), t(2, 3, 4, element=I16)]),
        "8-bit integers or of one float type, these are i16 and i16",
    ),
    (node(MatMul(), [t(3, 3), t(3, 4)]), node(MatMul(left_transpose=True), [t(3, 3), t(3, 4)]), "left_transpose"),
    (node(Add(), [t(2, 3)] * 2), node(Add(), [t(2, 3)] * 3), "two operands, this one has 3"),
    (node(Add(coeff=(1.0, 1.0)), [t(2, 3)] * 2), node(Add(coeff=(1.0, 2.0)), [t(2, 3)] * 2), "coefficients other"),
    (
        node(Add(multipliers=(1, 1), rshifts=(1, 1)), [q(2, 3)] * 2, q(2, 3)),
        node(Add(multipliers=(1, 1), rshifts=(1, 1, 1, 1)), [q(2, 3)] * 2, q(2, 3)),
        "one shift, one per operand, or one more; there are 4",
    ),
    (
        node(Add(multipliers=(1, 1), rshifts=(1,)), [q(2, 3), t(2, 3, element=POINT)], q(2, 3)),
        node(Add(multipliers=(1, 1), rshifts=(1, 1)), [q(2, 3), t(2, 3, element=POINT)], q(2, 3)),
        "with a shift per operand zero points must be 0, this one is 3",
    ),
    (node(Mul(), [q(2, 3)] * 2, q(2, 3)), node(Mul(quant_mode="QDM"), [q(2, 3)] * 2, q(2, 3)), "this one is QDM"),
    (
        node(Mul(), [t(*DEEP), t(3, 1)]),
        node(Mul(), [t(2, 3, 4, 5, 6), t(2, 1, 4, 1, 6)]),
        "alternate in more than four runs",
    ),
    (node(Mul(), [t(2, 3)] * 2), node(Mul(), [t(2, 3), ABSENT], t(2, 3)), "an absent operand"),
    (node(Div(), [t(2, 3)] * 2), node(Div(), [t(2, 3, element=F16)] * 2), "only f32, this one is f16"),
    (
        node(AddConst(const_val=2.0**30 - 1), [q(2, 3)], q(2, 3)),
        node(AddConst(const_val=2.0**30), [q(2, 3)], q(2, 3)),
        "a constant below 2**30",
    ),
    (
        node(LeakyRelu(multiplier_neg=1), [q(2, 3)], q(2, 3)),
        node(LeakyRelu(multiplier=1), [q(2, 3)], q(2, 3)),
        "integers need multiplier_neg; use tpu.Lut",
    ),
    (
        node(LeakyRelu(multiplier_neg=1), [q(2, 3)], q(2, 3)),
        node(LeakyRelu(multiplier_neg=1), [t(2, 3, element=POINT)], q(2, 3)),
        "only signed integers without zero points; use tpu.Lut",
    ),
    (
        node(PReluOp(), [t(2, 3, 4), t(1, 3, 1)]),
        node(PReluOp(), [t(2, 3, 4), t(1, 1, 4)]),
        "one slope per channel, there are 4",
    ),
    (node(Cast(), [t(2, 3)], q(2, 3)), node(Cast(), [q(2, 3)], t(2, 3, element=POINT)), "must be a float, both are"),
    (
        node(Lut(), [q(2, 3), t(256)]),
        node(Lut(), [q(2, 3), t(256, element=ScalarType("f64"))], t(2, 3)),
        "at most 32 bits, these have 64",
    ),
    (node(Active(mode="EXP"), [t(2, 3)]), node(Active(mode="RELU"), [t(2, 3)]), "mode RELU has no kernel"),
    (node(Active(mode="EXP"), [t(2, 3)]), node(Active(mode="EXP"), [t(2, 3)], HALF), "operand and result of one type"),
    (node(Softmax(), [t(2, 65535)]), node(Softmax(), [t(2, 65536)]), "at most 65535 values along the axis"),
    (node(Softmax(), [t(2, 3)]), node(Softmax(log=True), [t(2, 3)]), "log softmax"),
    (node(Softmax(), [t(2, 3)]), node(Softmax(), [q(2, 3)]), "only f32, this one is i8"),
    (node(Concat(), [q(2, 3)] * 2), node(RESCALING, [q(2, 3)] * 2, q(2, 6)), "these have multipliers"),
    (node(Concat(), [t(2, 3)] * 2), node(Concat(do_relu=True), [t(2, 3)] * 2), "a relu has no kernel here"),
    (node(Pad(paddings=(1, 0)), [t(9)]), node(Pad(paddings=(1, 0), mode="edge"), [t(9)]), "only mode constant"),
    (
        node(Slice(offset=(-1,), steps=(-1,), ends=(-2000,)), [t(1024)]),
        node(Slice(offset=(-1,), steps=(-1,), ends=(-2000,)), [t(1025)]),
        "at most 1024 copies, this one needs 1025",
    ),
    (
        node(Reduce(axes=(1,), mode="ReduceProd"), [t(2, 8192)]),
        node(Reduce(axes=(1,), mode="ReduceProd"), [t(2, 8193)]),
        "at most 8192 factors, there are 8193",
    ),
    (
        node(Reduce(axes=(1, 2), mode="ReduceSum"), [t(2, 3, 4, 5)]),
        node(Reduce(axes=(1, 3), mode="ReduceSum"), [t(2, 3, 4, 5)]),
        "axes must be adjacent, these are 1, 3",
    ),
    (
        node(Reduce(axes=(1,), mode="ReduceSum"), [t(2, 65535)]),
        node(Reduce(axes=(1,), mode="ReduceSum"), [t(2, 65536)]),
        "at most 65535 values along the axes, there are 65536",
    ),
    (
        pool(dims=(1, 1, 65535, 1), kernel_shape=(65535, 1)),
        pool(dims=(1, 1, 65536, 1), kernel_shape=(65536, 1)),
        "a window of at most 65535, this one is 65536",
    ),
    (pool(count_include_pad=True, pads=(1, 1, 1, 1)), pool(pads=(1, 1, 1, 1)), "does not count padding"),
    (pool(**CEIL), pool(dims=(1, 4, 41, 40), **CEIL), "an average that does not count padding"),
    (pool(), pool(pad_value=1), "padding must be 0, this one is 1"),
    (pool(I8), pool(I8, round_mode="HalfToEven"), "HalfUp, this one asks for HalfToEven"),
    (pool(POINT, scale=1.0), pool(POINT), "zero points must be 0"),
]  # fmt: skip


KERNEL_LIMITS += place_limits.KERNEL_LIMITS


@each(("taken", "refused", "sentence"), KERNEL_LIMITS, ids=[limit[2] for limit in KERNEL_LIMITS])
def test_kernels_refuse_what_is_beyond_their_limits(taken: Node, refused: Node, sentence: str) -> None:
    cell = KERNELS.cells[taken.op.name]
    reasons = [
        (cell.kernel(node) if isinstance(cell, KernelChoice) else cell).refuse(node) for node in (taken, refused)
    ]
    assert reasons[0] is None
    reason = reasons[1]
    assert reason is not None
    assert sentence in reason
    assert not reason.endswith(".")


def w(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


def recurrent(steps: int, hidden: int = 8) -> LoweringNode:
    return top(GRU(hidden_size=hidden), (steps, 1, 4), w(1, 3 * hidden, 4), w(1, 3 * hidden, hidden))


X = (1, 4, 8, 8)
INTERP = Interp(mode="linear", coord_mode="half_pixel")
POOL_PLACES = MaxPoolWithMask(kernel_shape=(8, 8), strides=(1, 1))
REGIONS = RoiAlign(output_height=2, output_width=2, sampling_ratio=1)
DEFORMED = DeformConv2D(kernel_shape=(1, 1))
WINDOW = {"strides": (1, 1), "pads": (0, 0, 0, 0), "dilations": (1, 1)}

LOWERING_LIMITS: list[tuple[LoweringNode, LoweringNode, str]] = [
    (top(Sigmoid(log=True), X), top(Sigmoid(scale=2.0), X), "no kernel computes it with these attributes"),
    (top(TopPRelu(), X, w(4, 1, 1)), top(TopPRelu(), X, X), "the slope must be a constant"),
    (
        top(TopPRelu(), X, w(4, 1, 1)),
        top(TopPRelu(), X, w(8)),
        "one slope, or one per channel; there are 8 for 4 channels",
    ),
    (
        top(Conv(kernel_shape=(1, 1), **WINDOW), X, w(4, 4, 1, 1)),
        top(Conv(kernel_shape=(1, 1), **WINDOW), X, X),
        "the filter must be a constant",
    ),
    (
        top(Conv(kernel_shape=(16, 16), strides=(16, 16)), (1, 4, 40, 40), w(4, 4, 16, 16)),
        top(Conv(kernel_shape=(17, 16), strides=(16, 16)), (1, 4, 40, 40), w(4, 4, 17, 16)),
        "at most 256 taps with strides or dilations above 15, there are 272",
    ),
    (
        top(Conv(kernel_shape=(1, 1), **WINDOW), X, w(4, 4, 1, 1)),
        top(Conv(kernel_shape=(1, 1, 1)), (1, 4, 8, 8, 8), w(4, 4, 1, 1, 1)),
        "only 2-D windows, this one has 3 dimensions",
    ),
    (
        top(TopDeconv(kernel_shape=(1, 1)), X, w(4, 4, 1, 1)),
        top(TopDeconv(kernel_shape=(1, 1)), X, X),
        "the filter must be a constant",
    ),
    (
        top(TopDeconv(kernel_shape=(1, 1)), X, w(4, 4, 1, 1)),
        top(TopDeconv(kernel_shape=(1, 1, 1)), (1, 4, 8, 8, 8), w(4, 4, 1, 1, 1)),
        "only 2-D windows, this one has 3 dimensions",
    ),
    (top(Pow(exponent=0.5), X), top(Pow(exponent=3.0), X), "exponents 2.0, 0.5, -0.5, this one is 3"),
    (top(TopSoftmax(), X), top(TopSoftmax(log=True), X), "log softmax has no kernel"),
    (top(INTERP, X), top(INTERP, (1, 4, 8)), "only images of 4 dimensions, this one has 3"),
    (
        top(AvgPool(kernel_shape=(16, 3), strides=(16, 3)), (1, 4, 40, 40)),
        top(AvgPool(kernel_shape=(17, 3), strides=(16, 3)), (1, 4, 40, 40)),
        "a stride above 15 needs windows that do not overlap, without padding",
    ),
    (
        top(AvgPool(kernel_shape=(2, 2)), X),
        top(AvgPool(kernel_shape=(2, 2, 2)), (1, 4, 8, 8, 8)),
        "only 2-D windows, this one has 3 dimensions",
    ),
    (recurrent(1000), recurrent(1001), "at most 1000 steps, this one has 1001"),
    (recurrent(9, 1024), recurrent(9, 1025), "a recurrence of at most 196608 bytes per lane, this one has 209100"),
    (
        recurrent(9),
        top(GRU(hidden_size=8), (9, 1, 4), (1, 24, 4), w(1, 24, 8)),
        "filter and recurrence must be constants",
    ),
]  # fmt: skip


LEGALIZATION_LIMITS: list[tuple[LoweringNode, LoweringNode, str]] = [
    (top(Scale(), X, w(4)), top(Scale(), X, (4,)), "the scale must be a constant"),
    (top(TopPRelu(), X, w(1)), top(TopPRelu(), X, X), "the slope must be a constant"),
    (top(Normalize(), X, w(1)), top(Normalize(), X, (1,)), "the scale must be a constant"),
    (top(Einsum(mode="ij,jk->ik"), (3, 4), (4, 5)), top(Einsum(mode="ii->i"), (3, 3)), "computes the diagonal"),
    (top(Det(), (2, 5, 5)), top(Det(), (2, 6, 6)), "matrices of at most 5 rows, these have 6"),
    (top(GridSampler(), X, (1, 2, 2, 2)), top(GridSampler(), X, w(1, 2, 2, 2)), "images and grid must be computed"),
    (top(POOL_PLACES, X), top(replace(POOL_PLACES, kernel_shape=(13, 5)), X), "at most 64 taps, this window has 65"),
    (top(REGIONS, X, (1, 5)), top(replace(REGIONS, mode="Max"), X, (1, 5)), "only mode Avg, this one is Max"),
    (top(REGIONS, X, (1, 5)), top(replace(REGIONS, sampling_ratio=0), X, (1, 5)), "a sampling_ratio of at least 1"),
    (top(DEFORMED, X, w(4, 4, 1, 1), (1, 2, 8, 8)), top(DEFORMED, X, X, (1, 2, 8, 8)), "the filter must be a constant"),
]  # fmt: skip


LOWERING_LIMITS += place_limits.LOWERING_LIMITS


@each(("taken", "refused", "sentence"), LOWERING_LIMITS, ids=[limit[2] for limit in LOWERING_LIMITS])
def test_lowerings_refuse_what_is_beyond_their_limits(
    taken: LoweringNode, refused: LoweringNode, sentence: str
) -> None:
    cells, mode = LOWERINGS.cells, taken.mode
    refuses(cells.get((taken.op.name, mode)) or cells[taken.op.op_kind, mode], taken, refused, sentence)


@each(("taken", "refused", "sentence"), LEGALIZATION_LIMITS, ids=[limit[2] for limit in LEGALIZATION_LIMITS])
def test_legalizations_refuse_what_is_beyond_their_limits(
    taken: LoweringNode, refused: LoweringNode, sentence: str
) -> None:
    nodes = (replace(node, chip=DESCRIPTION) for node in (taken, refused))
    refuses(LEGALIZATIONS.cells[taken.op.name], *nodes, sentence)


def refuses(cell: Any, taken: LoweringNode, refused: LoweringNode, sentence: str) -> None:
    assert cell.refuse(taken) is None
    reason = cell.refuse(refused)
    assert reason is not None
    assert sentence in reason
    assert not reason.endswith(".")


def test_a_reshaped_constant_has_no_place() -> None:
    constant = Fixed(np.ones((2, 6), np.float32))
    sample = Sample(Reshape(shape=(3, 4)), [constant])
    with pytest.raises(Unsupported, match=r"tpu\.Reshape of the constant '.*', which is not copied; fold it"):
        compile_kernels({"y": sample}, "bm1684x")
