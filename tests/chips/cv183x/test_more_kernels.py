"""Kernels beyond those of `test_kernels`: instructions compute what the TPU op says, under all tilings."""

from __future__ import annotations

from typing import Any

from tpuc.api import ABSENT, BF16, F32, ElementType, Node, Op, ScalarType, TensorType
from tpuc.registry import Registry
from tpuc_cv183x.kernels import TABLE
from tpuc_ops import tpu
from tpuc_testing.kernel_conformance import Sample, compile_kernels

from tests.chips.cv18.kernel_values import I8, QDM, U8
from tests.chips.cv18.steps import check_steps
from tests.chips.cv183x.deconv_cases import DECONVS
from tests.chips.cv183x.matmul_cases import PRODUCTS
from tests.chips.cv183x.pad_cases import PADS
from tests.chips.cv183x.table_cases import TABLES
from tests.families import each

GROUPS = {"deconvs": DECONVS, "pads": PADS, "products": PRODUCTS, "tables": TABLES}


@each("samples", GROUPS.values(), ids=GROUPS)
def test_the_simulator_equals_the_evaluation(samples: dict[str, Sample]) -> None:
    registry = Registry()
    compiled = compile_kernels(samples, "cv183x", registry)
    loaded = registry.get("tpuc.chips", "cv183x").load(compiled.data, "kernels")
    integers, floats = check_steps(compiled.module, {**loaded.run(compiled.inputs), **compiled.inputs})
    assert integers + floats == sum(1 + len(sample.tilings) for sample in samples.values())


def t(*dims: int, element: ElementType = I8) -> TensorType:
    return TensorType(dims, element)


X, W = t(1, 4, 9, 9), t(4, 4, 3, 3, element=ScalarType("si8"))
QUOTIENT: Any = {"multiplier": (1 << 30,), "rshift": (9,), **QDM}
REFUSALS: dict[str, tuple[Op, list[TensorType], TensorType, str]] = {
    "deconv_dilation": (
        tpu.Deconv(kernel_shape=(2, 2), dilations=(17, 1), **QUOTIENT),
        [X, W, ABSENT],
        t(1, 4, 26, 10),
        "dilation at most 16, this one is 17",
    ),
    "deconv_stride": (
        tpu.Deconv(kernel_shape=(3, 3), strides=(4, 1), **QUOTIENT),
        [X, W, ABSENT],
        t(1, 4, 35, 11),
        "a window of at least the stride, this one is 3 for 4",
    ),
    "deconv_window": (
        tpu.Deconv(kernel_shape=(17, 3), **QUOTIENT),
        [X, W, ABSENT],
        t(1, 4, 25, 11),
        "a window of at most 16 places beyond its padding, this one has 17",
    ),
    "deconv_padding": (
        tpu.Deconv(kernel_shape=(3, 3), strides=(2, 2), output_padding=(1, 0), **QUOTIENT),
        [X, W, ABSENT],
        t(1, 4, 20, 19),
        "padding below the window's extent, and at least the output padding",
    ),
    "deconv_sums": (
        tpu.Deconv(kernel_shape=(3, 3)),
        [X, W, ABSENT],
        t(1, 4, 11, 11),
        "integer sums must be requantized, the chip cannot store 32 bits",
    ),
    "deconv_groups": (
        tpu.Deconv(kernel_shape=(3, 3), group=2, **QUOTIENT),
        [X, W, ABSENT],
        t(1, 8, 11, 11),
        "groups of several channels have no kernel; lowering writes them as one group with zeros between",
    ),
    "product_turned": (
        tpu.MatMul(right_transpose=True, multipliers=(1,), rshifts=(0,), **QDM),
        [t(1, 3, 4), t(1, 5, 4), ABSENT, ABSENT, ABSENT],
        t(1, 3, 5),
        "transposed operands and results have no kernel; permute them first",
    ),
    "product_bias": (
        tpu.MatMul(multipliers=(1,), rshifts=(0,), **QDM),
        [t(1, 3, 4), t(1, 4, 5), t(5), ABSENT, ABSENT],
        t(1, 3, 5),
        "a product of computed tensors takes no bias",
    ),
    "product_batches": (
        tpu.MatMul(multipliers=(1,), rshifts=(0,), **QDM),
        [t(2, 3, 4), t(1, 4, 5), ABSENT, ABSENT, ABSENT],
        t(2, 3, 5),
        "both operands must have the same number of matrices; repeat or reshape one of them",
    ),
    "product_columns": (
        tpu.MatMul(multipliers=(1,) * 5, rshifts=(0,) * 5, **QDM),
        [t(1, 3, 4), t(1, 4, 5), ABSENT, ABSENT, ABSENT],
        t(1, 3, 5),
        "one multiplier for all columns",
    ),
    "product_kinds": (
        tpu.MatMul(multipliers=(1,), rshifts=(0,), **QDM),
        [t(1, 3, 4), t(1, 4, 5, element=BF16), ABSENT, ABSENT, ABSENT],
        t(1, 3, 5),
        "both operands must be integers, or both floats",
    ),
    "product_unsigned": (
        tpu.MatMul(multipliers=(1,), rshifts=(0,), **QDM),
        [t(1, 3, 4, element=U8), t(1, 4, 5, element=U8), ABSENT, ABSENT, ABSENT],
        t(1, 3, 5),
        "the product of unsigned operands must be unsigned",
    ),
    "cast_of_words": (
        tpu.Cast(),
        [t(1, 4, 9, 9, element=ScalarType("i16"))],
        t(1, 4, 9, 9, element=BF16),
        "the chip casts between bytes, bf16 and f32, this is i16 to bf16",
    ),
    "pad_f32": (
        tpu.Pad(paddings=(0, 0, 1, 1, 0, 0, 1, 1), mode="edge"),
        [t(1, 4, 9, 9, element=F32)],
        t(1, 4, 11, 11, element=F32),
        "int8, uint8 and bf16 only, this one has f32",
    ),
    "table_channels": (
        tpu.Lut(),
        [X, t(1, 4, 1, 256, element=BF16)],
        t(1, 4, 9, 9, element=BF16),
        "one table of 256 bf16 entries for all channels, this one has 1024",
    ),
    "table_of_words": (
        tpu.Lut(),
        [t(1, 4, 9, 9, element=BF16), t(1, 1, 1, 256, element=BF16)],
        t(1, 4, 9, 9, element=BF16),
        "bytes by a table of the result's type, these are bf16 by bf16",
    ),
}


@each("name", REFUSALS)
def test_what_is_outside_is_refused_by_a_sentence(name: str) -> None:
    op, operands, result, sentence = REFUSALS[name]
    node = Node(op, tuple(operands), (result,), "y")
    cell = TABLE.cells[op.name]
    assert (cell.kernel(node) if hasattr(cell, "kernel") else cell).refuse(node) == sentence
