"""Every function means what numpy says, and says its shape at once."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tpuc_lang as tl
from numpy.lib.stride_tricks import sliding_window_view

from tests.families import each
from tests.frontends.caffe import reference
from tests.frontends.lang.programs import Array, compiled, const, floats, numbers, result

SHAPE = (1, 4, 6, 5)
X, Y = numbers(*SHAPE), numbers(*SHAPE, seed=1)
Build = Callable[[tl.Tensor, tl.Tensor], tl.Tensor]


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


CASES: dict[str, tuple[Build, Array]] = {
    "abs": (lambda x, _: tl.abs(x), np.abs(X)),
    "add": (tl.add, X + Y),
    "add number": (lambda x, _: tl.add(2, x), X + 2),
    "avgpool": (
        lambda x, _: tl.avgpool(x, [3, 2], [1, 2], pad=[1, 1, 0, 0]),
        np.stack([X[:, :, max(i - 1, 0) : i + 2, j : j + 2].mean((2, 3)) for i in range(6) for j in (0, 2)], 2).reshape(
            1, 4, 6, 2
        ),
    ),
    "cast": (lambda x, _: tl.cast(x, "float16"), X),
    "ceil": (lambda x, _: tl.ceil(tl.mul(x, 3)), np.ceil(X * np.float32(3))),
    "clip": (lambda x, _: tl.clip(x, -0.5, 0.25), X.clip(-0.5, 0.25)),
    "clamp": (lambda x, _: tl.clamp(x, 0, 1), X.clip(0, 1)),
    "compare": (lambda x, y: tl.compare(x, y, "Greater"), (X > Y).astype(np.float32)),
    "compare number": (lambda x, _: tl.compare(x, 0.5, "LessOrEqual"), (X <= 0.5).astype(np.float32)),
    "concat": (lambda x, y: tl.concat([x, y], axis=-1), np.concatenate([X, Y], -1)),
    "copy": (lambda x, _: tl.copy(x), X),
    "cos": (lambda x, _: tl.cos(x), np.cos(X)),
    "depth2space": (
        lambda x, _: tl.depth2space(x, 2, 2, is_crd=False),
        X.reshape(1, 2, 2, 1, 6, 5).transpose(0, 3, 4, 1, 5, 2).reshape(1, 1, 12, 10),
    ),
    "div": (lambda x, y: tl.div(x, tl.add(y, 2)), X / (Y + 2)),
    "div by number": (lambda x, _: tl.div(x, 4), X / 4),
    "div of number": (lambda x, _: tl.div(3, tl.add(x, 2)), 3 / (X + 2)),
    "elu": (lambda x, _: tl.elu(x), np.where(X > 0, X, np.expm1(X))),
    "erf": (lambda x, _: tl.erf(x), np.vectorize(math.erf)(X)),
    "exp": (lambda x, _: tl.exp(x), np.exp(X)),
    "floor": (lambda x, _: tl.floor(tl.mul(x, 3)), np.floor(X * np.float32(3))),
    "gelu": (lambda x, _: tl.gelu(x), X * (1 + np.vectorize(math.erf)(X / math.sqrt(2))) / 2),
    "gather": (lambda x, _: tl.gather(x, const(np.array([3, 0])), axis=1), X[:, [3, 0]]),
    "hsigmoid": (lambda x, _: tl.hsigmoid(x), (X / 6 + 0.5).clip(0, 1)),
    "hswish": (lambda x, _: tl.hswish(x), X * (X / 6 + 0.5).clip(0, 1)),
    "interpolate": (
        lambda x, _: tl.interpolate(x, 1, 1.8, "linear", "align_corners"),
        (X[..., np.minimum(np.arange(9) // 2, 4)] + X[..., np.minimum((np.arange(9) + 1) // 2, 4)]) / 2,
    ),
    "leaky_relu": (lambda x, _: tl.leaky_relu(x, 0.67), np.where(X > 0, X, 0.67 * X)),
    "log": (lambda x, _: tl.log(tl.add(x, 2)), np.log(X + 2)),
    "lrn": (lambda x, _: tl.lrn(x, 3, 0.5, 0.6, 2), reference.lrn(X, 3, 0.5, 0.6, 2)),
    "matmul": (lambda x, y: tl.matmul(x, y, right_transpose=True), X @ Y.swapaxes(2, 3)),
    "matmul with bias": (
        lambda x, _: tl.matmul(x, const(numbers(5, 3)), const(numbers(3))),
        X @ numbers(5, 3) + numbers(3),
    ),
    "max": (tl.max, np.maximum(X, Y)),
    "max number": (lambda x, _: tl.max(x, 0.25), X.clip(0.25)),
    "maxpool3d": (
        lambda x, _: tl.maxpool3d(tl.reshape(x, [1, 2, 2, 6, 5]), [2, 3, 2], [1, 2, 1], pad=[1, 0, 0, 0, 2, 1]),
        sliding_window_view(
            np.pad(X.reshape(1, 2, 2, 6, 5), ((0, 0), (0, 0), (1, 0), (0, 2), (0, 1)), constant_values=-np.inf),
            (2, 3, 2),
            (2, 3, 4),
        )[:, :, :, ::2].max((5, 6, 7)),
    ),
    "maxpool": (
        lambda x, _: tl.maxpool(x, [2, 2], [2, 2], ceil_mode=True),
        reference.pool(X, (2, 2), (2, 2), (0, 0), mean=False),
    ),
    "min": (tl.min, np.minimum(X, Y)),
    "mish": (lambda x, _: tl.mish(x), X * np.tanh(np.log1p(np.exp(X)))),
    "mul": (tl.mul, X * Y),
    "mul number": (lambda x, _: tl.mul(x, 4.7), X * 4.7),
    "pad": (
        lambda x, _: tl.pad(x, value=9, padding=[0, 0, 1, 0, 0, 0, 2, 3]),
        np.pad(X, ((0, 0), (0, 0), (1, 2), (0, 3)), constant_values=9),
    ),
    "permute": (lambda x, _: tl.permute(x, [0, 3, 1, 2]), X.transpose(0, 3, 1, 2)),
    "pow": (lambda x, _: tl.pow(tl.abs(x), 1.5), np.abs(X) ** 1.5),
    "prelu": (
        lambda x, _: tl.prelu(x, const(numbers(1, 4, 1, 1))),
        np.where(X > 0, X, X * numbers(1, 4, 1, 1)),
    ),
    "reduce": (lambda x, _: tl.reduce(x, "ReduceSum", [1, -1]), X.sum((1, 3))),
    "relu": (lambda x, _: tl.relu(x), X.clip(0)),
    "relu6": (lambda x, _: tl.relu6(tl.mul(x, 10)), (X * 10).clip(0, 6)),
    "reshape": (lambda x, _: tl.reshape(x, [0, -1, 3]), X.reshape(1, 40, 3)),
    "rms_norm": (lambda x, _: tl.rms_norm(x, epsilon=0.1), X / np.sqrt((X**2).mean(-1, keepdims=True) + 0.1)),
    "round": (lambda x, _: tl.round(tl.mul(x, 3)), np.rint(X * np.float32(3))),
    "rsqrt": (lambda x, _: tl.rsqrt(tl.add(x, 2)), 1 / np.sqrt(X + 2)),
    "scale": (
        lambda x, _: tl.scale(x, const(numbers(1, 4, 1, 1)), const(numbers(1, 4, 1, 1, seed=2))),
        X * numbers(1, 4, 1, 1) + numbers(1, 4, 1, 1, seed=2),
    ),
    "sigmoid": (lambda x, _: tl.sigmoid(x), sigmoid(X)),
    "sign": (lambda x, _: tl.sign(x), np.sign(X)),
    "silu": (lambda x, _: tl.silu(x), X * sigmoid(X)),
    "sin": (lambda x, _: tl.sin(x), np.sin(X)),
    "slice": (lambda x, _: tl.slice(x, [0, 1, -1, 0], [1, 4, -6, 5], [1, 2, -2, 4]), X[:, 1:4:2, 5:0:-2, ::4]),
    "softmax": (
        lambda x, _: tl.softmax(x, 1),
        np.exp(X) / np.exp(X).sum(1, keepdims=True),
    ),
    "softplus": (lambda x, _: tl.softplus(x), np.log1p(np.exp(X))),
    "softsign": (lambda x, _: tl.softsign(x), X / (1 + np.abs(X))),
    "split": (lambda x, _: tl.split(x, 2, 2, [1, 5])[1], X[:, :, 1:]),
    "sqrt": (lambda x, _: tl.sqrt(tl.abs(x)), np.sqrt(np.abs(X))),
    "square": (lambda x, _: tl.square(x), X**2),
    "squeeze": (lambda x, _: tl.squeeze(x, [0]), X[0]),
    "sub": (tl.sub, X - Y),
    "sub number": (lambda x, _: tl.sub(1, x), 1 - X),
    "tan": (lambda x, _: tl.tan(x), np.tan(X)),
    "tanh": (lambda x, _: tl.tanh(x), np.tanh(X)),
    "tile": (lambda x, _: tl.tile(x, [2, 1, 1, 3]), np.tile(X, (2, 1, 1, 3))),
    "and_op": (lambda x, y: tl.and_op(tl.gt(x, 0), tl.gt(y, 0)), ((X > 0) & (Y > 0)).astype(np.float32)),
    "arccos": (lambda x, _: tl.arccos(x), np.arccos(X)),
    "arctanh": (lambda x, _: tl.arctanh(x), np.arctanh(X)),
    "arg": (lambda x, _: tl.arg(x, "max", 1)[0], X.argmax(1)[:, None].astype(np.float32)),
    "arg value": (lambda x, _: tl.arg(x, "min", -1, keep_dims=False)[1], X.min(-1)),
    "cond_select": (lambda x, y: tl.cond_select(tl.lt(x, 0), y, x), np.where(X < 0, Y, X)),
    "cond_select number": (lambda x, _: tl.cond_select(tl.le(x, 0.5), -1, x), np.where(X <= 0.5, -1, X)),
    "cosh": (lambda x, _: tl.cosh(x), np.cosh(X)),
    "cumsum": (lambda x, _: tl.cumsum(x, 2), X.cumsum(2)),
    "eq": (lambda x, _: tl.eq(tl.round(x), 0), (np.rint(X) == 0).astype(np.float32)),
    "gather_elements": (
        lambda x, _: tl.gather_elements(x, const(np.full(SHAPE, 2)), axis=1),
        np.broadcast_to(X[:, 2:3], SHAPE),
    ),
    "ge": (tl.ge, (X >= Y).astype(np.float32)),
    "gt": (tl.gt, (X > Y).astype(np.float32)),
    "index_select": (lambda x, _: tl.index_select(x, const(np.array([3, 0])), axis=1), X[:, [3, 0]]),
    "le": (tl.le, (X <= Y).astype(np.float32)),
    "ln": (lambda x, _: tl.ln(tl.add(x, 2)), np.log(X + 2)),
    "log_sigmoid": (lambda x, _: tl.log_sigmoid(x), np.log(sigmoid(X))),
    "lt": (tl.lt, (X < Y).astype(np.float32)),
    "ne": (lambda x, _: tl.ne(tl.round(x), 0), (np.rint(X) != 0).astype(np.float32)),
    "not_op": (lambda x, _: tl.not_op(tl.gt(x, 0)), (X <= 0).astype(np.float32)),
    "or_op": (lambda x, y: tl.or_op(tl.gt(x, 0), tl.gt(y, 0)), ((X > 0) | (Y > 0)).astype(np.float32)),
    "scatter": (
        lambda x, y: tl.scatter(x, const(np.full((1, 1, 6, 5), 3)), tl.slice(y, [0] * 4, [1, 1, 6, 5]), axis=1),
        np.concatenate([X[:, :3], Y[:, :1]], 1),
    ),
    "scatterND": (
        lambda x, y: tl.scatterND(
            x, const(np.array([[0, 1]])), tl.reshape(tl.slice(y, [0] * 4, [1, 1, 6, 5]), [1, 6, 5])
        ),
        np.concatenate([X[:, :1], Y[:, :1], X[:, 2:]], 1),
    ),
    "sinh": (lambda x, _: tl.sinh(x), np.sinh(X)),
    "swish": (lambda x, _: tl.swish(x, 1.7), X * sigmoid(1.7 * X)),
    "swish plain": (lambda x, _: tl.swish(x, 1.0), X * sigmoid(X)),
    "topk": (lambda x, _: tl.topk(x, 3, 2)[0], -np.sort(-X, -1)[..., :2]),
    "topk places": (lambda x, _: tl.topk(x, 3, 2)[1], np.argsort(-X, -1, kind="stable")[..., :2].astype(np.float32)),
    "xor_op": (lambda x, y: tl.xor_op(tl.gt(x, 0), tl.gt(y, 0)), ((X > 0) ^ (Y > 0)).astype(np.float32)),
    "unsqueeze": (lambda x, _: tl.unsqueeze(x, [1]), X[:, None]),
    "upsample": (lambda x, _: tl.upsample(x, 3), X.repeat(3, 2).repeat(3, 3)),
}


@each("name", CASES)
def test_values_and_shapes(name: str, tmp_path: Path) -> None:
    build, wanted = CASES[name]
    x, y = floats(*SHAPE), floats(*SHAPE, seed=1)
    output = build(x, y)
    assert output.shape == wanted.shape
    np.testing.assert_allclose(result(output, [x, y], tmp_path), wanted, rtol=1e-5, atol=1e-5)  # float32


def test_batch_norm(tmp_path: Path) -> None:
    x = floats(*SHAPE)
    mean, variance, gamma, beta = (numbers(4, seed=seed) ** 2 for seed in range(4))
    centered = (X - mean.reshape(4, 1, 1)) / np.sqrt(variance.reshape(4, 1, 1) + 1e-3)
    plain = tl.batch_norm(x, const(mean), const(variance), epsilon=1e-3)
    np.testing.assert_allclose(result(plain, [x], tmp_path), centered, rtol=1e-5, atol=1e-5)
    full = tl.batch_norm(x, const(mean), const(variance), const(gamma), const(beta), epsilon=1e-3)
    wanted = centered * gamma.reshape(4, 1, 1) + beta.reshape(4, 1, 1)
    np.testing.assert_allclose(result(full, [x], tmp_path), wanted, rtol=1e-5, atol=1e-5)


def test_layer_and_group_norm(tmp_path: Path) -> None:
    x = floats(*SHAPE)
    rows = X.reshape(1, 2, -1)
    wanted = ((rows - rows.mean(2, keepdims=True)) / np.sqrt(rows.var(2, keepdims=True) + 1e-5)).reshape(SHAPE)
    np.testing.assert_allclose(result(tl.group_norm(x, num_groups=2), [x], tmp_path), wanted, rtol=1e-4, atol=1e-5)
    last = (X - X.mean(3, keepdims=True)) / np.sqrt(X.var(3, keepdims=True) + 1e-5)
    gamma = numbers(5)
    np.testing.assert_allclose(
        result(tl.layer_norm(x, const(gamma), axis=-1), [x], tmp_path), last * gamma, rtol=1e-4, atol=1e-5
    )


@each("group", [1, 2])
def test_deconv(group: int, tmp_path: Path) -> None:
    x, w = floats(*SHAPE), numbers(4, 6 // group, 3, 3)  # by input channel, as the reference takes it
    ours = w.swapaxes(0, 1)
    y = tl.deconv_v2(x, const(ours), stride=[2, 2], pad=[1, 1, 1, 1], group=group)
    wanted = reference.deconvolution(X, w, 2, 1, group)
    np.testing.assert_allclose(result(y, [x], tmp_path), wanted, rtol=1e-5, atol=1e-5)


def test_lstm(tmp_path: Path) -> None:
    x = floats(5, 2, 3)
    w, u, b = numbers(16, 3), numbers(16, 4), numbers(16)
    order = [0, 2, 1, 3]  # input, output, forget, cell here; input, forget, output, cell in the reference
    there = [array.reshape(4, 4, -1)[order].reshape(array.shape) for array in (w, b, u)]
    bias = np.concatenate([b, np.zeros(16)])[None]
    y, h, c = tl.lstm(x, const(w[None]), const(u[None]), const(bias))
    assert (y.shape, h.shape, c.shape) == ((5, 1, 2, 4), (1, 2, 4), (1, 2, 4))
    wanted = reference.lstm(numbers(5, 2, 3), *there)
    np.testing.assert_allclose(result(y, [x], tmp_path)[:, 0], wanted, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(result(h, [x], tmp_path)[0], wanted[-1], rtol=1e-5, atol=1e-5)


@each(
    ("call", "wanted"),
    [
        (lambda x: tl.reshape(x, [7]), "reshape: 1x4x6x5 has 120 elements and cannot become [7]."),
        (lambda x: tl.permute(x, [0, 1]), "permute: order [0, 1] is not a permutation of the 4 dimensions of 1x4x6x5."),
        (lambda x: tl.squeeze(x, [1]), "squeeze: "),
        (lambda x: tl.softmax(x, 4), "softmax: axis must be in -4..3 for 4 dimensions, this one is 4."),
        (lambda x: tl.split(x, 1, 3), "split: [1, 1, 1] parts do not add up to the 4 elements of axis 1."),
        (
            lambda x: tl.slice(x, [0, 3], [1, 2]),
            "slice: no element lies between [0, 3, 0, 0] and [1, 2, 6, 5]; choose others.",
        ),
        (lambda x: tl.pad(x, padding=[1, 1]), "pad: padding has 2 numbers; give 8, two per dimension."),
        (
            lambda x: tl.pad(x, "wrap"),
            "pad: method 'wrap' is not known; use one of constant, reflect, symmetric, edge.",
        ),
        (lambda x: tl.matmul(x, x), "matmul: "),
        (lambda _: tl.add(1, 2), "add: both operands are numbers; give a tensor."),
        (lambda x: tl.add(x, tl.Tensor([3])), "add: shapes 1x4x6x5 and 3 do not broadcast."),
        (
            lambda x: tl.add(x, tl.Tensor(SHAPE, dtype="float16")),
            "add: its operands are float16 and float32; cast one of them.",
        ),
        (lambda x: tl.div(x, 0), "div: the divisor is 0."),
        (lambda _: tl.concat([]), "concat: there are no tensors; give some."),
        (lambda x: tl.clamp(x, 1, 0), "clamp: its bounds are 1 and 0; give the smaller one first."),
        (lambda x: tl.reduce(x, "ReduceMedian", 1), "reduce: mode must be one of ReduceMean, "),
        (lambda x: tl.maxpool(x, [9, 9]), "maxpool: kernel 9x9 reaches over 9 elements, the padded input has 6."),
        (lambda x: tl.maxpool3d(x, [2, 2, 2]), "maxpool3d: the input has 5 dimensions, this one is [1, 4, 6, 5]."),
        (lambda x: tl.quantize(x, 0.0), "quantize: the scale is 0; it must be above 0."),
        (lambda x: tl.arg(x, "median"), "arg: method 'median' is not known; use max or min."),
        (lambda x: tl.topk(x, 3, 9), "topk: K must be in 1..5, the extent of axis 3, this one is 9."),
        (lambda x: tl.cast(x, "int4"), "cast: out_dtype 'int4' is not known; use one of float32, float16, int8, "),
    ],
)
def test_calls_that_make_no_sense(call: Callable[[tl.Tensor], object], wanted: str) -> None:
    with pytest.raises(tl.LangError) as caught:
        call(tl.Tensor(SHAPE))
    assert str(caught.value).startswith(wanted)


SEED_OPS: dict[str, Callable[[tl.Tensor], object]] = {
    "Add": lambda x: tl.add(x, x),
    "AvgPool": lambda x: tl.avgpool(x, [2, 2]),
    "BatchNorm": lambda x: tl.batch_norm(x, const(numbers(4)), const(np.ones(4))),
    "Clip": lambda x: tl.clip(x, -1, 1),
    "Concat": lambda x: tl.concat([x, x], axis=1),
    "Conv": lambda x: tl.conv_v2(x, const(numbers(3, 4, 1, 1))),
    "Deconv": lambda x: tl.deconv_v2(x, const(numbers(3, 4, 2, 2))),
    "Depth2Space": lambda x: tl.depth2space(x, 2, 2),
    "Div": lambda x: tl.div(x, x),
    "LSTM": lambda x: tl.lstm(tl.reshape(x, [6, 4, 5]), const(numbers(1, 12, 5)), const(numbers(1, 12, 3))),
    "LeakyRelu": lambda x: tl.leaky_relu(x, 0.67),
    "Log": tl.log,
    "MatMul": lambda x: tl.matmul(x, const(numbers(5, 2))),
    "MaxPool": lambda x: tl.maxpool(x, [2, 2]),
    "Mul": lambda x: tl.mul(x, x),
    "MulConst": lambda x: tl.mul(x, 4.7),
    "Permute": lambda x: tl.permute(x, [0, 2, 3, 1]),
    "Relu": tl.relu,
    "Reshape": lambda x: tl.reshape(x, [1, 120]),
    "Scale": lambda x: tl.scale(x, const(numbers(1, 4, 1, 1)), const(numbers(1, 4, 1, 1))),
    "SiLU": tl.silu,
    "Sigmoid": tl.sigmoid,
    "Slice": lambda x: tl.slice(x, [0, 0, 0, 0], [1, 2, 3, 4]),
    "Softmax": lambda x: tl.softmax(x, 1),
    "Squeeze": lambda x: tl.squeeze(x, [0]),
    "Upsample": tl.upsample,
    "Weight": lambda x: tl.add(x, const(numbers(5))),
}
"""A call that makes each of the 27 TOP ops that networks began with."""


@each("name", SEED_OPS)
def test_ops_that_networks_began_with(name: str, tmp_path: Path) -> None:
    x = floats(*SHAPE)
    made = SEED_OPS[name](x)
    outputs = list(made) if isinstance(made, tuple) else [made]
    module = compiled(outputs, [x], tmp_path)
    assert f"top.{name}" in {operation.op.name for operation in module.walk()}
    assert len(SEED_OPS) == 27
