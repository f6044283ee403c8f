"""Kernels by themselves: instructions compute what the TPU op says, under the chosen and under forced tilings."""

from __future__ import annotations

from typing import Any

import pytest
from numpy.typing import NDArray
from tpuc.api import ABSENT, BF16, F32, ElementType, LmemOverflow, Node, Op, ScalarType, TensorType, Uniform
from tpuc.registry import Registry
from tpuc_cv183x.kernels import TABLE
from tpuc_ops import tpu
from tpuc_testing import quantized_element
from tpuc_testing.kernel_conformance import Sample, compile_kernels

from tests.chips.cv18.kernel_samples import FLOATS, INTEGERS, QDM, conv
from tests.chips.cv18.kernel_values import I8, U8, stored_bytes
from tests.chips.cv18.steps import check_steps
from tests.chips.cv183x.stated_cases import REFUSALS as STATED_REFUSALS
from tests.chips.cv183x.stated_cases import STATED
from tests.chips.cv183x.wide_cases import WIDE
from tests.families import each

Array = NDArray[Any]


WIDE_OPS = {sample.op.name: name for name, sample in reversed(WIDE.items())}
"""The first wide sample of each op."""


GROUPS = {"integers": INTEGERS, "floats": FLOATS, "stated": STATED}
FIRST_FIT = 1


# Most time goes into plans that join ops, of which kernels side by side have few; tilings are forced all the same.
# Plans of many large ops side by side take long, so these are by themselves.
@each(
    ("samples", "opt"),
    [
        *(pytest.param(some, FIRST_FIT, id=name) for name, some in GROUPS.items()),
        *(pytest.param(some, None, marks=pytest.mark.slow, id=f"usual-{name}") for name, some in GROUPS.items()),
        *(
            pytest.param(
                {name: one},
                FIRST_FIT if WIDE_OPS[one.op.name] == name else None,
                marks=() if WIDE_OPS[one.op.name] == name else pytest.mark.slow,
                id=f"wide-{name}",
            )
            for name, one in WIDE.items()
        ),
    ],
)
def test_the_simulator_equals_the_evaluation(samples: dict[str, Sample], opt: int | None) -> None:
    registry = Registry()
    compiled = compile_kernels(samples, "cv183x", registry, opt=opt)
    loaded = registry.get("tpuc.chips", "cv183x").load(compiled.data, "kernels")
    integers, floats = check_steps(compiled.module, {**loaded.run(compiled.inputs), **compiled.inputs})
    assert integers + floats == sum(1 + len(sample.tilings) for sample in samples.values())


def t(*dims: int, element: ElementType = I8) -> TensorType:
    return TensorType(dims, element)


