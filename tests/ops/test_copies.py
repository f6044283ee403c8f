"""Copies of any rank: carried out element by element they give what numpy gives."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from tpuc.api import F32, Node, Op, TensorType
from tpuc_chip_parts.copies import (
    Copy,
    concatenated_copies,
    dense_strides,
    padded_copies,
    permuted_copies,
    sliced_copies,
)
from tpuc_ops import tpu
from tpuc_testing import uniform

Array = npt.NDArray[Any]
X = uniform(2, 3, 4, 5, 2)


def _node(op: Op, operands: Sequence[Array], wanted: Array) -> Node:
    return Node(op, tuple(TensorType(x.shape, F32) for x in operands), (TensorType(wanted.shape, F32),), "node")


def _carried_out(copies: Sequence[Copy], operands: Sequence[Array], shape: tuple[int, ...]) -> Array:
    """Every element is written exactly once."""
    result, writes = np.zeros(int(np.prod(shape)), np.float32), np.zeros(int(np.prod(shape)), int)
    for copy in copies:
        source = operands[copy.operand].reshape(-1)
        for place in itertools.product(*map(range, copy.shape)):
            at = copy.target_offset + int(np.dot(place, copy.target_strides))
            taken = source[copy.source_offset + int(np.dot(place, copy.source_strides))] if copy.fill is None else 0
            result[at] = taken if copy.fill is None else copy.fill
            writes[at] += 1
    assert (writes == 1).all()
    return result.reshape(shape)


def test_permuted() -> None:
    order = (3, 0, 4, 2, 1)
    wanted = X.transpose(order)
    assert np.array_equal(
        _carried_out(permuted_copies(_node(tpu.Permute(order=order), [X], wanted)), [X], wanted.shape), wanted
    )


def test_concatenated() -> None:
    parts = [X, X[:, :, :1], -X]
    wanted = np.concatenate(parts, 2)
    copies = concatenated_copies(_node(tpu.Concat(axis=-3), parts, wanted))
    assert np.array_equal(_carried_out(copies, parts, wanted.shape), wanted)


def test_sliced_also_backwards() -> None:
    wanted = X[:, ::-2, 1:4, ::-1]
    op = tpu.Slice(offset=(0, -1, 1, -1, 0), steps=(1, -2, 1, -1, 1), ends=(2, -100, 4, -100, 2))
    copies = sliced_copies(_node(op, [X], wanted))
    assert all(min(copy.source_strides) >= 0 or copy.shape[np.argmin(copy.source_strides)] == 1 for copy in copies)
    assert np.array_equal(_carried_out(copies, [X], wanted.shape), wanted)


def test_padded_and_cut() -> None:
    wanted = np.pad(X[:, :, 1:, :-2], ((1, 0), (2, 3), (0, 2), (1, 0), (0, 0)), constant_values=0.5)
    op = tpu.Pad(paddings=(1, 2, -1, 1, 0, 0, 3, 2, -2, 0), val=0.5)
    assert np.array_equal(_carried_out(padded_copies(_node(op, [X], wanted)), [X], wanted.shape), wanted)


def test_neighbors_that_step_alike_are_one_dimension() -> None:
    copy = Copy(0, (2, 3, 1, 4), 0, (24, 4, 9, 1), 0, dense_strides((2, 3, 1, 4)))
    assert copy.axes() == [(2, 24, 12), (12, 1, 1)]
