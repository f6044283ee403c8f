"""Products that are only read in parts, as queries, keys and values of one layer are."""

from __future__ import annotations

from tpuc.api import Value, apply_patterns
from tpuc_ops import top
from tpuc_optimize.canonicalization.common import Names
from tpuc_optimize.canonicalization.products import PartsOfProduct

from tests.families import each
from tests.passes.graphs import Network, assert_equal, ops, run


def cut(net: Network, x: Value, axis: int, first: int, end: int) -> Value:
    offset, ends = [0] * x.tensor.rank, [*x.tensor.dims]
    offset[axis], ends[axis] = first, end
    return net.op(top.Slice(offset=tuple(offset), steps=(1,) * len(ends), ends=tuple(ends)), x, *[net.none] * 3)


@each("order", [None, (2, 0, 3, 1, 4), (0, 2, 3, 1, 4), (4, 0, 1, 3, 2)])
@each(
    ("ranges", "expected"), [([(0, 1), (1, 2), (2, 3)], 3), ([(1, 3), (0, 1)], 2), ([(0, 1), (0, 3)], 1), ([(0, 2)], 1)]
)
@each("turned", [False, True])
def test_a_product_that_is_read_in_parts_becomes_several(
    order: tuple[int, ...] | None, ranges: list[tuple[int, int]], expected: int, turned: bool
) -> None:
    net = Network(2, 5, 4)
    matrix = net.weight(24, 4) if turned else net.weight(4, 24)
    whole = net.op(top.MatMul(right_transpose=turned), net.input, matrix, net.weight(24))
    apart = net.op(top.Reshape(shape=(2, 5, 3, 2, 4)), whole)
    axis = 2
    if order is not None:
        apart = net.op(top.Permute(order=order), apart)
        axis = order.index(2)
    module = net.finish(*(cut(net, apart, axis, first, end) for first, end in ranges))
    names = [value.name for value in module.main.outputs]
    before = run(module)
    apply_patterns(module, [PartsOfProduct(Names(module))], constant=top.Weight(), absent=top.None_())
    assert_equal(module, before)
    assert ops(module).count("MatMul") == expected
    assert [value.name for value in module.main.outputs] == names
