"""Soft plus."""

from __future__ import annotations

from dataclasses import dataclass

from tpuc_ops import functions
from tpuc_ops.arrays import Array
from tpuc_ops.elementwise import Activation


@dataclass(frozen=True)
class Softplus(Activation):
    """``log(1 + exp(x))``."""

    name = "top.Softplus"
    active = "SOFT_PLUS"
    foreign = ("caffe.BNLL", "onnx.Softplus", "tpulang.softplus")
    flops_per_element = 5

    def function(self, x: Array) -> Array:
        return functions.softplus(x)
