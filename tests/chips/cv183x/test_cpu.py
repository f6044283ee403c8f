"""The runtime's functions: values recorded from the vendor's runtime."""

from __future__ import annotations

import numpy as np
import pytest
from tpuc.api import CorruptFile, IllegalCommand, Unsupported
from tpuc_cv18.container import Tensor, TensorType
from tpuc_cv18.cpu import run_function
from tpuc_cv18.isa import DType
from tpuc_cv18.isa.finish import requantize

from tests.families import each


def _tensor(kind: TensorType) -> Tensor:
    return Tensor("y", kind, (1, 1, 1, 6), 0, 0)


def test_float32_becomes_bf16_by_a_product_and_a_cut() -> None:
    x = np.array([0x3F808000, 0x3F818000, 0x3F807FFF, 0x3F808001, 0xBF808000, 0x7F7FFFFF], np.uint32).view(np.float32)
    (y,) = run_function("quant", [x], {"scale": 0.37}, [_tensor(TensorType.BF16)])
    assert y.view(np.uint16).tolist() == [16256, 16257, 16256, 16256, 49024, 32640]


def test_other_results_are_refused() -> None:
    with pytest.raises(Unsupported, match=r"the runtime's quantization to INT16 is not simulated; cast on the chip"):
        run_function("quant", [np.zeros(6, np.float32)], {}, [_tensor(TensorType.INT16)])
    with pytest.raises(Unsupported, match=r"CPU function 'yolo' is not simulated, only .*quant, .*topk, .*; run this"):
        run_function("yolo", [], {}, [])


@each("axis", [65, -5, float("inf"), float("nan")])
def test_damaged_arguments_of_a_softmax_are_refused(axis: float) -> None:
    with pytest.raises(CorruptFile, match=r"CPU function 'softmax' over axis .* of 4; copy the file again"):
        run_function("softmax", [np.zeros((1, 1, 1, 6), np.float32)], {"axis": axis}, [_tensor(TensorType.F32)])


def test_functions_with_too_many_or_too_few_tensors_are_refused() -> None:
    with pytest.raises(CorruptFile, match=r"CPU function 'quant' with 0 inputs and 1 outputs, it has 1 and 1;"):
        run_function("quant", [], {}, [_tensor(TensorType.F32)])


def test_a_multiplier_above_31_bits_is_refused() -> None:
    sums, shift = np.zeros((1, 2, 1, 1), np.int32), np.zeros((1, 2, 1, 1), np.int64)
    multiplier = np.array([1, 1 << 31], np.int64).reshape(1, 2, 1, 1)
    with pytest.raises(IllegalCommand, match=r"multiplier of a channel is above 2\^31 - 1; its constants"):
        requantize(sums, multiplier, shift, False, DType.INT8)
    requantize(sums, multiplier - 1, shift, False, DType.INT8)
