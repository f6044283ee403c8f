"""The largest magnitudes that values can have."""

from __future__ import annotations

from tpuc_ops.top.add import Add
from tpuc_ops.top.avg_pool import AvgPool
from tpuc_ops.top.clip import Clip
from tpuc_ops.top.concat import Concat
from tpuc_ops.top.conv import Conv
from tpuc_ops.top.max_pool import MaxPool
from tpuc_ops.top.relu import Relu
from tpuc_ops.top.sigmoid import Sigmoid
from tpuc_ops.top.softmax import Softmax
from tpuc_passes.calibration.bounds import bounds_of

from tests.passes.graphs import Network


def test_ops_with_a_bound_and_those_that_pass_it_on() -> None:
    net = Network(1, 3, 4, 4)
    expected = {}
    six = net.op(Conv(kernel_shape=(1, 1), do_relu=True, relu_limit=6.0), net.input, net.weight(3, 3, 1, 1), net.none)
    clipped = net.op(Clip(min=-3.0, max=2.0), net.input)
    score = net.op(Sigmoid(), net.input)
    joined = net.op(Concat(axis=1), six, clipped, score)
    capped = net.op(Relu(relu_limit=1.5), net.input)
    expected |= {six.name: 6.0, clipped.name: 3.0, score.name: 1.0, joined.name: 6.0, capped.name: 1.5}
    mean = net.op(AvgPool(kernel_shape=(2, 2)), net.op(MaxPool(kernel_shape=(2, 2)), joined))
    classes = net.op(Softmax(axis=1), net.input)
    expected |= {mean.name: 6.0, classes.name: 1.0}
    free = net.op(Conv(kernel_shape=(1, 1), do_relu=True), six, net.weight(3, 3, 1, 1), net.none)
    sums = net.op(Add(), score, score)
    mixed = net.op(Concat(axis=1), score, net.op(Relu(), net.input))
    logarithms = net.op(Softmax(axis=1, log=True), net.input)
    found = bounds_of(net.finish(mean, classes, free, sums, mixed, logarithms))
    (pooled,) = found.keys() - expected.keys()
    assert found == {**expected, pooled: 6.0}
