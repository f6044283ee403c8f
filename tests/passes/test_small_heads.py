"""Last products of pooled features stay in floats, and maxima are taken before functions that fall and rise."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np
import pytest
from numpy.typing import NDArray
from tpuc.api import CALIBRATION_TABLE, QUANTIZE_TABLE, Op, Operation
from tpuc.interpreter import Interpreter
from tpuc.interpreter.values import real_values, types_of
from tpuc.ir import Module, Value
from tpuc.schedule import PassManager
from tpuc_driver.session import Session
from tpuc_lower.special_values.small_heads import small_head
from tpuc_ops import top
from tpuc_quantize.tables.table import CalibrationTable, TensorThreshold

from tests.families import each
from tests.passes.graphs import Network, ops
from tests.passes.test_canonicalize import canonicalized

Build = Callable[[Network, Value], Value]
FUNCTIONS = (top.GELU(), top.GELU(approx_mode="tanh"), top.SiLU(), top.HardSwish(), top.Mish())


def _pool(net: Network, x: Value) -> Value:
    return net.op(top.MaxPool(kernel_shape=x.tensor.dims[2:]), x)


def _pool_of_a_row(net: Network, x: Value) -> Value:
    rows = net.op(top.Reshape(shape=(*x.tensor.dims[:2], 1, -1)), x)
    return _pool(net, rows)


def _reduce(net: Network, x: Value) -> Value:
    return net.op(top.Reduce(axes=(-1,), mode="ReduceMax", keepdims=False), x)


def _turned(net: Network, x: Value) -> Value:
    turned = net.op(top.Permute(order=(0, 2, 3, 1)), x)
    return net.op(top.Reduce(axes=(1, 2), mode="ReduceMax"), turned)


@each("op", FUNCTIONS)
@each("maximum", [_pool, _pool_of_a_row, _reduce, _turned])
@each("shape", [(1, 3, 5, 7), (2, 5, 1, 31), (3, 1, 9, 1)])
def test_maxima_come_first(op: Op, maximum: Build, shape: tuple[int, ...]) -> None:
    """Also where all elements are negative, and the largest result is that of the smallest element."""
    net = Network(*shape)
    module = net.finish(maximum(net, net.op(op, net.input)))
    names = [one.name for one in module.main.outputs]
    random = np.random.default_rng(45)
    inputs = [random.normal(shift, 1, shape).astype(np.float32) for shift in (0, -2, -6, -40, 3)]
    wanted = [Interpreter(module).run({"v0": x}) for x in inputs]
    found = canonicalized(module)
    kinds = type(op).__name__
    assert found.count(kinds) == 2
    assert found[-1] == "Max"
    for x, values in zip(inputs, wanted, strict=True):
        got = Interpreter(module).run({"v0": x})
        for name in names:
            np.testing.assert_array_equal(got[name], values[name])


@each(
    ("function", "last"),
    [
        (top.GELU(), top.MaxPool(kernel_shape=(3, 5))),
        (top.GELU(), top.MaxPool(kernel_shape=(5, 7), pads=(1, 0, 0, 0))),
        (top.Sin(), top.MaxPool(kernel_shape=(5, 7))),
        (top.GELU(), top.AvgPool(kernel_shape=(5, 7))),
        (top.GELU(), top.Reduce(axes=(-1,), mode="ReduceMin")),
    ],
)
def test_other_pools_and_functions_stay(function: Op, last: Op) -> None:
    net = Network(1, 3, 5, 7)
    module = net.finish(net.op(last, net.op(function, net.input)))
    before = ops(module)
    assert canonicalized(module) == before


def test_a_function_that_others_read_stays() -> None:
    net = Network(1, 3, 5, 7)
    wave = net.op(top.GELU(), net.input)
    module = net.finish(_pool(net, wave), wave)
    assert canonicalized(module).count("Max") == 0


def classifier(batch: int = 1, channels: int = 37, classes: int = 11, size: int = 21) -> Module:
    """Features that are pooled, normalized and classified."""
    net = Network(batch, 3, size, size)
    conv = top.Conv(kernel_shape=(3, 3), pads=(1, 1, 1, 1))
    x = net.op(conv, net.input, net.weight(channels, 3, 3, 3), net.weight(channels))
    x = net.op(conv, x, net.weight(channels, channels, 3, 3), net.weight(channels))
    x = net.op(top.Reshape(shape=(batch, channels)), _pool(net, net.op(top.GELU(), x)))
    x = net.op(top.LayerNorm(axis=1, eps=1e-5), x, net.weight(channels, low=0.5), net.weight(channels))
    return net.finish(net.op(top.MatMul(), x, net.weight(channels, classes), net.weight(classes)))


def _kinds(found: Iterable[Operation]) -> list[str]:
    return sorted(one.op.name.removeprefix("top.") for one in found)


def test_a_small_head_is_found() -> None:
    head = small_head(classifier())
    assert _kinds(head.products) == ["MatMul"]
    assert _kinds(head.before) == ["LayerNorm", "MaxPool", "Reshape"]


@each(("channels", "classes", "size"), [(37, 4000, 21), (37, 11, 3), (600, 500, 21)])
def test_a_large_head_is_not(channels: int, classes: int, size: int) -> None:
    """One with most of the filters, one with many of the elements, and one with many filters of its own."""
    head = small_head(classifier(1, channels, classes, size))
    assert not head.products
    assert not head.before


def test_one_large_output_makes_all_heads_large() -> None:
    net = Network(1, 3, 21, 21)
    x = net.op(top.Conv(kernel_shape=(3, 3)), net.input, net.weight(16, 3, 3, 3), net.none)
    boxes = net.op(top.Conv(kernel_shape=(1, 1)), x, net.weight(4, 16, 1, 1), net.none)
    pooled = net.op(top.Reshape(shape=(1, 16)), net.op(top.AvgPool(kernel_shape=(19, 19)), x))
    module = net.finish(boxes, net.op(top.MatMul(), pooled, net.weight(16, 2), net.weight(2)))
    assert not small_head(module).products


def _with_attention(rows: int, classes: int) -> Module:
    """A product of computed operands, as many elements as it has, and pooled features behind it."""
    net = Network(1, 3, rows, 64)
    x = net.op(top.Conv(kernel_shape=(1, 1)), net.input, net.weight(3, 3, 1, 1), net.none)
    turned = net.op(top.Permute(order=(0, 1, 3, 2)), x)
    x = net.op(top.MatMul(), net.op(top.MatMul(), x, turned, net.none), x, net.none)
    pooled = net.op(top.Reshape(shape=(1, 3)), net.op(top.AvgPool(kernel_shape=(rows, 64)), x))
    return net.finish(net.op(top.MatMul(), pooled, net.weight(3, classes), net.none))


@each("rows", [64, 200])
def test_computed_operands_are_no_filters(rows: int) -> None:
    """The network has 9 elements of filters before its last product: 2 classes have 40 % of all."""
    assert not small_head(_with_attention(rows, 2)).products
    assert small_head(_with_attention(rows, 1)).products


@each(("columns", "found"), [(1, True), (2, False)])
def test_a_product_of_two_values_may_be_a_head(columns: int, found: bool) -> None:
    """It counts what it reads of both, as where features of pictures are compared with those of texts. With two columns
    of the image these are 1,138 elements, of which one operand and the result are 82; the limit is 535.
    """
    net = Network(1, 3, 33, 33)
    conv, x = top.Conv(kernel_shape=(3, 3), pads=(1, 1, 1, 1)), net.input
    for inputs, outputs in ((3, 16), (16, 64), (64, 16)):
        x = net.op(conv, x, net.weight(outputs, inputs, 3, 3), net.none)
    pooled = net.op(top.Reshape(shape=(1, 16)), net.op(top.AvgPool(kernel_shape=(33, 33)), x))
    rows = 33 if columns == 2 else 3
    others = net.op(top.Slice(offset=(0, 0, 0, 0), steps=(1, 1, 1, 1), ends=(1, 16, rows, columns)), x)
    others = net.op(top.Reshape(shape=(16, rows * columns)), others)
    module = net.finish(net.op(top.MatMul(), pooled, others, net.none))
    assert bool(small_head(module).products) is found


def _lowered(module: Module, chip: str, mode: str, table: CalibrationTable) -> tuple[Module, Mapping[str, str]]:
    session = Session(chip=chip, quantize=mode)
    context = session.context({CALIBRATION_TABLE: table}, mode)
    result = module.clone()
    for stage in ("top-optimize", *(("calibrate",) if mode == "int8" else ()), "lower"):
        PassManager(context).run_pipeline(stage, result)
    return result, context.find(QUANTIZE_TABLE, {})


@pytest.mark.parametrize("chip", ["bm1684x", "cv186x"])
@each(("batch", "channels", "classes"), [(1, 37, 11), (2, 65, 3), (3, 31, 33)])
def test_a_head_in_floats_is_nearer(chip: str, batch: int, channels: int, classes: int) -> None:
    """Nothing behind the last convolution is rounded to bytes, in images of odd sizes and batches."""
    module = classifier(batch, channels, classes)
    optimized = module.clone()
    canonicalized(optimized)
    x = np.random.default_rng(7).uniform(-1, 1, (batch, 3, 21, 21)).astype(np.float32)
    values = Interpreter(optimized).run({"v0": x}, keep="all")
    table = CalibrationTable(
        {
            name: TensorThreshold(float(np.abs(array).max()), float(array.min()), float(array.max()))
            for name, array in values.items()
        }
    )
    wanted = Interpreter(module).run({"v0": x})

    def noise(mode: str) -> tuple[float, Mapping[str, str]]:
        lowered, modes = _lowered(module, chip, mode, table)
        host, types = Interpreter(lowered), types_of(lowered)
        got = host.run({"v0": x})
        (mine,), (name,) = wanted.values(), host.output_names
        theirs: NDArray[np.float32] = real_values(got[name], types[name]).reshape(mine.shape)
        return float(((theirs - mine) ** 2).mean() / (mine**2).mean()), modes

    bytes_, modes = noise("int8")
    assert sorted(modes.values()) == ["f16", *["f32"] * 6]
    assert bytes_ < 10**-2.5
    assert noise("f16")[0] < 10**-4
