"""Legalizations mean what the op means, and are built of what they say; a chip without lowerings gets all of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tpuc.api import Lowering, LoweringNode, LoweringTable, Op, Operation, StringAttr, Value
from tpuc.errors import Unsupported
from tpuc.ir import Module
from tpuc.ir.op import UnregisteredOp
from tpuc.registry import Offer, Registry
from tpuc.schedule import PassContext
from tpuc_chip_parts.lowering import slope_refusal
from tpuc_legalize import TABLE
from tpuc_lower.convert_top_to_tpu import ConvertTopToTpu
from tpuc_lower.legalize import Legalize
from tpuc_ops import top
from tpuc_testing import uniform

from tests.core.fakes import FakeChip, offer
from tests.families import each
from tests.passes.graphs import Network, assert_equal, ops, run

Array = NDArray[Any]
PRIMITIVES: Sequence[type[Op]] = (
    *(
        top.Abs,
        top.Add,
        top.AddConst,
        top.AvgPool,
        top.Clip,
        top.Compare,
        top.CompareConst,
        top.Concat,
        top.Conv,
        top.Deconv,
        top.Div,
        top.Exp,
        top.Floor,
        top.Gather,
        top.LeakyRelu,
        top.Log,
        top.MatMul,
        top.Max,
        top.MaxConst,
        top.MaxPool,
        top.Min,
    ),
    *(
        top.Mul,
        top.MulConst,
        top.Pad,
        top.Permute,
        top.Pow,
        top.Reduce,
        top.PRelu,
        top.Relu,
        top.Reshape,
        top.Round,
        top.Sigmoid,
        top.Slice,
        top.Softplus,
        top.Sub,
        top.SubConst,
        top.Tanh,
        top.Where,
    ),
)


@dataclass(frozen=True)
class Case:
    """An op on inputs, then on further operands: arrays are constants, extents computed values, None absent ones."""

    op: Op
    inputs: tuple[tuple[int, ...], ...]
    more: tuple[Array | tuple[int, ...] | None, ...] = ()


def filters(*shape: int, seed: int = 3) -> Array:
    return uniform(*shape, low=-0.6, high=0.6, seed=seed)


def layer(kind: type[Any], gates: int, *states: Array | tuple[int, ...] | None, **more: Any) -> Case:
    """Four steps of two sequences, after states that are given."""
    ways = 1 + bool(more.get("bidirectional"))
    weights = filters(ways, gates * 5, 3), filters(ways, gates * 5, 5, seed=4), filters(ways, 2 * gates * 5, seed=5)
    x = (2, 4, 3) if more.get("batch_first") else (4, 2, 3)
    return Case(kind(hidden_size=5, **more), (x,), (*weights, *states))


VOLUMES = (2, 3, 5, 6, 7)
MAXIMA = top.MaxPool(kernel_shape=(2, 3, 2), strides=(1, 1, 1), pads=(1, 1, 0, 0, 2, 1))
MEANS = top.AvgPool(kernel_shape=(2, 3, 2), strides=(1, 2, 3), pads=(1, 1, 0, 0, 2, 1))
CASES: dict[str, Case] = {
    "gather_nd": Case(top.GatherND(batch_dims=1), ((2, 5, 4),), (np.array([[[1], [-1]], [[0], [4]]], np.float32),)),
    "gather_elements": Case(top.GatherElements(axis=1), ((2, 5, 4),), (np.array([[[1, -1]], [[0, 4]]], np.float32),)),
    "scatter_nd": Case(top.ScatterND(), ((5, 4),), (np.array([[3], [-1], [3]], np.float32), filters(3, 4))),
    "scatter_nd_by_marks": Case(
        top.ScatterND("max"), ((3, 5, 4),), (np.array([[0, 4], [-1, 0], [0, 4]], np.float32), filters(3, 4))
    ),
    "scatter_lines": Case(
        top.ScatterElements(axis=1), ((2, 5, 4),), (np.full((2, 2, 4), [[3], [-5]], np.float32), filters(2, 2, 4))
    ),
    "scatter_elements": Case(
        top.ScatterElements(axis=-2), ((2, 5, 4),), (np.array([[[1, -1]], [[0, 4]]], np.float32), filters(2, 1, 2))
    ),
    "scatter_elements_added": Case(
        top.ScatterElements(axis=0, reduction="add"), ((5, 2),), (np.array([[1, -1], [1, 4]], np.float32), (2, 2))
    ),
    "scatter_elements_below": Case(
        top.ScatterElements(axis=1, reduction="min"),
        ((2, 5, 4),),
        (np.array([[[1, -1], [1, 0]], [[0, 4], [0, 0]]], np.float32), (2, 2, 2)),
    ),
    "topk": Case(top.TopK(axis=1, K=3), ((2, 5, 4),)),
    "topk_smallest": Case(top.TopK(axis=-1, K=5, largest=False), ((2, 5),)),
    "a16_matmul": Case(
        top.A16MatMul(q_group_size=32),
        ((3, 32),),
        (np.full((24, 16), 0x5A, np.uint8), filters(24, 1), np.full((24, 1), 7, np.uint8), None),
    ),
    "softmax": Case(top.Softmax(axis=1), ((3, 7),)),
    "softmax_log": Case(top.Softmax(axis=-1, log=True, beta=2.0), ((2, 3, 7),)),
    "layer_norm": Case(top.LayerNorm(axis=-1), ((3, 4, 8),), (filters(8), filters(8, seed=6))),
    "layer_norm_two": Case(top.LayerNorm(axis=1, eps=1e-3), ((3, 4, 8),)),
    "rms_norm": Case(top.RMSNorm(), ((3, 8),), (filters(8),)),
    "instance_norm": Case(top.InstanceNorm(), ((2, 3, 4, 5),), (filters(3), filters(3, seed=7))),
    "group_norm": Case(top.GroupNorm(num_groups=2), ((2, 6, 4, 5),), (filters(6), filters(6, seed=8))),
    "lrn": Case(top.LRN(size=3), ((1, 6, 3, 4),)),
    "normalize": Case(top.Normalize(across_spatial=False, channel_shared=False), ((1, 6, 3, 4),), (filters(6),)),
    "batch_norm": Case(
        top.BatchNorm(), ((2, 4, 3, 3),), (filters(4), filters(4, seed=9) + 1, filters(4, seed=10), filters(4, seed=11))
    ),
    "lstm": layer(top.LSTM, 4),
    "lstm_both_ways": layer(top.LSTM, 4, bidirectional=True),
    "lstm_constant_states": layer(top.LSTM, 4, filters(1, 2, 5, seed=6), filters(1, 2, 5, seed=7)),
    "lstm_computed_states": layer(top.LSTM, 4, (2, 2, 5), (2, 2, 5), bidirectional=True),
    "lstm_one_state": layer(top.LSTM, 4, None, (1, 2, 5)),
    "lstm_batch_first": layer(top.LSTM, 4, (2, 2, 5), filters(2, 2, 5, seed=7), bidirectional=True, batch_first=True),
    "gru_constant_state": layer(top.GRU, 3, filters(2, 2, 5, seed=6), bidirectional=True),
    "gru_computed_state": layer(top.GRU, 3, (1, 2, 5), linear_before_reset=True),
    "gru_batch_first": layer(top.GRU, 3, (2, 2, 5), bidirectional=True, batch_first=True),
    "gru_batch_first_constant": layer(top.GRU, 3, filters(2, 1, 5, seed=6), batch_first=True),
    "rnn_state": layer(top.RNN, 1, (1, 2, 5)),
    "gru": layer(top.GRU, 3),
    "gru_before": layer(top.GRU, 3, linear_before_reset=True, bidirectional=True),
    "rnn": layer(top.RNN, 1, activation="Relu"),
    "grid_bilinear": Case(
        top.GridSampler(mode="bilinear", padding_mode="zeros", align_corners=False),
        ((1, 3, 5, 6), (1, 4, 3, 2)),
    ),
    "grid_nearest": Case(
        top.GridSampler(mode="nearest", padding_mode="border", align_corners=True), ((2, 3, 5, 6), (2, 4, 3, 2))
    ),
    "dynamic_quantization": Case(top.DynamicQuantizeLinear(), ((2, 3, 7),)),
    "dynamic_quantization_of_images": Case(top.DynamicQuantizeLinear(), ((1, 6, 3, 5),)),
    "reciprocal": Case(top.Reciprocal(const_val=2.5), ((3, 7),)),
    "pow": Case(top.Pow(exponent=5.0), ((3, 7),)),
    "pow_below": Case(top.Pow(exponent=-3.0), ((3, 7),)),
    "pow_first": Case(top.Pow(exponent=1.0), ((3, 7),)),
    "pow2": Case(top.Pow2(const_val=3.0), ((3, 7),)),
    "pow3": Case(top.Pow3(), ((3, 7),), (np.array([0.0, 1.0, 2.0, 3.0, -1.0, -2.0, 4.0], np.float32),)),
    "pow_none": Case(top.Pow(exponent=0.0), ((3, 7),)),
    "pow_even": Case(top.Pow(exponent=10.0), ((3, 7),)),
    "pow_odd_below": Case(top.Pow(exponent=-9.0), ((3, 7),)),
    "pow3_computed": Case(top.Pow3(), ((3, 7),), (np.array([2.0], np.float32),)),
    "sigmoid": Case(top.Sigmoid(scale=2.0, bias=0.5), ((3, 7),)),
    "sigmoid_log": Case(top.Sigmoid(log=True), ((3, 7),)),
    "sigmoid_log_scaled": Case(top.Sigmoid(scale=2.0, bias=0.5, log=True), ((3, 7),)),
    "quantize": Case(top.QuantizeLinear(y_scale=(0.0625,), y_zero_point=(3,), to="UINT8"), ((3, 7),)),
    "quantize_channels": Case(
        top.QuantizeLinear(y_scale=(0.5, 0.0625, 0.25), y_zero_point=(0, -2, 1), axis=1), ((2, 3, 4),)
    ),
    "dequantize": Case(top.DequantizeLinear(x_scale=(0.0625,), x_zero_point=(3,)), ((3, 7),)),
    "dequantize_channels": Case(
        top.DequantizeLinear(x_scale=(0.5, 0.1, 0.25), x_zero_point=(0, -2, 1), axis=1), ((2, 3, 4),)
    ),
    "scale": Case(top.Scale(do_relu=True), ((2, 3, 4, 5),), (filters(3), filters(3, seed=7))),
    "scale_rows": Case(top.Scale(), ((2, 3, 7),), (filters(3), None)),
    "scale_vectors": Case(top.Scale(), ((2, 3),), (filters(3), filters(3, seed=7))),
    "prelu": Case(top.PRelu(), ((2, 3, 4),), (filters(1, 1),)),
    "prelu_rows": Case(top.PRelu(), ((2, 3, 4, 5),), (filters(1, 4, 1),)),
    "prelu_columns": Case(top.PRelu(), ((2, 3, 4),), (filters(4),)),
    "prelu_elements": Case(top.PRelu(), ((2, 3, 4, 5, 2),), (filters(3, 4, 5, 2),)),
    "prelu_batch": Case(top.PRelu(), ((2, 3, 4),), (filters(2, 1, 1),)),
    "prelu_vector": Case(top.PRelu(), ((5,),), (filters(5),)),
    "conv_line": Case(
        top.Conv(kernel_shape=(3,), strides=(2,), pads=(1, 2), dilations=(2,), do_relu=True),
        ((2, 4, 9),),
        (filters(6, 4, 3), filters(6, seed=7)),
    ),
    "conv_line_inserts": Case(
        top.Conv(kernel_shape=(3,), strides=(1,), pads=(1, 1), dilations=(1,), inserts=(1,)),
        ((2, 4, 9),),
        (filters(6, 4, 3), None),
    ),
    "deconv_line": Case(
        top.Deconv(kernel_shape=(4,), strides=(2,), pads=(1, 0), dilations=(1,), output_padding=(1,), group=2),
        ((2, 4, 9),),
        (filters(3, 4, 4), filters(6, seed=7)),
    ),
    "max_pool_line": Case(top.MaxPool(kernel_shape=(3,), strides=(2,), pads=(1, 1), ceil_mode=True), ((2, 4, 9),)),
    "avg_pool_line": Case(
        top.AvgPool(kernel_shape=(3,), strides=(2,), pads=(1, 0), count_include_pad=True), ((2, 4, 9),)
    ),
    "softsign": Case(top.Softsign(), ((3, 7),)),
    "instance_norm_long": Case(top.InstanceNorm(), ((1, 2, 48, 60),), (filters(2), filters(2, seed=7))),
    "det": Case(top.Det(), ((2, 3, 3),)),
    "einsum": Case(top.Einsum(mode="abc,cd->abd"), ((2, 3, 4),), (filters(4, 5),)),
    "max_pool_with_mask": Case(top.MaxPoolWithMask(kernel_shape=(2, 2), strides=(2, 2)), ((1, 3, 4, 6),)),
    "max_volumes": Case(dataclasses.replace(MAXIMA, strides=(1, 2, 3), do_relu=True), (VOLUMES,)),
    "max_volumes_rounded_up": Case(dataclasses.replace(MAXIMA, strides=(2, 2, 2), ceil_mode=True), (VOLUMES,)),
    "max_volumes_by_image": Case(dataclasses.replace(MAXIMA, kernel_shape=(1, 3, 2), pads=(0, 1, 1) * 2), (VOLUMES,)),
    "max_volumes_by_depth": Case(dataclasses.replace(MAXIMA, kernel_shape=(3, 1, 1), pads=(1, 0, 0) * 2), (VOLUMES,)),
    "average_volumes": Case(MEANS, (VOLUMES,)),
    "average_volumes_with_padding": Case(dataclasses.replace(MEANS, count_include_pad=True), (VOLUMES,)),
    "average_volumes_with_values": Case(
        dataclasses.replace(MEANS, count_include_pad=True, pad_value=3, do_relu=True, relu_limit=1.0), (VOLUMES,)
    ),
    "average_volumes_rounded_up": Case(
        dataclasses.replace(MEANS, count_include_pad=True, strides=(2, 2, 2), ceil_mode=True), (VOLUMES,)
    ),
    "average_whole_volumes": Case(
        top.AvgPool(kernel_shape=(5, 6, 7), strides=(1, 1, 1), pads=(0,) * 6, keepdims=False), (VOLUMES,)
    ),
    "average_whole_images": Case(
        top.AvgPool(kernel_shape=(2, 6, 7), strides=(2, 1, 1), pads=(1, 0, 0) * 2), (VOLUMES,)
    ),
    "average_along_columns": Case(
        top.AvgPool(kernel_shape=(5, 6, 3), strides=(1, 1, 2), pads=(0, 0, 1) * 2), (VOLUMES,)
    ),
}
UNSHOWN = {top.DeformConv2D.name, top.RoiAlign.name}
"""Compiled and run by the tests of the lowerings of bm1684x."""


class Native(Lowering[Any]):
    """Never asked to lower. Only squares, roots, plain sigmoids and windows over images."""

    def refuse(self, node: LoweringNode) -> str | None:
        match node.op:
            case top.Pow(exponent=exponent) if exponent not in (-0.5, 0.5, 2.0):
                return "no such power"
            case top.Sigmoid(scale=scale, log=log) if scale != 1.0 or log:
                return "plain sigmoids"
            case top.Conv() | top.Deconv() | top.MaxPool() | top.AvgPool() if len(node.op.kernel_shape) != 2:
                return "windows over images"
            case top.PRelu():
                return slope_refusal(node)
            case _:
                return None


def bare_chip() -> Registry:
    """A chip that has nothing but simple ops, beside the legalizations that are installed."""
    table = LoweringTable("bare", "top")
    table.lowers(PRIMITIVES[0], "f32", "int8")(Native)
    for op in PRIMITIVES[1:]:
        table.lowers(op, "f32", "int8")(Native)
    return Registry(
        offers=[
            offer("chips", "bare", FakeChip("bare")),
            offer("lowerings", "bare.top", table),
            offer("dialects", "top", _dialect(), "tpuc"),
            offer("legalizations", "any.top", TABLE, "tpuc"),
        ]
    )


def _dialect() -> Any:
    from tpuc_ops.top import DIALECT

    return DIALECT


def context(registry: Registry) -> PassContext:
    return PassContext(registry, registry.get("tpuc.chips", "bare"))


def network_of(case: Case) -> Module:
    net = Network(*case.inputs[0])
    operands = [net.input, *(_second_input(net, shape) for shape in case.inputs[1:])]
    for part in case.more:
        if isinstance(part, tuple):
            operands.append(_second_input(net, part))
        else:
            operands.append(net.none if part is None else net.build.weight(f"c{len(operands)}", part))
    made = net.op(case.op, *operands)
    assert made.defining is not None
    return net.finish(*made.defining.results)


def _second_input(net: Network, shape: tuple[int, ...]) -> Value:
    """Values between -1 and 1 that depend on the only input."""
    count = int(np.prod(shape))
    flat = net.op(top.Reshape(shape=(1, net.input.tensor.size)), net.input)
    return net.op(
        top.Reshape(shape=shape), net.op(top.Tanh(), net.op(top.MatMul(), flat, net.weight(flat.tensor.size, count)))
    )


@each("name", CASES)
def test_a_legalized_op_computes_the_same(name: str) -> None:
    module = network_of(CASES[name])
    before = run(module)
    registry = bare_chip()
    assert Legalize().run(module, context(registry))
    assert_equal(module, before)
    assert set(ops(module)) <= {op.name.removeprefix("top.") for op in PRIMITIVES}


REFUSED: dict[str, tuple[Case, str]] = {
    "images": (Case(top.MaxPoolWithMask(kernel_shape=(13, 5), strides=(1, 1)), ((1, 3, 14, 6),)), "at most 64 taps"),
    "scale": (Case(top.Scale(), ((1, 6, 3, 4), (6,))), "the scale must be a constant, and the tensor have channels"),
    "scale_bias": (Case(top.Scale(), ((1, 6, 3, 4),), (filters(6), (6,))), "the bias must be a constant"),
    "prelu": (Case(top.PRelu(), ((1, 6, 3, 4),), ((6, 1, 1),)), "the slope must be a constant"),
    "normalize": (Case(top.Normalize(channel_shared=False), ((1, 6, 3, 4), (6,))), "the scale must be a constant"),
}


@each("name", REFUSED)
def test_what_a_legalization_cannot_do_is_refused_by_a_sentence(name: str) -> None:
    case, sentence = REFUSED[name]
    with pytest.raises(Unsupported, match=f"{case.op.name} f32 on bare: {sentence}"):
        Legalize().run(network_of(case), context(bare_chip()))


def test_every_legalization_has_a_case() -> None:
    assert {case.op.name for case in CASES.values()} | UNSHOWN == set(TABLE.cells)


def test_nothing_happens_to_what_the_chip_computes() -> None:
    net = Network(2, 3)
    module = net.finish(net.op(top.Relu(), net.input))
    assert not Legalize().run(module, context(bare_chip()))


def test_inner_ops_say_in_which_type_they_are_computed() -> None:
    module = network_of(CASES["softmax"])
    Legalize(mode="int8").run(module, context(bare_chip()))
    marked = [operation for operation in module.walk() if operation.op.name in ("top.Exp", "top.Div")]
    assert [_compute_type(operation) for operation in marked] == ["f32", "f32"]


def _compute_type(operation: Operation) -> str:
    attribute = operation.extra_attributes["compute_type"]
    assert isinstance(attribute, StringAttr)
    return attribute.value


def test_maxima_keep_the_mode_and_means_of_two_steps_are_floats() -> None:
    for name, count in (("max_volumes", 0), ("average_whole_images", 0), ("average_volumes", 2)):
        module = network_of(CASES[name])
        Legalize(mode="int8").run(module, context(bare_chip()))
        pools = [operation for operation in module.walk() if isinstance(operation.op, (top.AvgPool, top.MaxPool))]
        assert sum("compute_type" in operation.extra_attributes for operation in pools) == count


def test_what_a_composition_needs_is_named_when_it_is_missing() -> None:
    module = network_of(CASES["softmax"])
    offers = [one for one in bare_chip().offers if one.group != "tpuc.lowerings"]
    table = LoweringTable("bare", "top")
    for op in (top.Reduce, top.Sub, top.Div):
        table.lowers(op, "f32")(Native)
    registry = Registry(offers=[*offers, offer("lowerings", "bare.top", table)])
    with pytest.raises(
        Unsupported, match=r"top.Softmax f32 on bare: it is composed of top.Exp: the chip has no lowering"
    ):
        Legalize().run(module, context(registry))


def test_a_chip_may_have_a_legalization_of_its_own() -> None:
    from tpuc.api import LegalizationTable
    from tpuc_legalize.composer import Composed

    own = LegalizationTable("bare", "top")

    @own.legalizes(top.Softmax)
    class Other(Composed[top.Softmax]):
        into = (top.Relu,)

        def compose(self, node: Any, do: Any, parts: Any) -> Sequence[Value]:
            return [do(top.Relu(), parts[0], last=True)]

    offers: list[Offer] = [*bare_chip().offers, offer("legalizations", "bare.top", own)]
    module = network_of(CASES["softmax"])
    Legalize().run(module, context(Registry(offers=offers)))
    assert ops(module) == ["Relu"]


def test_all_refusals_of_a_network_are_told_at_once() -> None:
    net = Network(1, 3, 14, 6)
    pooled = net.op(top.MaxPoolWithMask(kernel_shape=(13, 5), strides=(1, 1)), net.input)
    module = net.finish(net.op(top.Erf(), pooled))
    with pytest.raises(Unsupported) as caught:
        Legalize().run(module, context(bare_chip()))
    assert "top.MaxPoolWithMask f32 on bare: at most 64 taps" in str(caught.value)
    assert "top.Erf f32 on bare: the chip has no lowering for it" in str(caught.value)


def test_an_op_that_no_package_defines_is_refused_by_its_name() -> None:
    net = Network(2, 3)
    module = net.finish(net.op(top.Relu(), net.input))
    (relu,) = [operation for operation in module.walk() if operation.op.name == "top.Relu"]
    relu.op = UnregisteredOp("acme.Unknown")
    assert not Legalize().run(module, context(bare_chip()))
    with pytest.raises(Unsupported, match=r"acme.Unknown f32 on bare: the chip has no lowering for it"):
        ConvertTopToTpu().run(module, context(bare_chip()))
