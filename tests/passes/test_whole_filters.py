"""Filters that are whole numbers times a factor become whole numbers, and the network stays the same."""

from __future__ import annotations

import ml_dtypes
import numpy as np
from tpuc.api.evaluation import stated_factors
from tpuc_ops import top
from tpuc_prequantized.integer_weights import make_integer_weights

from tests.passes.graphs import Array, Network, assert_equal, run


def _in_short_floats(array: Array) -> Array:
    return array.astype(ml_dtypes.bfloat16).astype(np.float32)


def test_factors_move_past_relus_with_a_limit_and_pools() -> None:
    net = Network(1, 3, 6, 6)
    first, second = net.weight(4, 3, 3, 3), net.weight(5, 4, 1, 1)
    value = net.op(top.Conv(kernel_shape=(3, 3), do_relu=True, relu_limit=1.5), net.input, first, net.weight(4))
    value = net.op(top.MaxPool(kernel_shape=(2, 2)), value)
    module = net.finish(net.op(top.Conv(kernel_shape=(1, 1)), value, second, net.none))
    whole = np.rint(module.weights[first.name] * 127)
    module.weights[first.name] = whole.astype(np.float32) * np.float32(0.0123)
    before = run(module)
    made = next(one for one in module.main.operations if isinstance(one.op, top.Conv))
    old = module.weights[first.name]
    assert (_in_short_floats(old) != old).any()
    make_integer_weights(module)
    assert_equal(module, before)
    filters = module.constant(made.operands[1])
    assert filters is not None
    np.testing.assert_allclose(_in_short_floats(filters), filters, rtol=2.0**-20)
    assert len(stated_factors(module)) == 2


def test_other_filters_stay() -> None:
    net = Network(1, 3, 4, 4)
    value = net.op(top.Conv(kernel_shape=(1, 1), do_relu=True), net.input, net.weight(40, 3, 1, 1), net.weight(40))
    module = net.finish(net.op(top.Conv(kernel_shape=(1, 1)), value, net.weight(2, 40, 1, 1), net.none))
    make_integer_weights(module)
    assert not stated_factors(module)
