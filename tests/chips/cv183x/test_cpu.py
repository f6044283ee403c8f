"""The runtime's functions: values recorded from the vendor's runtime."""

from __future__ import annotations

import numpy as np
import pytest
from tpuc.api import Unsupported
from tpuc_cv183x.container import Tensor, TensorType
from tpuc_cv183x.cpu import run_function


def _tensor(kind: TensorType) -> Tensor:
    return Tensor("y", kind, (1, 1, 1, 6), 0, 0)


def test_float32_becomes_bf16_by_a_product_and_a_cut() -> None:
    x = np.array([0x3F808000, 0x3F818000, 0x3F807FFF, 0x3F808001, 0xBF808000, 0x7F7FFFFF], np.uint32).view(np.float32)
    (y,) = run_function("quant", [x], {"scale": 0.37}, [_tensor(TensorType.BF16)])
    assert y.view(np.uint16).tolist() == [16256, 16257, 16256, 16256, 49024, 32640]


def test_other_results_are_refused() -> None:
    with pytest.raises(Unsupported, match=r"the runtime's quantisation to INT16 is not simulated; cast on the chip"):
        run_function("quant", [np.zeros(6, np.float32)], {}, [_tensor(TensorType.INT16)])
    with pytest.raises(Unsupported, match=r"CPU function 'proposal' is not simulated, only quant, softmax; run this"):
        run_function("proposal", [], {}, [])
