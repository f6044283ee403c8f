"""Blocks in the batch: the two operators by themselves, and the dilated convolutions that are written with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from tpuc.api import Unsupported

from tests.families import each
from tests.frontends.tflite.files import SAME, VALID, Node, Tensor, constant, tflite_file
from tests.frontends.tflite.networks import compute, ops_of, read, single, stored, values

Array = NDArray[Any]


def ints(name: str, data: Any) -> Tensor:
    return constant(name, np.array(data, np.int32))


def to_batch(x: Array, blocks: tuple[int, int], pads: list[tuple[int, int]], fill: float = 0) -> Array:
    """Sample `(i * columns + j) * n + b` holds rows i and columns j of sample b, in steps of a block."""
    x = np.pad(x, ((0, 0), *pads, (0, 0)), constant_values=fill)
    return np.concatenate([x[:, i :: blocks[0], j :: blocks[1]] for i in range(blocks[0]) for j in range(blocks[1])])


@each(("blocks", "pads"), [((2, 3), [(1, 0), (1, 1)]), ((3, 1), [(0, 0), (0, 0)])])
def test_to_batch_and_back(blocks: tuple[int, int], pads: list[tuple[int, int]], tmp_path: Path) -> None:
    x = values(2, 9, 7, 5)
    there = to_batch(x, blocks, pads)
    operands = [Tensor("x", x.shape), ints("b", blocks), ints("p", pads)]
    (ours,) = compute(single(tmp_path, "SPACE_TO_BATCH_ND", operands, Tensor("y", there.shape)), x)
    np.testing.assert_array_equal(ours, there)
    operands = [Tensor("x", there.shape), ints("b", blocks), ints("c", pads)]
    (back,) = compute(single(tmp_path, "BATCH_TO_SPACE_ND", operands, Tensor("y", x.shape)), there)
    np.testing.assert_array_equal(back, x)


def test_sequences(tmp_path: Path) -> None:
    x = values(2, 8, 3)
    expected = np.concatenate([np.pad(x, ((0, 0), (1, 0), (0, 0)))[:, phase::3] for phase in range(3)])
    operands = [Tensor("x", x.shape), ints("b", [3]), ints("p", [[1, 0]])]
    (ours,) = compute(single(tmp_path, "SPACE_TO_BATCH_ND", operands, Tensor("y", expected.shape)), x)
    np.testing.assert_array_equal(ours, expected)


@each(
    ("op", "operands", "sentence"),
    [
        ("SPACE_TO_BATCH_ND", [ints("b", [2, 2]), ints("p", [[0, 0], [0, 0]])], "9 rows or columns with padding"),
        ("SPACE_TO_BATCH_ND", [ints("b", [2]), ints("p", [[0, 0], [0, 0]])], "do not fit 4 dimensions"),
        ("BATCH_TO_SPACE_ND", [ints("b", [3, 1]), ints("p", [[0, 0], [0, 0]])], "a batch of 2 is not made of blocks"),
        ("BATCH_TO_SPACE_ND", [ints("b", [2, 1]), ints("p", [[9, 9], [0, 0]])], "leave nothing of 18"),
    ],
)
def test_blocks_that_do_not_fit(op: str, operands: list[Tensor], sentence: str, tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match=sentence):
        single(tmp_path, op, [Tensor("x", (2, 9, 7, 5)), *operands], Tensor("y", (1, 1, 1, 1)))


def dilated(x: Array, weight: Array, dilation: int, pads: tuple[int, int, int, int], depthwise: bool) -> Array:
    """Exact: a window of the whole reach, of which every `dilation`-th tap counts."""
    x = np.pad(x, ((0, 0), pads[:2], pads[2:], (0, 0)))
    reach = 2 * dilation + 1
    under = sliding_window_view(x, (reach, reach), (1, 2))[..., ::dilation, ::dilation]
    if depthwise:
        return np.einsum("nhwckl,klc->nhwc", under, weight[0])
    return np.einsum("nhwckl,oklc->nhwo", under, weight)


@each("depthwise", [False, True])
@each(("mode", "pads"), [(VALID, (2, 3, 2, 4)), (SAME, (0, 1, 0, 2)), (VALID, (0, 1, 0, 2))])
def test_dilated_convolutions_become_one_node(
    depthwise: bool, mode: int, pads: tuple[int, int, int, int], tmp_path: Path
) -> None:
    x = values(1, 11, 10, 4)
    weight = values(*(1, 3, 3, 4) if depthwise else (6, 3, 3, 4), seed=1)
    rows, columns = (11 + pads[0] + pads[1], 10 + pads[2] + pads[3])
    assert rows % 2 == columns % 2 == 0
    blocks = to_batch(x, (2, 2), [pads[:2], pads[2:]])
    sums = (*blocks.shape[:3], weight.shape[3] if depthwise else 6)
    if mode == VALID:
        sums = (sums[0], sums[1] - 2, sums[2] - 2, sums[3])
    crop = (1, 0) if mode == SAME else (0, 0)
    result = (1, 2 * sums[1] - crop[0], 2 * sums[2] - crop[1], sums[3])
    around = 2 if mode == SAME else 0
    full = (pads[0] + around - crop[0], pads[1] + around, pads[2] + around, pads[3] + around)
    expected = dilated(x.astype(np.float64), weight, 2, full, depthwise)
    assert expected.shape == result
    tensors = [
        Tensor("x", x.shape),
        ints("b", [2, 2]),
        ints("p", [pads[:2], pads[2:]]),
        ints("c", [[crop[0], 0], [crop[1], 0]]),
        constant("w", weight),
        Tensor("s", blocks.shape),
        Tensor("z", sums),
        Tensor("y", result),
    ]
    op, options = ("DEPTHWISE_CONV_2D", "DepthwiseConv2DOptions") if depthwise else ("CONV_2D", "Conv2DOptions")
    nodes = [
        Node("SPACE_TO_BATCH_ND", ["x", "b", "p"], ["s"]),
        Node(op, ["s", "w"], ["z"], (options, {"Padding": mode, "StrideH": 1, "StrideW": 1})),
        Node("BATCH_TO_SPACE_ND", ["z", "b", "c"], ["y"]),
    ]
    module = read(tflite_file(tensors, nodes, ["x"], ["y"]), tmp_path)
    assert ops_of(module) == ["Conv"]
    (ours,) = compute(module, x)
    # Sums of at most 36 products between -4 and 4 in float32.
    np.testing.assert_allclose(ours, expected, rtol=1e-5, atol=1e-5)
    module = read(tflite_file(tensors, nodes, ["x"], ["s", "y"]), tmp_path)  # now somebody else reads the blocks
    assert "Permute" in ops_of(module)
    np.testing.assert_allclose(compute(module, x)[1], expected, rtol=1e-5, atol=1e-5)


def test_quantized_blocks_are_padded_with_zero_points(tmp_path: Path) -> None:
    x = stored("int8", 1, 5, 7, 3)
    expected = to_batch(x, (2, 2), [(1, 0), (0, 1)], fill=-9)
    operands = [
        Tensor("x", x.shape, "INT8", None, (0.1,), (-9,)),
        ints("b", [2, 2]),
        ints("p", [[1, 0], [0, 1]]),
    ]
    result = Tensor("y", expected.shape, "INT8", None, (0.1,), (-9,))
    (ours,) = compute(single(tmp_path, "SPACE_TO_BATCH_ND", operands, result), x)
    np.testing.assert_array_equal(ours, expected)
