"""Stressed networks mean what they meant, before anything is quantized."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tpuc.api import Module
from tpuc.interpreter import Interpreter
from tpuc_ops import top

from tests.passes.calibration.stress import FAR, VARIANTS, Stressed
from tests.passes.graphs import Network

Array = NDArray[Any]
EXACT = [name for name in VARIANTS if name != "far-no"]


@pytest.fixture
def detector() -> Module:
    """Scores of places as a Sigmoid and boxes without a function, from two layers with a relu between."""
    net = Network(1, 3, 8, 8)
    first = top.Conv(kernel_shape=(3, 3), do_relu=True)
    shared = net.op(first, net.input, net.weight(8, 3, 3, 3), net.weight(8))
    second = net.op(top.Conv(kernel_shape=(1, 1), do_relu=True), shared, net.weight(8, 8, 1, 1), net.weight(8))
    scores, boxes = (
        net.op(top.Conv(kernel_shape=(1, 1)), second, net.weight(channels, 8, 1, 1), net.weight(channels))
        for channels in (1, 4)
    )
    return net.finish(net.op(top.Sigmoid(), scores), boxes)


def images(count: int = 6) -> list[Array]:
    return list(np.random.default_rng(3).standard_normal((count, 1, 3, 8, 8)).astype(np.float32))


def outputs(stressed: Stressed, image: Array) -> list[Array]:
    host = Interpreter(stressed.module)
    values = host.run(dict.fromkeys(host.inputs, image), "all")
    return stressed.restore([values[name] for name in host.output_names])


@pytest.mark.parametrize("name", EXACT)
def test_outputs_stay(detector: Module, name: str) -> None:
    stressed = VARIANTS[name](detector.clone(), images())
    assert stressed is not None
    stressed.module.verify()
    for image in images():
        for got, wanted in zip(outputs(stressed, image), outputs(Stressed(detector), image), strict=True):
            assert got.reshape(wanted.shape) == pytest.approx(wanted, rel=1e-4, abs=1e-5)


def test_no_is_far_and_the_rest_stays(detector: Module) -> None:
    stressed = VARIANTS["far-no"](detector.clone(), images())
    assert stressed is not None
    (scores,) = (one for one in stressed.module.main.operations if isinstance(one.op, top.Sigmoid))
    logits = scores.operands[0].name
    lowest: list[float] = []
    for image in images():
        got, wanted = outputs(stressed, image), outputs(Stressed(detector), image)
        assert got[1] == pytest.approx(wanted[1])
        decides = wanted[0] > 0.3
        assert got[0][decides] == pytest.approx(wanted[0][decides], rel=1e-5)
        assert (got[0][~decides] < 0.31).all()
        lowest.append(float(Interpreter(stressed.module).run({"v0": image}, [logits])[logits].min()))
    assert min(lowest) == pytest.approx(FAR, rel=1e-4)


def test_classes_keep_their_order() -> None:
    net = Network(1, 16)
    hidden = net.op(top.MatMul(do_relu=True), net.input, net.weight(16, 8), net.weight(8))
    module = net.finish(net.op(top.MatMul(), hidden, net.weight(8, 5), net.weight(5)))
    samples = list(np.random.default_rng(4).standard_normal((8, 1, 16)).astype(np.float32))
    for name, stress in VARIANTS.items():
        stressed = stress(module.clone(), samples)
        for sample in samples if stressed is not None else ():
            assert stressed is not None
            (got,), (wanted,) = outputs(stressed, sample), outputs(Stressed(module), sample)
            assert got.argsort().tolist() == wanted.argsort().tolist(), name


def test_what_is_not_there_is_not_changed() -> None:
    net = Network(1, 4)
    module = net.finish(net.op(top.MatMul(), net.input, net.weight(4, 4), net.none))
    names = [name for name, stress in VARIANTS.items() if stress(module.clone(), [np.ones((1, 4), np.float32)])]
    assert names == ["plain", "tiny-output"]
