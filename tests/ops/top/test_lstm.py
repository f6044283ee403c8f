"""top.LSTM."""

from __future__ import annotations

import numpy as np
import pytest
from tpuc.api import F32, Node, TensorType
from tpuc_ops import top
from tpuc_ops.arrays import Array
from tpuc_testing import OpConformance, onnx_node, uniform

T, N, I, H = 5, 2, 4, 3
X, W, R, B = uniform(T, N, I), uniform(1, 4 * H, I), uniform(1, 4 * H, H), uniform(1, 8 * H)
EMPTY = uniform(0)
STATES = [uniform(1, N, H), uniform(1, N, H, seed=1)]


class TestLstm(OpConformance):
    op = top.LSTM(hidden_size=H)

    @staticmethod
    def reference(x: Array, w: Array, r: Array, b: Array, h: Array, c: Array) -> list[Array]:
        node = onnx_node("LSTM", hidden_size=H, inputs=(0, 1, 2, 3, EMPTY, 4, 5), outputs=2)
        y, last_h = node(x, w, r, b, h, c)
        return [y, last_h, last_cell(x, w[0], r[0], b, h, c)]

    samples = [X, W, R, B, *STATES], [X, W, R, None, None, None]
    flops = (T * N * (2 * 4 * H * (I + H) + 30 * H),) * 2


def last_cell(x: Array, w: Array, r: Array, b: Array, h: Array, c: Array) -> Array:
    """The last cell state, which ONNX's reference implementation does not return."""
    h, c = (state[0].astype(np.float64) if state.size else np.zeros((N, H)) for state in (h, c))
    bias = b[0, : 4 * H] + b[0, 4 * H :] if b.size else np.zeros(4 * H)
    for row in x:
        gates = row @ w.T + h @ r.T + bias
        i, o, f = (1 / (1 + np.exp(-gates[:, k * H : (k + 1) * H])) for k in range(3))
        c = f * c + i * np.tanh(gates[:, 3 * H :])
        h = o * np.tanh(c)
    return c[None]


def directions(op: top.LSTM) -> list[Array]:
    x = uniform(T, N, I)
    arrays = [x, uniform(2, 4 * H, I), uniform(2, 4 * H, H), uniform(2, 8 * H)]
    if op.batch_first:
        arrays[0] = x.swapaxes(0, 1)
    types = tuple(TensorType(array.shape, F32) for array in arrays)
    return list(op.evaluate(Node(op, types, op.infer(types)), arrays))


def test_the_second_direction_is_the_first_one_backwards() -> None:
    y, h, c = directions(top.LSTM(hidden_size=H, bidirectional=True))
    one = top.LSTM(hidden_size=H)
    arrays = [X[::-1], uniform(2, 4 * H, I)[1:], uniform(2, 4 * H, H)[1:], uniform(2, 8 * H)[1:]]
    types = tuple(TensorType(array.shape, F32) for array in arrays)
    y1, h1, c1 = one.evaluate(Node(one, types, one.infer(types)), arrays)
    assert (y[:, 1] == y1[::-1, 0]).all()
    assert (h[1] == h1[0]).all()
    assert (c[1] == c1[0]).all()


def test_batch_first_only_permutes() -> None:
    y, h, c = directions(top.LSTM(hidden_size=H, bidirectional=True))
    y1, h1, c1 = directions(top.LSTM(hidden_size=H, bidirectional=True, batch_first=True))
    assert (y1.transpose(1, 2, 0, 3) == y).all()
    assert (h1.swapaxes(0, 1) == h).all()
    assert (c1.swapaxes(0, 1) == c).all()


def test_the_seeds_example() -> None:
    types = tuple(TensorType(shape, F32) for shape in ((75, 2, 128), (2, 256, 128), (2, 256, 64)))
    assert top.LSTM(hidden_size=64, bidirectional=True).infer(types)[0].dims == (75, 2, 2, 64)


def test_a_filter_of_another_size_is_refused() -> None:
    types = tuple(TensorType(shape, F32) for shape in ((5, 2, 4), (1, 12, 5), (1, 12, 3)))
    with pytest.raises(ValueError, match="filter 1x12x5 should be 1x12x4"):
        top.LSTM(hidden_size=3).infer(types)
