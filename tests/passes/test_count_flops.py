"""`count-flops` counts as docs/spec says."""

from __future__ import annotations

from tpuc.api import IntegerAttr
from tpuc_ops import top
from tpuc_optimize.count_flops import CountFlops

from tests.passes.graphs import CONTEXT, Network


def test_a_convolution_by_hand() -> None:
    """64 filters 3x7x7, stride 2, on 173x141 padded by one column on both sides."""
    net = Network(1, 3, 173, 141)
    op = top.Conv(kernel_shape=(7, 7), strides=(2, 2), pads=(0, 1, 0, 1))
    module = net.finish(net.op(op, net.input, net.weight(64, 3, 7, 7), net.weight(64)))
    assert module.main.outputs[0].tensor.dims == (1, 64, 84, 69)
    assert CountFlops().run(module, CONTEXT)
    assert module.attributes["module.FLOPs"] == IntegerAttr(109428480)
    assert not CountFlops().run(module, CONTEXT)


def test_ops_add_up() -> None:
    net = Network(1, 3, 4, 5)
    module = net.finish(net.op(top.Relu(relu_limit=6.0), net.op(top.Relu(), net.input)))
    CountFlops().run(module, CONTEXT)
    assert module.attributes["module.FLOPs"] == IntegerAttr(60 + 2 * 60)
