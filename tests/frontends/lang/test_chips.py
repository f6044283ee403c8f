"""Functions in groups, each group as one network compiled for BM1684X: every value is what its evaluation gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pytest
import tpuc_lang as tl
from tpuc.api import Module, TensorType, numpy_dtype
from tpuc.interpreter import Interpreter
from tpuc_driver.session import Session
from tpuc_testing.values import build_exposed

from tests.families import each
from tests.frontends.lang.cases import CASES, LEVELS, ROIS, SHAPE
from tests.frontends.lang.programs import Array, const, floats, integers, numbers
from tests.frontends.lang.test_ops import CASES as EARLIER_CASES
from tests.frontends.lang.test_stored_values import FUNCTIONS
from tests.frontends.lang.test_whole_numbers import filters
from tests.turns import in_turn

Tensors = list[tl.Tensor]
Network = Callable[[], tuple[Tensors, Tensors]]
FLOAT_MODES = ("f32", "f16", "bf16")
PARTS = 6
LAST_PLACES = {"f32": 1e-4, "f16": 2.0**-10, "bf16": 2.0**-7}
"""How far exponentials of different numpy builds may lie apart, as a part of the largest value."""


def of_cases(group: str) -> tuple[Tensors, Tensors]:
    x, y = floats(*SHAPE), floats(*SHAPE, seed=1)
    return [case.build(x, y) for case in CASES.values() if case.group == group], [x, y]


def of_earlier_cases(part: int) -> tuple[Tensors, Tensors]:
    x, y = floats(*SHAPE), floats(*SHAPE, seed=1)
    return [build(x, y) for build, _ in list(EARLIER_CASES.values())[part::PARTS]], [x, y]


def regions() -> tuple[Tensors, Tensors]:
    """The chip has no kernel for regions: the host computes them, of computed images and places."""
    x, y = floats(*SHAPE), floats(*SHAPE, seed=1)
    nothing = tl.reshape(tl.slice(tl.sub(x, x), [0, 0, 0], [1, 1, 3]), [3, 5])
    rois = tl.add(nothing, const(ROIS))
    images = [tl.add(x, y), tl.sub(x, y)]
    return [tl.roiExtractor(rois, const(LEVELS, "int32"), images, 2, 2, 2, [1, 2], "DynFuse")], [x, y]


def attention() -> tuple[Tensors, Tensors]:
    sizes, width, heads, points, queries = [(4, 3), (2, 5)], 8, 2, 3, 5
    total, levels = sum(height * columns for height, columns in sizes), len(sizes)
    counts = [heads * levels * points * 2, heads * levels * points, width, width]
    mask = (np.arange(total) % 7 == 3).astype(np.float32)[None]
    places = np.abs(numbers(1, queries, levels, 2))
    given = [tl.Tensor(data=one) for one in (numbers(1, queries, width), numbers(1, total, width), mask, places)]
    parameters = [const(one) for count in counts for one in (numbers(width, count), numbers(count))]
    return [tl.multi_scale_deformable_attention(*given, *parameters, sizes, width, heads, levels, points)], given


def normalizations() -> tuple[Tensors, Tensors]:
    x = floats(*SHAPE)
    mean, variance = const(numbers(4)), const(numbers(4) ** 2 + 1)
    return [
        tl.batch_norm(x, mean, variance),
        tl.group_norm(x, num_groups=2),
        tl.layer_norm(x, axis=3),
        tl.rms_norm(x, const(numbers(5))),
    ], [x]


GROUPS = sorted({case.group for case in CASES.values()} - {"regions"})
FLOATS: dict[str, Network] = {
    **{name: lambda name=name: of_cases(name) for name in GROUPS},
    "attention": attention,
    "normalizations": normalizations,
    **{f"earlier {part}": lambda part=part: of_earlier_cases(part) for part in range(PARTS)},
}


def multipliers() -> tuple[Tensors, Tensors]:
    x, y = integers(1, 4, 6, 5), integers(1, 4, 6, 5, seed=1)
    sums = tl.conv_int(x, const(filters(3, 4, 2, 2), "int8"), input_zp=2)
    matrix = const(filters(5, 4), "int8")
    return [
        tl.requant_int(sums, [1518500249, 1 << 30, 3], [-42, -41, -9], [1, 2, 3], 2),
        tl.requant_int(sums, 1 << 30, -8, 3, 1, "int16", None, "half_to_even"),
        tl.dequant_int(y, [3, 5, 1234567, 1], [-2, -1, -12, 0], 1, 0, 0, "int32"),
        tl.matmulrq_int_op(y, matrix, multiplier=[1518500249, 3, 7, 1 << 30], shift=[41, 5, 9, 40], offset=1),
    ], [x, y]


def shifts() -> tuple[Tensors, Tensors]:
    x, y = integers(1, 4, 6, 5), integers(1, 4, 6, 5, seed=1)
    return [
        tl.add_shift(x, y, -3, "int16", "half_up"),
        tl.sub_shift(x, y, -4, "int8", "towards_zero"),
        tl.mul_shift(x, y, -7, "int8"),
        tl.lut(x, const(np.arange(256) - 128, "int8")),
        tl.add(x, y),
        tl.requant_fp(x, 0.25, 0.5, "int8", None, "down"),
    ], [x, y]


def pictures() -> tuple[Tensors, Tensors]:
    x = integers(2, 6, 4, dtype="uint8")
    return [tl.yuv2rgb(x, layout, 4, "UINT8", "_601_full", "HalfToEven") for layout in range(4)], [x]


def functions() -> tuple[Tensors, Tensors]:
    x = tl.Tensor(data=np.arange(1, 127).reshape(1, 3, 6, 7), dtype="int8")
    return [getattr(tl, name)(x, [0.03125, 0.015625], [0, -3]) for name in FUNCTIONS], [x]


def elements() -> tuple[Tensors, Tensors]:
    x, y = integers(1, 3, 4, 20), integers(1, 3, 4, 20, seed=1)
    names = ("add", "sub", "mul", "max", "min")
    return [getattr(tl, name)(x, y, [0.5, 0.25, 1.0], [1, 2, 3]) for name in names], [x, y]


def pools() -> tuple[Tensors, Tensors]:
    x, y, z = integers(1, 2, 4, 6), integers(1, 3, 4, 6, seed=1), integers(1, 2, 2, 4, 6)
    return [
        tl.maxpool2d(x, [2, 2], [2, 2], scale=[0.5, 2.0], zero_point=[1, 3]),
        tl.avgpool2d(x, [2, 2], [2, 2], scale=[0.5, 0.25], zero_point=[1, 3]),
        tl.avgpool3d(z, 2, 2, scale=[0.5, 0.5]),
        tl.concat([x, y], [0.5, 0.25, 1.0], [1, 2, 3], axis=1),
    ], [x, y, z]


def products() -> tuple[Tensors, Tensors]:
    x, z = integers(1, 4, 6, 5), integers(1, 2, 3, 4, 5)
    weight, deep = const(filters(3, 4, 2, 2), "int8"), const(filters(3, 2, 2, 2, 3), "int8")
    first = tl.conv_quant(x, weight, None, input_scale=0.5, weight_scale=0.25, output_scale=32.0)
    second = tl.conv3d_quant(z, deep, input_scale=0.5, weight_scale=0.25, output_scale=64.0, input_zp=1)
    matrix = const(filters(5, 7), "int8")
    third = tl.matmul_quant(x, matrix, input_scale=0.5, right_scale=0.25, output_scale=32.0)
    return [tl.add(first, first, [32.0, 32.0, 64.0]), second, third], [x, z]


WHOLE: dict[str, Network] = {
    "functions": functions,
    "multipliers": multipliers,
    "shifts": shifts,
    "pictures": pictures,
}
VALUES: dict[str, Network] = {"elements": elements, "pools": pools, "products": products}


def built(network: Network, mode: str) -> tuple[Module, Module, Mapping[str, Array], Mapping[str, Array]]:
    """What was written, what was compiled of it, its inputs, and what the simulator makes of them."""
    outputs, inputs = network()
    written = tl.compile("net", inputs, outputs, no_save=True)
    session = Session(chip="bm1684x", quantize=mode)
    module = written.clone()
    session.manager(session.context()).run_pipeline("top-optimize", module)
    compiled, data = build_exposed(session, module)
    loaded = session.chip.load(data, "net")
    types = {info.name: numpy_dtype(TensorType(info.shape, info.element).storage) for info in loaded.inputs}
    given = {one.name: np.asarray(one.data).astype(types[one.name]) for one in inputs}
    return written, compiled, given, loaded.run(given)


def check(compiled: Module, given: Mapping[str, Array], found: Mapping[str, Array], mode: str = "f32") -> None:
    """Integers are the same; floats but for the last places, because exponentials differ between numpy builds."""
    wanted = Interpreter(compiled).run(given, "all")
    assert found
    for name, array in found.items():
        if array.dtype.kind in "iu":
            np.testing.assert_array_equal(array, wanted[name], name)
        else:
            near = LAST_PLACES[mode] * float(np.abs(wanted[name].astype(np.float32)).max())
            assert np.abs(array.astype(np.float32) - wanted[name].astype(np.float32)).max() <= near, name


@pytest.fixture(autouse=True)
def network() -> None:
    tl.deinit()
    tl.init("BM1684X")


@pytest.mark.chip("bm1684x")
@each(("name", "mode"), in_turn(FLOATS, FLOAT_MODES, lambda _: "group"))
def test_networks_of_floats(name: str, mode: str) -> None:
    _, compiled, given, found = built(FLOATS[name], mode)
    check(compiled, given, found, mode)


@pytest.mark.chip("bm1684x")
def test_regions_are_computed_by_the_host() -> None:
    _, compiled, given, found = built(regions, "f32")
    check(compiled, given, found)


@pytest.mark.chip("bm1684x")
@each("name", [pytest.param(name, marks=pytest.mark.slow if name == "multipliers" else ()) for name in WHOLE])
def test_whole_numbers_stay_exact(name: str) -> None:
    written, compiled, given, found = built(WHOLE[name], "f32")
    check(compiled, given, found)
    results = Interpreter(written).run({label: array.astype(np.float32) for label, array in given.items()})
    for label, array in results.items():
        np.testing.assert_array_equal(found[label], array, label)


@pytest.mark.chip("bm1684x")
@each("name", VALUES)
def test_integers_that_stand_for_values(name: str) -> None:
    _, compiled, given, found = built(VALUES[name], "f32")
    check(compiled, given, found)
    ops = {operation.op.name for operation in compiled.main.operations}
    if name == "products":
        integers_computed = [label for label, array in found.items() if array.dtype.kind in "iu"]
        assert {"tpu.Conv2D", "tpu.MatMul"} <= ops
        assert len(integers_computed) > len(given)
