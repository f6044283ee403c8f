"""Limits of kernels and lowerings for places: what is just inside, what just outside, and the sentence."""

from __future__ import annotations

import numpy as np
from tpuc.api import LoweringNode, Node, ScalarType
from tpuc_ops.top.cast import Cast
from tpuc_ops.top.cum_sum import CumSum
from tpuc_ops.top.scatter_elements import ScatterElements
from tpuc_ops.top.scatter_nd import ScatterND
from tpuc_ops.top.topk import TopK
from tpuc_ops.tpu.arg import Arg
from tpuc_ops.tpu.best_places import BestPlaces
from tpuc_ops.tpu.bitwise import Bitwise
from tpuc_ops.tpu.compare import Compare
from tpuc_ops.tpu.gather_rows import GatherRows
from tpuc_ops.tpu.rank import Rank
from tpuc_ops.tpu.reduce import Reduce
from tpuc_ops.tpu.remainder import Remainder
from tpuc_ops.tpu.scan import Scan
from tpuc_ops.tpu.truncate import Truncate
from tpuc_ops.tpu.where import Where

from tests.chips.bm1684x.kernels.nodes import node, t, top

F16, I32 = ScalarType("f16"), ScalarType("i32")


HALVES = [t(2, 3, element=F16)] * 2
KERNEL_LIMITS: list[tuple[Node, Node, str]] = [
    (
        node(GatherRows(), [t(1, 9, 4), t(1, 3, element=I32)]),
        node(GatherRows(), [t(1, 9, 4), t(1, 3)]),
        "indices of int32, these are f32",
    ),
    (node(Compare(mode="Less"), HALVES), node(Compare(mode="Less"), [HALVES[0], t(2, 3)]), "floats of one type"),
    (
        node(Where(), [t(2, 3), *HALVES]),
        node(Where(), [t(2, 3), *HALVES], t(2, 3)),
        "branches and result of one type",
    ),
    (node(Bitwise(mode="And"), [t(2, 3)] * 2), node(Bitwise(mode="And"), HALVES), "only f32, these are f16"),
    (node(Remainder(), [t(2, 3)] * 2), node(Remainder(), HALVES), "only f32, these are f16"),
    (node(Truncate(to="INT8"), [t(2, 3)]), node(Truncate(to="INT8"), HALVES[:1]), "only f32, this one is f16"),
    (node(Arg(axis=1), [t(2, 2**24 - 1)]), node(Arg(axis=1), [t(2, 2**24)]), "at most 16777215 values along the axis"),
    (node(Scan(axis=1), [t(3, 8192)]), node(Scan(axis=1), [t(3, 8193)]), "at most 8192 values along the axis"),
    (
        node(Scan(axis=1), [t(3, 4)]),
        node(Scan(axis=1), [t(3, 4, element=I32)], t(3, 4, element=I32)),
        "only floats, these are i32",
    ),
    (
        node(Reduce(axes=(1,), mode="ReduceProd"), [t(3, 4)]),
        node(Reduce(axes=(1,), mode="ReduceProd"), [t(3, 4)], t(3, 1, element=I32)),
        "products of floats only, these are i32",
    ),
    (node(BestPlaces(kept=9), [t(2, 3072)]), node(BestPlaces(kept=9), [t(2, 3000)]), "rows of a multiple of 1024"),
    (node(BestPlaces(kept=9), [t(1, 1 << 17)]), node(BestPlaces(kept=9), [t(1, 1 << 18)]), "at most 131072"),
    (node(Rank(), [t(2, 32768)] * 2), node(Rank(), [t(2, 32769)] * 2), "at most 32768 rows and values in a row"),
]  # fmt: skip


LOWERING_LIMITS: list[tuple[LoweringNode, LoweringNode, str]] = [
    (top(Cast(to="BFLOAT16"), (2, 3)), top(Cast(to="FLOAT8E5M2"), (2, 3)), "this one is FLOAT8E5M2"),
    (top(CumSum(axis=0), (8192,)), top(CumSum(axis=0), (8193,)), "at most 8192 values along the axis"),
    (
        top(TopK(axis=1, K=22000), (2, 32768)),
        top(TopK(axis=1, K=22000), (2, 32769)),
        "at most 32768 rows and as many values to rank in each, there are 2 and 32769",
    ),
    (
        top(ScatterElements(axis=0, reduction="add"), (4096,), (4096,), (4096,)),
        top(ScatterElements(axis=0, reduction="add"), (4096,), (4097,), (4097,)),
        "reduction add with indices that may repeat takes at most 16777216 pairs",
    ),
    (
        top(ScatterND(reduction="max"), (5000,), np.arange(5000.0).reshape(5000, 1), (5000,)),
        top(ScatterND(reduction="max"), (5000,), np.zeros((5000, 1)), (5000,)),
        "there are 25000000",
    ),
]  # fmt: skip
