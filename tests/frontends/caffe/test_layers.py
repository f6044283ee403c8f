"""Every layer means what Caffe computes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from tests.families import each
from tests.frontends.caffe import reference
from tests.frontends.caffe.files import Array, layer, run_layer, values

X = values(2, 6, 7, 5)


def check(
    text: str, folder: Path, wanted: Array | Mapping[str, Array], weights: list[Array] | None = None, **operands: Array
) -> None:
    """The layer's results, to float32's accuracy over sums of some hundred terms."""
    results = run_layer(text, folder, operands or {"x": X}, weights)
    expected = wanted if isinstance(wanted, Mapping) else {"y": wanted}
    assert set(results) == set(expected)
    for name, array in expected.items():
        np.testing.assert_allclose(results[name], array, rtol=2e-5, atol=2e-5)
        assert results[name].shape == array.shape


@each(
    ("body", "stride", "pad", "kernel"),
    [
        ("kernel_size: 3", (1, 1), (0, 0), (3, 3)),
        ("kernel_size: 3 stride: 2 pad: 1", (2, 2), (1, 1), (3, 3)),
        ("kernel_h: 3 kernel_w: 2 stride_h: 2 stride_w: 1 pad_h: 1 pad_w: 0", (2, 1), (1, 0), (3, 2)),
        ("kernel_size: 2 kernel_size: 3 stride: 1 stride: 2 pad: 0 pad: 2", (1, 2), (0, 2), (2, 3)),
        ("kernel_size: 1 pad: 1", (1, 1), (1, 1), (1, 1)),
    ],
)
@each("group", [1, 2])
def test_convolution(
    body: str, stride: tuple[int, int], pad: tuple[int, int], kernel: tuple[int, int], group: int, tmp_path: Path
) -> None:
    w, b = values(4, 6 // group, *kernel), values(4)
    text = layer("Convolution", f"convolution_param {{ num_output: 4 group: {group} {body} }}")
    wanted = reference.convolution(X, w, stride, pad, group=group) + b.reshape(-1, 1, 1)
    check(text, tmp_path, wanted, [w, b])


def test_convolution_without_bias_and_with_holes(tmp_path: Path) -> None:
    w = values(4, 6, 3, 2)
    body = "convolution_param { num_output: 4 bias_term: false kernel_h: 3 kernel_w: 2 dilation: 2 }"
    check(layer("Convolution", body), tmp_path, reference.convolution(X, w, (1, 1), (0, 0), 2), [w])


@each("type", ["DepthwiseConvolution", "ConvolutionDepthwise"])
def test_depthwise_convolution_needs_no_group(type: str, tmp_path: Path) -> None:
    w = values(6, 1, 3, 3)
    body = "convolution_param { num_output: 6 bias_term: false kernel_size: 3 pad: 1 }"
    check(layer(type, body), tmp_path, reference.convolution(X, w, (1, 1), (1, 1), group=6), [w])


@each("group", [1, 2, 6])
def test_deconvolution(group: int, tmp_path: Path) -> None:
    w, b = values(6, 6 // group, 4, 4), values(6)
    body = f"convolution_param {{ num_output: 6 group: {group} kernel_size: 4 stride: 2 pad: 1 }}"
    wanted = reference.deconvolution(X, w, 2, 1, group) + b.reshape(-1, 1, 1)
    check(layer("Deconvolution", body), tmp_path, wanted, [w, b])


WINDOWS = [
    ("kernel_size: 2 stride: 2", (2, 2), (2, 2), (0, 0)),
    ("kernel_size: 3 stride: 2", (3, 3), (2, 2), (0, 0)),
    ("kernel_size: 3 stride: 2 pad: 1", (3, 3), (2, 2), (1, 1)),
    ("kernel_size: 2 stride: 2 pad: 1", (2, 2), (2, 2), (1, 1)),
    ("kernel_h: 3 kernel_w: 2 stride_h: 3 stride_w: 2 pad_h: 1 pad_w: 0", (3, 2), (3, 2), (1, 0)),
    ("kernel_size: 5 stride: 3 pad: 2", (5, 5), (3, 3), (2, 2)),
]


@each(("body", "kernel", "stride", "pad"), WINDOWS)
@each("method", ["MAX", "AVE"])
@each("size", [(7, 5), (6, 8)])
def test_pooling(
    body: str,
    kernel: tuple[int, int],
    stride: tuple[int, int],
    pad: tuple[int, int],
    method: str,
    size: tuple[int, int],
    tmp_path: Path,
) -> None:
    x = values(1, 2, *size)
    text = layer("Pooling", f"pooling_param {{ pool: {method} {body} }}")
    check(text, tmp_path, reference.pool(x, kernel, stride, pad, method == "AVE"), x=x)


def test_pooling_rounds_down_where_forks_say_so(tmp_path: Path) -> None:
    for said in ("ceil_mode: false", "round_mode: FLOOR"):
        text = layer("Pooling", f"pooling_param {{ kernel_size: 2 stride: 2 {said} }}")
        check(text, tmp_path, X[:, :, :6, :4].reshape(2, 6, 3, 2, 2, 2).max((3, 5)))


@each("method", ["MAX", "AVE"])
def test_global_pooling(method: str, tmp_path: Path) -> None:
    wanted = X.max((2, 3), keepdims=True) if method == "MAX" else X.mean((2, 3), keepdims=True)
    check(layer("Pooling", f"pooling_param {{ pool: {method} global_pooling: true }}"), tmp_path, wanted)


@each("axis", [1, 2, -1])
@each("transpose", [False, True])
def test_inner_product(axis: int, transpose: bool, tmp_path: Path) -> None:
    rows = X.reshape(*X.shape[:axis], -1)
    w, b = values(3, rows.shape[-1]), values(3)
    body = f"inner_product_param {{ num_output: 3 axis: {axis} transpose: {str(transpose).lower()} }}"
    check(layer("InnerProduct", body), tmp_path, rows @ w.T + b, [w.T if transpose else w, b])


def test_matrix_product_and_embedding(tmp_path: Path) -> None:
    a, b = values(2, 3, 4), values(2, 4, 5)
    check(layer("MatMul", bottoms="a b"), tmp_path, a @ b, a=a, b=b)
    table, bias = values(7, 3), values(3)
    index = np.array([[0, 6, 2]], np.float32)
    body = "embed_param { input_dim: 7 num_output: 3 }"
    check(layer("Embed", body, "i"), tmp_path, table[[[0, 6, 2]]] + bias, [table, bias], i=index)


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


FUNCTIONS: dict[str, tuple[str, Callable[[Array], Array]]] = {
    "AbsVal": ("", np.abs),
    "BNLL": ("", lambda x: np.log1p(np.exp(x))),
    "Clip": ("clip_param { min: -0.5 max: 0.25 }", lambda x: x.clip(-0.5, 0.25)),
    "Cos": ("", np.cos),
    "Dropout": ("dropout_param { dropout_ratio: 0.25 }", lambda x: x),
    "ELU": ("elu_param { alpha: 0.5 }", lambda x: np.where(x > 0, x, 0.5 * np.expm1(x))),
    "Exp": ("exp_param { base: 2 scale: 3 shift: -1 }", lambda x: 2 ** (3 * x - 1)),
    "HardSigmoid": ("", lambda x: (0.2 * x + 0.5).clip(0, 1)),
    "Log": ("log_param { base: 10 scale: 2 shift: 3 }", lambda x: np.log10(2 * x + 3)),
    "Mish": ("", lambda x: x * np.tanh(np.log1p(np.exp(x)))),
    "Power": ("power_param { power: 3 scale: -2 shift: 0.5 }", lambda x: (0.5 - 2 * x) ** 3),
    "ReLU": ("relu_param { negative_slope: 0.1 }", lambda x: np.where(x > 0, x, 0.1 * x)),
    "ReLU6": ("", lambda x: x.clip(0, 6)),
    "Sigmoid": ("", sigmoid),
    "Sin": ("", np.sin),
    "Softmax": ("", lambda x: np.exp(x) / np.exp(x).sum(1, keepdims=True)),
    "Swish": ("swish_param { beta: 2 }", lambda x: x * sigmoid(2 * x)),
    "TanH": ("", np.tanh),
    "Threshold": ("threshold_param { threshold: 0.25 }", lambda x: (x > 0.25).astype(np.float32)),
}


@each("type", FUNCTIONS)
@each("tops", ["y", "x"])
def test_functions_also_in_place(type: str, tops: str, tmp_path: Path) -> None:
    body, function = FUNCTIONS[type]
    ((name, got),) = run_layer(layer(type, body, tops=tops), tmp_path, {"x": X}).items()
    # The blob's name belongs to the input where the layer works in place; its result is called after the layer then.
    assert name == ("y" if tops == "y" else "it") or type == "Dropout"
    np.testing.assert_allclose(got, function(X.astype(np.float64)), rtol=2e-5, atol=2e-6)


def test_defaults_of_functions(tmp_path: Path) -> None:
    check(layer("ReLU"), tmp_path, X.clip(0))
    check(layer("Power"), tmp_path, X)
    check(layer("Exp"), tmp_path, np.exp(X))
    check(layer("Log", "log_param { shift: 2 }"), tmp_path, np.log(X + 2))
    check(layer("Dropout", "dropout_param { scale_train: false dropout_ratio: 0.25 }"), tmp_path, X * 0.75)
    check(layer("Softmax", "softmax_param { axis: -1 }"), tmp_path, np.exp(X) / np.exp(X).sum(3, keepdims=True))


def test_prelu(tmp_path: Path) -> None:
    slope = values(6)
    check(layer("PReLU"), tmp_path, np.where(X > 0, X, X * slope.reshape(1, 6, 1, 1)), [slope])
    shared = layer("PReLU", "prelu_param { channel_shared: true }")
    check(shared, tmp_path, np.where(X > 0, X, X * np.float32(0.5)), [np.array([0.5], np.float32)])


def test_batch_norm_divides_sums_by_their_count(tmp_path: Path) -> None:
    mean, variance = values(6), values(6, seed=2) ** 2
    wanted = (X - mean.reshape(6, 1, 1) / 4) / np.sqrt(variance.reshape(6, 1, 1) / 4 + 1e-3)
    weights = [mean, variance, np.array([4], np.float32)]
    check(layer("BatchNorm", "batch_norm_param { eps: 1e-3 }"), tmp_path, wanted, weights)
    scale, bias = values(6, seed=3), values(6, seed=4)
    with_affine = wanted * scale.reshape(6, 1, 1) + bias.reshape(6, 1, 1)
    check(layer("BatchNorm", "batch_norm_param { eps: 1e-3 }"), tmp_path, with_affine, [*weights, scale, bias])


def test_bn_of_forks(tmp_path: Path) -> None:
    scale, bias, mean, variance = (values(6, seed=seed).reshape(1, 6, 1, 1) for seed in range(4))
    variance = variance**2
    wanted = (X - mean) / np.sqrt(variance + 1e-5) * scale + bias
    check(layer("BN"), tmp_path, wanted, [scale, bias, mean, variance])
    check(layer("BN", "bn_param { bn_mode: INFERENCE }"), tmp_path, X * scale + bias, [scale, bias])


def test_scale_and_bias(tmp_path: Path) -> None:
    scale, bias = values(6), values(6, seed=2)
    columns = (6, 1, 1)
    check(layer("Scale"), tmp_path, X * scale.reshape(columns), [scale])
    with_bias = layer("Scale", "scale_param { bias_term: true }")
    check(with_bias, tmp_path, X * scale.reshape(columns) + bias.reshape(columns), [scale, bias])
    rows = values(7, 5)
    check(layer("Scale", "scale_param { axis: 2 num_axes: -1 }"), tmp_path, X * rows, [rows])
    check(layer("Bias"), tmp_path, X + bias.reshape(columns), [bias])
    factors = values(2, 6)
    two = layer("Scale", "scale_param { axis: 0 }", "x f")
    check(two, tmp_path, X * factors[:, :, None, None], x=X, f=factors)
    check(layer("Bias", "bias_param { axis: 0 }", "x f"), tmp_path, X + factors[:, :, None, None], x=X, f=factors)


@each(
    ("body", "function"),
    [
        ("", lambda a, b: a + b),
        ("eltwise_param { operation: SUM coeff: 1 coeff: -1 }", lambda a, b: a - b),
        ("eltwise_param { coeff: 0.5 coeff: 2 }", lambda a, b: 0.5 * a + 2 * b),
        ("eltwise_param { operation: PROD }", lambda a, b: a * b),
        ("eltwise_param { operation: MAX }", np.maximum),
        ("eltwise_param { operation: MIN }", np.minimum),
    ],
)
def test_eltwise(body: str, function: Callable[[Array, Array], Array], tmp_path: Path) -> None:
    other = values(*X.shape, seed=2)
    check(layer("Eltwise", body, "x o"), tmp_path, function(X, other), x=X, o=other)


def test_axpy(tmp_path: Path) -> None:
    factors, other = values(2, 6, 1, 1), values(*X.shape, seed=2)
    check(layer("Axpy", bottoms="f x o"), tmp_path, factors * X + other, f=factors, x=X, o=other)


def test_lrn(tmp_path: Path) -> None:
    body = "lrn_param { local_size: 3 alpha: 0.5 beta: 0.6 k: 2 }"
    check(layer("LRN", body), tmp_path, reference.lrn(X, 3, 0.5, 0.6, 2))
    within = layer("LRN", "lrn_param { local_size: 3 alpha: 0.5 beta: 0.6 norm_region: WITHIN_CHANNEL }")
    means = reference.pool(X.astype(np.float64) ** 2, (3, 3), (1, 1), (1, 1), mean=True)
    check(within, tmp_path, X * (1 + 0.5 * means) ** -0.6)


@each("across", [False, True])
@each("shared", [False, True])
@each("eps", ["", "eps: 0.01"])
def test_normalize(across: bool, shared: bool, eps: str, tmp_path: Path) -> None:
    scale = values(1 if shared else 6)
    length = np.sqrt((X**2).sum((1, 2, 3) if across else 1, keepdims=True) + (0.01 if eps else 1e-10))
    said = f"across_spatial: {str(across).lower()} channel_shared: {str(shared).lower()} {eps}"
    check(layer("Normalize", f"norm_param {{ {said} }}"), tmp_path, X / length * scale.reshape(-1, 1, 1), [scale])


def test_mvn(tmp_path: Path) -> None:
    centered = X - X.mean((2, 3), keepdims=True)
    deviation = np.sqrt((centered**2).mean((2, 3), keepdims=True))
    check(layer("MVN"), tmp_path, centered / (deviation + 1e-9))
    body = "mvn_param { normalize_variance: false across_channels: true }"
    check(layer("MVN", body), tmp_path, X - X.mean((1, 2, 3), keepdims=True))


def test_reductions(tmp_path: Path) -> None:
    for operation, function in {
        "SUM": np.sum,
        "ASUM": lambda x, axis: np.abs(x).sum(axis),
        "SUMSQ": lambda x, axis: (x**2).sum(axis),
        "MEAN": np.mean,
    }.items():
        body = f"reduction_param {{ operation: {operation} axis: 2 coeff: 0.5 }}"
        check(layer("Reduction", body), tmp_path, 0.5 * function(X, (2, 3)))
    check(layer("Reduction"), tmp_path, X.sum().reshape(1))


def test_argmax(tmp_path: Path) -> None:
    check(layer("ArgMax", "argmax_param { axis: 1 }"), tmp_path, X.argmax(1)[:, None].astype(np.float32))
    flat = layer("ArgMax")
    check(flat, tmp_path, X.reshape(2, -1).argmax(1).reshape(2, 1, 1).astype(np.float32))
    largest = layer("ArgMax", "argmax_param { axis: -1 out_max_val: true }")
    check(largest, tmp_path, X.max(3, keepdims=True))
    both = np.stack([X.reshape(2, -1).argmax(1), X.reshape(2, -1).max(1)], 1)[:, :, None]
    check(layer("ArgMax", "argmax_param { out_max_val: true }"), tmp_path, both)


def test_lstm(tmp_path: Path) -> None:
    x, w, b, u = values(5, 2, 3), values(16, 3), values(16), values(16, 4)
    first = layer(
        "ContinuationIndicator", "continuation_indicator_param { time_step: 5 batch_size: 2 }", "", "c", "steps"
    )
    text = first + layer("LSTM", "recurrent_param { num_output: 4 }", "x c")
    check(text, tmp_path, reference.lstm(x, w, b, u), [w, b, u], x=x)
    older = layer("Lstm", "lstm_param { num_output: 4 }")
    check(older, tmp_path, reference.lstm(x, w, b, u), [w, u, b], x=x)
