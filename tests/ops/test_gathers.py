"""Limits of computed gathers that are composed of other ops."""

from __future__ import annotations

import numpy as np
from tpuc.api import F32, LoweringNode, TensorType
from tpuc_legalize.composer import largest_whole
from tpuc_legalize.gathers import GatherElementsAny, GatherNDAny
from tpuc_ops import top

from tests.chips.needed import needed

CHIP = needed("cv183x").description


def node(op: top.GatherND | top.GatherElements, *shapes: tuple[int, ...]) -> LoweringNode:
    x, indices, result = (TensorType(shape, F32) for shape in shapes)
    return LoweringNode(op, (x, indices), (result,), "y", (), (None, None), "bf16", CHIP)


def test_rows_are_as_many_as_floats_can_number() -> None:
    most = largest_whole(node(top.GatherND(), (1, 4), (3, 1), (3, 4)))
    assert most == 256  # bf16 has eight significant bits
    assert GatherNDAny().refuse(node(top.GatherND(), (16, 16, 4), (3, 2), (3, 4))) is None
    said = GatherNDAny().refuse(node(top.GatherND(), (16, 17, 4), (3, 2), (3, 4)))
    assert said == "computed indices can select from at most 256 parts, here 272; select them outside the network"


def test_constant_indices_are_no_floats() -> None:
    op, indices = top.GatherElements(axis=0), np.array([[299], [-1], [257]])
    types = [TensorType(shape, F32) for shape in ((300, 1), (3, 1), (3, 1))]
    known = LoweringNode(op, (types[0], types[1]), (types[2],), "y", (), (None, indices), "bf16", CHIP)
    assert GatherElementsAny().refuse(known) is None


def test_elements_are_as_many_as_floats_can_number_and_memory_holds_products() -> None:
    op = top.GatherElements(axis=0)
    assert GatherElementsAny().refuse(node(op, (256, 4), (3, 4), (3, 4))) is None
    said = GatherElementsAny().refuse(node(op, (257, 4), (3, 4), (3, 4)))
    assert said == "computed indices can select from at most 256 elements, here 257; select them outside the network"
    said = GatherElementsAny().refuse(node(op, (256, 4), (4097, 4), (4097, 4)))
    assert said == "16388 times 256 products are too many; select outside the network"
