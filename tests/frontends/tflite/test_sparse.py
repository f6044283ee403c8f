"""Weights that are stored sparse: whole again once they are loaded, in every layout that the format has."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from tpuc.api import InvalidModel
from tpuc_tflite.sparse import Level, densify

from tests.families import each
from tests.frontends.tflite.files import Node, Sparsity, Tensor, constant, tflite_file
from tests.frontends.tflite.networks import compute, read, values

Array = NDArray[Any]
KINDS: tuple[Any, ...] = (np.int32, np.uint16, np.uint8)


def encode(
    array: Array, order: Sequence[int], blocks: dict[int, int], compressed: Sequence[bool]
) -> tuple[Array, Sparsity]:
    """The tree of an array, level by level: a compressed level leaves out children below which all is zero."""
    parts: list[int] = []
    for axis, size in enumerate(array.shape):
        parts += [size // blocks[axis], blocks[axis]] if axis in blocks else [size]
    outer = [sum(1 + (axis in blocks) for axis in range(one)) for one in range(array.ndim)]
    inner = [outer[axis] + 1 for axis in blocks]
    walked = array.reshape(parts).transpose([(outer + inner)[axis] for axis in order])
    nodes, levels = [walked], list[Any]()
    for is_compressed in compressed:
        if not is_compressed:
            levels.append(walked.shape[walked.ndim - nodes[0].ndim])
            nodes = [child for node in nodes for child in node]
            continue
        kept = [[index for index, child in enumerate(node) if np.any(child)] for node in nodes]
        ends = np.cumsum([0, *(len(one) for one in kept)])
        levels.append((ends.astype(np.int32), np.array([index for one in kept for index in one], np.uint8)))
        nodes = [node[index] for node, one in zip(nodes, kept, strict=True) for index in one]
        if not nodes:
            levels += [(np.zeros(1, np.int32), np.zeros(0, np.uint8))] * (len(compressed) - len(levels))
            break
    return np.array(nodes, array.dtype).reshape(-1), Sparsity(tuple(order), tuple(blocks), levels)


def decode(stored: Array, shape: tuple[int, ...], how: Sparsity) -> Array:
    levels = [Level(one) if isinstance(one, int) else Level(0, *one) for one in how.levels]
    return densify(stored, shape, how.order, how.blocks, levels)


@given(st.data())
def test_what_is_encoded_comes_back(data: st.DataObject) -> None:
    rank = data.draw(st.integers(1, 4))
    blocks = {axis: data.draw(st.integers(1, 3)) for axis in range(rank) if data.draw(st.booleans())}
    shape = tuple(data.draw(st.integers(1, 3)) * blocks.get(axis, 1) for axis in range(rank))
    array = np.random.default_rng(data.draw(st.integers(0, 99))).integers(-1, 2, shape).astype(np.float32)
    order = [*data.draw(st.permutations(range(rank))), *range(rank, rank + len(blocks))]
    compressed = [*(data.draw(st.booleans()) for _ in range(rank)), *(False for _ in blocks)]
    if not any(compressed):
        compressed[0] = True
    if not array.any():
        array.reshape(-1)[0] = 1
    stored, how = encode(array, order, blocks, compressed)
    np.testing.assert_array_equal(decode(stored, shape, how), array)


def test_a_matrix_in_blocks_by_hand() -> None:
    # Rows of blocks of 2 x 2: the first has one in place 1, the second one in place 0.
    segments, indices = np.array([0, 1, 2], np.int32), np.array([1, 0], np.int32)
    levels = [Level(2), Level(0, segments, indices), Level(2), Level(2)]
    got = densify(np.arange(1, 9), (4, 4), (0, 1, 2, 3), (0, 1), levels)
    assert got.tolist() == [[0, 0, 1, 2], [0, 0, 3, 4], [5, 6, 0, 0], [7, 8, 0, 0]]


SPARSE = np.array([[0, 2, 0, 0], [0, 0, 0, 0], [3, 0, 0, -1]], np.float32)


def network(how: Sparsity, stored: Array, kind: str = "FLOAT32") -> bytes:
    """A fully connected layer with a sparse matrix; one of halves is made dense and then floats before."""
    weight = dataclasses.replace(constant("w", stored), shape=(3, 4), sparsity=how)
    tensors = [Tensor("x", (1, 4)), weight, Tensor("y", (1, 3))]
    nodes = [Node("FULLY_CONNECTED", ["x", "w", ""], ["y"], ("FullyConnectedOptions", {}))]
    if kind == "FLOAT16":
        tensors += [Tensor("d", (3, 4), "FLOAT16"), Tensor("f", (3, 4))]
        nodes = [
            Node("DENSIFY", ["w"], ["d"]),
            Node("DEQUANTIZE", ["d"], ["f"]),
            Node("FULLY_CONNECTED", ["x", "f", ""], ["y"], ("FullyConnectedOptions", {})),
        ]
    return tflite_file(tensors, nodes, ["x"], ["y"])


@each("kind", KINDS)
def test_a_sparse_weight_of_a_file(kind: Any, tmp_path: Path) -> None:
    segments, indices = np.array([0, 1, 1, 3], kind), np.array([1, 0, 3], kind)
    how = Sparsity((0, 1), (), [3, (segments, indices)])
    x = values(1, 4)
    (got,) = compute(read(network(how, np.array([2, 3, -1], np.float32)), tmp_path), x)
    np.testing.assert_allclose(got, x @ SPARSE.T, rtol=1e-6)


def test_sparse_halves_are_made_dense_by_an_operator(tmp_path: Path) -> None:
    stored, how = encode(SPARSE.astype(np.float16), (0, 1), {}, (False, True))
    x = values(1, 4)
    (got,) = compute(read(network(how, stored, "FLOAT16"), tmp_path), x)
    np.testing.assert_allclose(got, x @ SPARSE.T, rtol=1e-6)


def test_the_reference_reads_the_same(tmp_path: Path) -> None:
    litert = pytest.importorskip("ai_edge_litert.interpreter", reason="needs ai-edge-litert")
    stored, how = encode(SPARSE.astype(np.float16), (0, 1), {}, (False, True))
    content = network(how, stored, "FLOAT16")
    interpreter = litert.Interpreter(model_content=content, num_threads=1)
    interpreter.allocate_tensors()
    x = values(1, 4)
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], x)
    interpreter.invoke()
    (got,) = compute(read(content, tmp_path), x)
    np.testing.assert_allclose(got, interpreter.get_tensor(interpreter.get_output_details()[0]["index"]), rtol=1e-6)


ENDS, PLACES = np.array([0, 1, 1, 3], np.int32), np.array([1, 0, 3], np.int32)
FAULTS: dict[str, tuple[Sparsity, str]] = {
    "levels": (Sparsity((0, 1), (), [3]), "its 1 levels cover the dimensions 0, 1 of 2"),
    "order": (Sparsity((0, 0), (), [3, (ENDS, PLACES)]), "its 2 levels cover the dimensions 0, 0 of 2"),
    "size": (Sparsity((0, 1), (), [2, (ENDS, PLACES)]), "a dense level has 2 positions, but the dimension has 3"),
    "segments": (Sparsity((0, 1), (), [3, (ENDS[1:], PLACES)]), "a compressed level has 3 segment ends for 3 nodes"),
    "place": (Sparsity((0, 1), (), [3, (ENDS, PLACES + 1)]), "a compressed level names a position outside of 0 to 3"),
    "values": (Sparsity((0, 1), (), [3, 4]), "it has room for 12 values but stores 3"),
    "blocks": (Sparsity((0, 1, 2), (1,), [3, (ENDS, PLACES), 3]), "its blocks do not divide its dimensions"),
    "empty": (Sparsity((0, 1, 2), (1,), [3, (ENDS, PLACES), 0]), "it has blocks without elements"),
}


@each("name", FAULTS)
def test_what_does_not_fit_together_is_damage(name: str, tmp_path: Path) -> None:
    how, reason = FAULTS[name]
    with pytest.raises(InvalidModel) as caught:
        read(network(how, np.array([2, 3, -1], np.float32)), tmp_path)
    assert str(caught.value).endswith(
        f"is damaged: weight 'w' is stored sparse, but {reason}. Export or download it again."
    )


def test_a_level_without_indices_is_damage(tmp_path: Path) -> None:
    with pytest.raises(InvalidModel, match=r"is damaged: a sparse weight has indices of kind 0\. Export or download"):
        read(network(Sparsity((0, 1), (), [3, ()]), np.array([2, 3, -1], np.float32)), tmp_path)


def test_values_that_end_within_one_are_damage(tmp_path: Path) -> None:
    weight = Tensor("w", (3, 4), "FLOAT32", np.zeros(7, np.uint8), sparsity=Sparsity((0, 1), (), [3, (ENDS, PLACES)]))
    nodes = [Node("FULLY_CONNECTED", ["x", "w", ""], ["y"], ("FullyConnectedOptions", {}))]
    content = tflite_file([Tensor("x", (1, 4)), weight, Tensor("y", (1, 3))], nodes, ["x"], ["y"])
    with pytest.raises(InvalidModel, match=r"weight 'w' has 7 bytes, not a multiple of FLOAT32\. Export or download"):
        read(content, tmp_path)
