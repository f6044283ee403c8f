"""Images that are taken apart and put together: the values stay, the copies go."""

from __future__ import annotations

from tpuc.api import Module, Value
from tpuc_ops import top

from tests.families import each
from tests.passes.graphs import Network
from tests.passes.test_canonicalize import canonicalized


def _corner(net: Network, x: Value, row: int, column: int, step: int) -> Value:
    """Every `step`-th row, and of these every `step`-th column."""
    rows = net.op(top.Slice(offset=(0, 0, row, 0), steps=(1, 1, step, 1), ends=(1, 3, 12, 12)), x)
    height = rows.tensor.dims[2]
    return net.op(top.Slice(offset=(0, 0, 0, column), steps=(1, 1, 1, step), ends=(1, 3, height, 12)), rows)


def _focus(corners: list[tuple[int, int]], step: int, **attributes: tuple[int, ...]) -> Module:
    net = Network(1, 3, 12, 12)
    parts = [_corner(net, net.input, row, column, step) for row, column in corners]
    conv = top.Conv(kernel_shape=(3, 3), **attributes)  # pyright: ignore[reportArgumentType]  # windows only
    return net.finish(net.op(conv, net.op(top.Concat(), *parts), net.weight(4, 3 * len(parts), 3, 3), net.weight(4)))


def test_space_to_depth_goes_into_the_convolution() -> None:
    module = _focus([(0, 0), (1, 0), (0, 1), (1, 1)], 2, pads=(1, 1, 1, 1), strides=(2, 1))
    assert canonicalized(module) == ["Conv"]
    (conv,) = (operation for operation in module.main.operations if isinstance(operation.op, top.Conv))
    assert (conv.op.kernel_shape, conv.op.strides, conv.op.pads) == ((6, 6), (4, 2), (2, 2, 2, 2))


def test_some_parts_of_a_coarser_grid_do_too() -> None:
    assert canonicalized(_focus([(2, 1), (0, 0)], 3)) == ["Conv"]


def test_dilated_windows_keep_their_parts() -> None:
    ops = canonicalized(_focus([(0, 0), (1, 1)], 2, dilations=(2, 2)))
    assert ops.count("Concat") == 1


def test_the_same_part_twice_stays() -> None:
    assert canonicalized(_focus([(0, 0), (0, 0)], 2)).count("Concat") == 1


def test_patches_that_are_far_apart_become_channels() -> None:
    net = Network(2, 3, 32, 64)
    conv = net.op(top.Conv(kernel_shape=(16, 16), strides=(16, 16)), net.input, net.weight(5, 3, 16, 16), net.weight(5))
    module = net.finish(conv)
    assert canonicalized(module) == ["Reshape", "Permute", "Reshape", "Conv"]


@each(
    ("kernel", "stride", "pads"),
    [
        ((17, 17), (16, 16), (0, 0, 0, 0)),  # windows overlap by one, and the last patch is not whole
        ((1, 40), (1, 20), (0, 0, 0, 0)),  # two patches each
        ((3, 7), (16, 2), (1, 3, 1, 2)),  # gaps between rows of windows, padding all around
        ((20, 18), (18, 17), (4, 0, 19, 5)),
        ((16, 5), (16, 16), (0, 2, 0, 0)),
    ],
)
def test_windows_that_step_far_step_by_one_over_patches(
    kernel: tuple[int, int], stride: tuple[int, int], pads: tuple[int, int, int, int]
) -> None:
    net = Network(2, 3, 37, 90)
    conv = top.Conv(kernel_shape=kernel, strides=stride, pads=pads)
    module = net.finish(net.op(conv, net.input, net.weight(5, 3, *kernel), net.weight(5)))
    assert [op for op in canonicalized(module) if op != "Pad"] == ["Reshape", "Permute", "Reshape", "Conv"]
    (changed,) = (one for operation in module.main.operations if isinstance(one := operation.op, top.Conv))
    assert (changed.strides, changed.pads) == ((1, 1), (0, 0, 0, 0))


def test_a_stride_beyond_the_image_takes_no_more_zeros_than_the_image() -> None:
    """A stride of 2^31 - 1 asked for 24 TiB."""
    for pads in ((0, 0, 0, 0), (2, 0, 1, 3)):
        net = Network(1, 3, 20, 24)
        conv = top.Conv(kernel_shape=(5, 3), strides=(2**31 - 1, 3), pads=pads)
        module = net.finish(net.op(conv, net.input, net.weight(4, 3, 5, 3), net.weight(4)))
        canonicalized(module)
        sizes = [result.tensor.size for operation in module.main.operations for result in operation.results]
        assert max(sizes) < 2 * net.input.tensor.size


def test_near_patches_and_groups_stay() -> None:
    for kernel, stride, group in ((8, 8, 1), (16, 16, 3)):
        net = Network(1, 3, 33, 32)
        conv = top.Conv(kernel_shape=(kernel, kernel), strides=(stride, stride), group=group)
        assert canonicalized(
            net.finish(net.op(conv, net.input, net.weight(3, 3 // group, kernel, kernel), net.none))
        ) == ["Conv"]


def test_a_permutation_goes_before_a_concatenation_that_becomes_free() -> None:
    net = Network(1, 3, 20)
    parts = [net.op(top.Slice(offset=(0, 0, at), steps=(1, 1, 1), ends=(1, 3, at + 5)), net.input) for at in (0, 5)]
    whole = net.op(top.Permute(order=(0, 2, 1)), net.op(top.Concat(axis=2), *parts))
    assert canonicalized(net.finish(whole)) == ["Slice", "Slice", "Permute", "Permute", "Concat"]


def test_a_concatenation_that_others_read_keeps_its_place() -> None:
    net = Network(1, 3, 20)
    whole = net.op(top.Concat(axis=2), net.input, net.input)
    assert canonicalized(net.finish(net.op(top.Permute(order=(0, 2, 1)), whole), whole)).count("Concat") == 1


def test_a_single_window_needs_no_stride() -> None:
    for pool, expected in ((top.MaxPool(kernel_shape=(25, 5), strides=(25, 5)), (1, 1)),
                           (top.AvgPool(kernel_shape=(20, 5), strides=(25, 5)), (6, 1))):  # fmt: skip
        net = Network(1, 2, 25, 5)
        module = net.finish(net.op(pool, net.input))
        canonicalized(module)
        (operation,) = (o for o in module.main.operations if isinstance(o.op, (top.MaxPool, top.AvgPool)))
        assert operation.op.strides == expected
