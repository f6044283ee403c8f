"""Ops that carry values into the graph: top.Input, top.Weight, top.None."""

from __future__ import annotations

import numpy as np
import pytest
from tpuc.api import F32, Absent, Calibrated, Constant, NetworkInput, Node, TensorType
from tpuc_ops import top
from tpuc_ops.arrays import Array
from tpuc_testing import OpConformance, uniform


class TestInput(OpConformance):
    op = top.Input(do_preprocess=True, mean=(1.0, 2.0, 3.0), pixel_format="bgr", resize_dims=(8, 9))

    @staticmethod
    def reference(x: Array) -> Array:
        return x

    samples = ([uniform(1, 3, 8, 9)],)
    flops = 0


def test_input_says_nothing_about_the_range() -> None:
    (result,) = top.Input().infer((TensorType((1, 3), Calibrated(F32, -1.0, 1.0)),))
    assert result == TensorType((1, 3), F32)


def test_traits_tell_what_needs_no_kernel() -> None:
    assert isinstance(top.Input(), NetworkInput)
    assert isinstance(top.Weight(), Constant)
    assert isinstance(top.None_(), Absent)


def test_a_weight_is_read_by_who_knows_its_name() -> None:
    with pytest.raises(NotImplementedError, match=r"top\.Weight has no evaluation"):
        top.Weight().evaluate(Node(top.Weight(), (), (TensorType((1,), F32),)), [])


def test_absent_is_an_empty_array() -> None:
    (nothing,) = top.None_().evaluate(Node(top.None_(), (), ()), [])
    assert nothing.shape == (0,)
    assert nothing.dtype == np.float32
