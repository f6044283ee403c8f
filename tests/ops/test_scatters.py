"""Limits of scatters that are composed of other ops."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from tpuc.api import F32, LoweringNode, TensorType
from tpuc_legalize.scatters import ScatterElementsAny, ScatterNDAny
from tpuc_ops import top

from tests.chips.needed import needed

CHIP = needed("cv183x").description


def node(
    op: top.ScatterND | top.ScatterElements,
    x: tuple[int, ...],
    indices: tuple[int, ...] | NDArray[np.int64],
    updates: tuple[int, ...],
) -> LoweringNode:
    known = None if isinstance(indices, tuple) else indices
    shape = indices if isinstance(indices, tuple) else indices.shape
    types = (TensorType(x, F32), TensorType(shape, F32), TensorType(updates, F32))
    return LoweringNode(op, types, (types[0],), "y", (), (None, known, None), "bf16", CHIP)


def test_places_are_as_many_as_floats_can_number() -> None:
    assert ScatterNDAny().refuse(node(top.ScatterND(), (16, 16, 4), (3, 2), (3, 4))) is None
    said = ScatterNDAny().refuse(node(top.ScatterND(), (16, 17, 4), (3, 2), (3, 4)))
    assert said == "computed indices can select from at most 256 places, here 272; select them outside the network"
    assert ScatterElementsAny().refuse(node(top.ScatterElements(axis=0), (256, 4), (3, 4), (3, 4))) is None
    said = ScatterElementsAny().refuse(node(top.ScatterElements(axis=-2), (257, 4), (3, 4), (3, 4)))
    assert said == "computed indices can select from at most 256 places, here 257; select them outside the network"


def test_constant_indices_are_no_floats() -> None:
    known = node(top.ScatterND("add"), (300, 4), np.array([[299], [-1], [257]]), (3, 4))
    assert ScatterNDAny().refuse(known) is None


def test_memory_holds_the_marks_unless_updates_are_few_runs() -> None:
    op, x = top.ScatterElements(axis=0), (5000, 900)
    run = np.broadcast_to(np.arange(100, 100 + 900)[:, None], (900, 900))
    assert ScatterElementsAny().refuse(node(op, x, run, (900, 900))) is None
    said = ScatterElementsAny().refuse(node(top.ScatterElements(axis=0, reduction="add"), x, run, (900, 900)))
    assert said == "4050000000 pairs of a place and an update are too many; update outside the network"


def test_products_of_updates_are_refused() -> None:
    said = ScatterNDAny().refuse(node(top.ScatterND("mul"), (5, 4), (3, 1), (3, 4)))
    assert said == "reduction none, add, max, or min, this one is mul"
