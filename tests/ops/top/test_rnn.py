"""top.RNN."""

from __future__ import annotations

from tpuc.api import F32, Node, TensorType
from tpuc_ops import top
from tpuc_testing import OpConformance, onnx_node, uniform

T, N, I, H = 5, 2, 4, 3


class TestRnn(OpConformance):
    op = top.RNN(hidden_size=H)
    reference = onnx_node("RNN", inputs=(0, 1, 2, 3), outputs=2, hidden_size=H)
    samples = ([uniform(T, N, I), uniform(1, H, I), uniform(1, H, H), uniform(1, 2 * H)],)
    flops = (T * N * (2 * H * (I + H) + 8 * H),)


def test_the_second_direction_is_the_first_one_backwards() -> None:
    arrays = [uniform(T, N, I), uniform(2, H, I), uniform(2, H, H), uniform(2, 2 * H)]
    both = top.RNN(hidden_size=H, bidirectional=True, activation="Relu")
    one = top.RNN(hidden_size=H, activation="Relu")
    types = tuple(TensorType(array.shape, F32) for array in arrays)
    y, h = both.evaluate(Node(both, types, both.infer(types)), arrays)
    y1, h1 = one.evaluate(Node(one, types, ()), [arrays[0][::-1], *(array[1:] for array in arrays[1:])])
    assert (y[:, 1] == y1[::-1, 0]).all()
    assert (h[1] == h1[0]).all()


def test_batch_first_only_permutes() -> None:
    arrays = [uniform(T, N, I), uniform(1, H, I), uniform(1, H, H)]
    plain, by_batch = top.RNN(hidden_size=H), top.RNN(hidden_size=H, batch_first=True)
    y, h = plain.evaluate(Node(plain, (), ()), arrays)
    y1, h1 = by_batch.evaluate(Node(by_batch, (), ()), [arrays[0].swapaxes(0, 1), *arrays[1:]])
    assert (y1.transpose(1, 2, 0, 3) == y).all()
    assert (h1.swapaxes(0, 1) == h).all()
