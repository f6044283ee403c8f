"""What a convolution absorbs although reshapes and permutations lie in between, judged by ONNX Runtime."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime  # pyright: ignore[reportMissingTypeStubs]
import pytest
from tpuc.interpreter import Interpreter
from tpuc_driver.session import Session

from benchmarks.architectures.graph import Graph


def _kinds(folder: Path, build: Callable[[Graph], str], *shape: int) -> Counter[str]:
    """The ops of the optimized network, whose results are those of ONNX Runtime under the same names."""
    net, path = Graph(), folder / "net.onnx"
    path.write_bytes(net.model(build(net)).SerializeToString())
    module = Session().transform(path)
    x = np.random.default_rng(2).standard_normal((1, *shape)).astype(np.float32)
    engine: Any = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    wanted = dict(zip([one.name for one in engine.get_outputs()], engine.run(None, {"x0": x}), strict=True))
    found = Interpreter(module).run({"x0": x})
    for name, array in wanted.items():
        assert np.allclose(found[name], array, rtol=1e-4, atol=1e-4)
    return Counter(operation.op.name for operation in module.main.operations)


@pytest.mark.parametrize(("pad", "dilation", "left"), [((4, 0), 2, 0), ((4, 3), 2, 0), ((5, 0), 2, 1)])
def test_padded_sequences(pad: tuple[int, int], dilation: int, left: int, tmp_path: Path) -> None:
    """Only padding that a whole window would lie in stays an op."""

    def build(net: Graph) -> str:
        x = net.pad(net.input(3, 20), [pad[0]], [pad[1]])
        return net.conv(x, 4, 3, dilation=dilation, pads=[0, 0])

    assert _kinds(tmp_path, build, 3, 20)["top.Pad"] == left


def test_padding_of_channels_stays(tmp_path: Path) -> None:
    def build(net: Graph) -> str:
        x = net.node("Pad", [net.input(3, 20), net.whole(0, 1, 4, 0, 0, 0)], (1, 4, 24))
        return net.conv(x, 4, 3, dilation=2, pads=[0, 0])

    assert _kinds(tmp_path, build, 3, 20)["top.Pad"] == 1


def test_norm_and_relu_of_moved_products(tmp_path: Path) -> None:
    def build(net: Graph) -> str:
        x = net.turn(net.reshape(net.conv(net.input(3, 6, 4), 8), 8, 2, 3, 4), 0, 1, 3, 2, 4)
        return net.each("Relu", net.batch_norm(x))

    kinds = _kinds(tmp_path, build, 3, 6, 4)
    assert kinds["top.Relu"] == kinds["top.Scale"] == 0
    assert kinds["top.Permute"] == 1


def test_norm_of_split_channels_stays(tmp_path: Path) -> None:
    def build(net: Graph) -> str:
        return net.batch_norm(net.reshape(net.conv(net.input(3, 6, 4), 8), 4, 2, 6, 4))

    assert _kinds(tmp_path, build, 3, 6, 4)["top.Scale"] == 1


def test_relu_of_a_value_with_other_readers_stays(tmp_path: Path) -> None:
    def build(net: Graph) -> str:
        x = net.turn(net.conv(net.input(3, 6, 4), 8), 0, 2, 3, 1)
        return net.both("Add", net.each("Relu", x), x)

    assert _kinds(tmp_path, build, 3, 6, 4)["top.Relu"] == 1


def test_volumes_pass_from_one_convolution_to_the_next_by_depth(tmp_path: Path) -> None:
    """Only the ends are permuted, whatever groups and strides."""

    def build(net: Graph) -> str:
        x = net.each("Relu", net.batch_norm(net.conv(net.input(4, 5, 6, 6), 8, 3, (2, 1, 1), groups=2)))
        x = net.each("Relu", net.conv(x, 8, (3, 1, 1), groups=8))
        return net.conv(x, 4, 2, dilation=2, pads=[1] * 6)

    kinds = _kinds(tmp_path, build, 4, 5, 6, 6)
    assert kinds["top.Permute"] == 2
    assert kinds["top.Relu"] == kinds["top.Scale"] == 0