X = t(1, 4, 20, 20)
W = t(4, 4, 3, 3, element=ScalarType("si8"))
POWERS = t(1, 1, 1, 256, element=F32)
POINT = quantized_element("int8", 0.05, 3)
REFUSALS: dict[str, tuple[Op, list[TensorType], TensorType, str]] = {
    "stride": (
        conv((3, 3), 4, 4, strides=(16, 1)),
        [X, W, ABSENT],
        t(1, 4, 2, 18),
        "stride at most 15, this one is 16",
    ),
    "pads": (
        conv((3, 3), 4, 4, pads=(16, 0, 0, 0)),
        [X, W, ABSENT],
        t(1, 4, 34, 18),
        "padding at most 15, this one is 16",
    ),
    "dilation": (
        conv((2, 2), 4, 4, dilations=(17, 1)),
        [X, W, ABSENT],
        t(1, 4, 3, 19),
        "dilation at most 16, this one is 17",
    ),
    "padding_alone": (
        conv((3, 3), 4, 4, pads=(3, 0, 0, 0)),
        [X, W, ABSENT],
        t(1, 4, 21, 18),
        "padding below the window's own extent, this one is 3 for 3",
    ),
    "shift": (
        tpu.Conv2D(kernel_shape=(3, 3), multiplier=(1 << 30,), rshift=(32,), **QDM),
        [X, W, ABSENT],
        t(1, 4, 18, 18),
        "shifts from 0 to 31, these are 32 to 32",
    ),
    "mode": (
        tpu.Conv2D(kernel_shape=(3, 3), multiplier=(1,), rshift=(0,)),
        [X, W, ABSENT],
        t(1, 4, 18, 18),
        "only quant_mode QDM rounded HalfAwayFromZero, this one is MultiplierShift HalfUp",
    ),
    "sums": (
        tpu.Conv2D(kernel_shape=(3, 3)),
        [X, W, ABSENT],
        t(1, 4, 18, 18),
        "integer sums must be requantized, the chip cannot store 32 bits",
    ),
    "zero_point": (
        tpu.Relu(),
        [t(1, 4, 20, 20, element=POINT)],
        t(1, 4, 20, 20, element=POINT),
        "zero points must be 0, this one is 3",
    ),
    **STATED_REFUSALS,
    "f32": (tpu.Relu(), [t(1, 4, element=F32)], t(1, 4, element=F32), "int8, uint8 and bf16 only, this one has f32"),
    "groups": (
        conv((3, 3), 4, 2, group=2),
        [X, W, ABSENT],
        t(1, 4, 18, 18),
        "groups of several channels have no kernel; lowering writes them as one group with zeros between",
    ),
    "shifts": (
        tpu.Add(multipliers=(1, 1), rshifts=(1, 2)),
        [X, X],
        X,
        "one common shift from 0 to 31, there are [1, 2]",
    ),
    "multiplier": (
        tpu.Add(multipliers=(129, 131), rshifts=(1,)),
        [X, X],
        X,
        "multipliers of one signed byte, one of them times a power of two, these are [129, 131]",
    ),
    "sum": (
        tpu.Add(multipliers=(127, 127, 127), rshifts=(7,)),
        [X, X, X],
        X,
        "a sum within 16 bits before its shift, this one may reach 48768",
    ),
    "product": (
        tpu.Mul(multiplier=1 << 30, rshift=1, **QDM),
        [X, X],
        t(1, 4, 20, 20, element=U8),
        "the product of unsigned operands is unsigned, every other one is signed",
    ),
    "counts": (
        tpu.Pool2D(kernel_shape=(3, 3), pool_mode="Avg", pads=(1, 1, 1, 1)),
        [X],
        X,
        "an average that does not count padding needs windows without padding",
    ),
    "factor": (
        tpu.Pool2D(kernel_shape=(2, 2), pool_mode="Avg", multiplier=256, round_mode="HalfUp"),
        [X],
        t(1, 4, 19, 19),
        "a factor of one byte and a shift up to 31, these are 256 and 0",
    ),
    "beta": (tpu.Softmax(axis=1, beta=2.0), [t(1, 4, element=F32)], t(1, 4, element=F32), "beta 1 and no logarithm"),
    "values": (
        tpu.Softmax(),
        [t(1, 4063), POWERS],
        t(1, 4063, element=BF16),
        "at most 4062 values along the axis, this one has 4063",
    ),
    "logarithms": (
        tpu.Softmax(log=True),
        [t(1, 3841), POWERS],
        t(1, 3841, element=BF16),
        "at most 3840 values along the axis, this one has 3841",
    ),
    "table": (tpu.Softmax(), [t(1, 4)], t(1, 4, element=BF16), "bytes and a table of 256 exponentials"),
    "shares": (tpu.Softmax(), [t(1, 4), POWERS], t(1, 4), "the result must be bf16, this one is i8"),
    "rounding": (
        tpu.Cast(with_scale=False),
        [t(1, 4, element=BF16)],
        t(1, 4),
        "the chip rounds HalfToEven, this one asks for HalfAwayFromZero",
    ),
    "scale": (
        tpu.Cast(round_mode="HalfToEven"),
        [t(1, 4, element=BF16)],
        t(1, 4),
        "a scale needs in_half, because the chip multiplies in bf16",
    ),
    "unsigned": (
        tpu.Cast(),
        [t(1, 4, element=F32)],
        t(1, 4, element=U8),
        "the runtime casts between f32 and i8 with zero point 0, this is u8 with 0",
    ),
    "wide": (
        tpu.Cast(),
        [t(1, 4, element=Uniform(ScalarType("i16"), F32, 0.5))],
        t(1, 4, element=F32),
        "the runtime casts between f32 and i8 with zero point 0, this is i16 with 0",
    ),
    "nearest": (
        tpu.Cast(),
        [t(1, 4, element=F32)],
        t(1, 4, element=BF16),
        "the chip truncates to bf16 unless round_half is set, this one asks for HalfAwayFromZero",
    ),
    "active": (
        tpu.Active(mode="TAN"),
        [t(1, 4, element=BF16)],
        t(1, 4, element=BF16),
        (
            "modes ABSVAL, COS, ELU, ERF, EXP, GELU, HSIGMOID, HSWISH, LN, MISH, RSQRT, SIGMOID, SILU, SIN, SOFT_PLUS, "
            "SQRT, SQUARE, TANH, this one is TAN"
        ),
    ),
    "repeats": (
        tpu.Upsample(scale_h=9, scale_w=9),
        [X],
        t(1, 4, 180, 180),
        "each element at most 64 times, here 81 times",
    ),
}
INSIDE: dict[str, tuple[Op, list[TensorType], TensorType]] = {
    "values": (tpu.Softmax(), [t(1, 4062), POWERS], t(1, 4062, element=BF16)),
    "logarithms": (tpu.Softmax(log=True), [t(1, 3840), POWERS], t(1, 3840, element=BF16)),
    "stride": (conv((3, 3), 4, 4, strides=(15, 1)), [X, W, ABSENT], t(1, 4, 2, 18)),
    "pads": (
        conv((16, 3), 4, 4, pads=(15, 0, 0, 0)),
        [X, t(4, 4, 16, 3, element=ScalarType("si8")), ABSENT],
        t(1, 4, 20, 18),
    ),
    "dilation": (conv((2, 2), 4, 4, dilations=(16, 1)), [X, W, ABSENT], t(1, 4, 4, 19)),
    "shift": (
        tpu.Conv2D(kernel_shape=(3, 3), multiplier=(1 << 30,), rshift=(31,), **QDM),
        [X, W, ABSENT],
        t(1, 4, 18, 18),
    ),
    "multiplier": (tpu.Add(multipliers=(127, 254), rshifts=(1,)), [X, X], X),
    "sum": (tpu.Add(multipliers=(127, 64, 64), rshifts=(7,)), [X, X, X], X),
    "far_shift": (tpu.Add(multipliers=(1, 1), rshifts=(31,)), [X, X], t(1, 4, 20, 20, element=U8)),
    "factor": (
        tpu.Pool2D(kernel_shape=(2, 2), pool_mode="Avg", multiplier=255, round_mode="HalfUp"),
        [X],
        t(1, 4, 19, 19),
    ),
    "repeats": (tpu.Upsample(scale_h=8, scale_w=8), [X], t(1, 4, 160, 160)),
}


def _refusal(op: Op, operands: list[TensorType], result: TensorType) -> str | None:
    node = Node(op, tuple(operands), (result,), "y")
    cell = TABLE.cells[op.name]
    kernel = cell.kernel(node) if hasattr(cell, "kernel") else cell
    return kernel.refuse(node)


@each("name", REFUSALS)
def test_what_is_outside_is_refused_by_a_sentence(name: str) -> None:
    *node, sentence = REFUSALS[name]
    assert _refusal(*node) == sentence


@each("name", INSIDE)
def test_what_is_just_inside_is_taken(name: str) -> None:
    assert _refusal(*INSIDE[name]) is None


def test_a_window_too_large_for_local_memory_says_so() -> None:
    sample = Sample(tpu.Pool2D(kernel_shape=(200, 200), pool_mode="Max"), [stored_bytes(1, 1, 200, 200)], I8)
    with pytest.raises(
        LmemOverflow, match=r"the smallest tile needs \d+ bytes of local memory per lane, but only 32768 exist"
    ):
        compile_kernels({"pool": sample}, "cv183x", Registry())
