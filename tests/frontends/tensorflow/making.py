"""Networks made, saved and run by TensorFlow itself: `python making.py FOLDER NAME ...`, in an environment that has it.

Each becomes `NAME.pb` (frozen), for some control flow in both versions, `NAME/saved_model.pb` with its variables, and
`NAME.npz` with inputs `in_*` and results `out_*` in the order of the signature.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf  # pyright: ignore[reportMissingImports]
from tensorflow.python.framework.convert_to_constants import (  # pyright: ignore[reportMissingImports]
    convert_variables_to_constants_v2,
)

RANDOM = np.random.default_rng(7)


def weight(*shape: int) -> Any:
    scale = 1 / np.sqrt(max(int(np.prod(shape[:-1])), 1))
    return tf.Variable(RANDOM.normal(0, scale, shape).astype(np.float32))


class Norm:
    """A batch normalization with statistics of its own."""

    def __init__(self, channels: int) -> None:
        self.parts = [
            tf.Variable(np.float32(1) + RANDOM.normal(0, 0.1, channels).astype(np.float32)),
            tf.Variable(RANDOM.normal(0, 0.1, channels).astype(np.float32)),
            tf.Variable(RANDOM.normal(0, 0.1, channels).astype(np.float32)),
            tf.Variable(np.float32(1) + RANDOM.uniform(0, 0.5, channels).astype(np.float32)),
        ]

    def __call__(self, x: Any) -> Any:
        gamma, beta, mean, variance = self.parts
        return tf.compat.v1.nn.fused_batch_norm(x, gamma, beta, mean, variance, epsilon=1e-3, is_training=False)[0]


class Network(tf.Module):
    """Weights are made when they are first asked for, and are the same ones afterwards."""

    def __init__(self, build: Callable[[Network, Any], Any], shapes: list[tuple[int, ...]]) -> None:
        super().__init__()
        self.build, self.shapes = build, shapes
        self.weights: list[Any] = []
        self.norms: list[Any] = []
        self.layers: list[Any] = []
        self.held: list[Any] = []

    def __call__(self, *inputs: Any) -> Any:
        self.places = [0, 0, 0]
        return self.build(self, *inputs)

    def w(self, *shape: int) -> Any:
        place, self.places[0] = self.places[0], self.places[0] + 1
        if place == len(self.weights):
            with tf.init_scope():
                self.weights.append(weight(*shape))
        return self.weights[place]

    def norm(self, x: Any) -> Any:
        place, self.places[1] = self.places[1], self.places[1] + 1
        if place == len(self.norms):
            with tf.init_scope():
                made = Norm(x.shape[-1])
                self.norms.append(made)
                self.held.append(made.parts)
        return self.norms[place](x)

    def layer(self, make: Callable[[], Any]) -> Any:
        """A layer of Keras."""
        place, self.places[2] = self.places[2], self.places[2] + 1
        if place == len(self.layers):
            with tf.init_scope():
                self.layers.append(make())
        return self.layers[place]

    def conv(self, x: Any, out: int, k: int = 3, s: int = 1, padding: str = "SAME") -> Any:
        return tf.nn.conv2d(x, self.w(k, k, x.shape[-1], out), s, padding)

    def dense(self, x: Any, out: int) -> Any:
        return tf.nn.bias_add(tf.matmul(x, self.w(x.shape[-1], out)), self.w(out))


def lenet(net: Network, x: Any) -> Any:
    x = tf.nn.max_pool2d(tf.nn.relu(tf.nn.bias_add(net.conv(x, 6, 5), net.w(6))), 2, 2, "VALID")
    x = tf.nn.avg_pool2d(tf.tanh(net.conv(x, 16, 5, padding="VALID")), 2, 2, "SAME")
    x = tf.reshape(x, [tf.shape(x)[0], -1])
    return tf.nn.softmax(net.dense(tf.nn.relu(net.dense(x, 32)), 10))


def mobilenet(net: Network, x: Any) -> Any:
    x = tf.nn.relu6(net.norm(net.conv(x, 8, 3, 2)))
    for out, stride, factor in ((8, 1, 1), (12, 2, 6), (12, 1, 6), (16, 2, 6), (16, 1, 6)):
        y = tf.nn.relu6(net.norm(net.conv(x, x.shape[-1] * factor, 1)))
        y = tf.pad(y, [[0, 0], [0, 1], [0, 1], [0, 0]]) if stride == 2 else y
        filters = net.w(3, 3, y.shape[-1], 1)
        y = tf.nn.depthwise_conv2d(y, filters, [1, stride, stride, 1], "VALID" if stride == 2 else "SAME")
        y = net.norm(net.conv(tf.nn.relu6(net.norm(y)), out, 1))
        x = x + y if y.shape == x.shape else y
    x = tf.reduce_mean(tf.nn.relu6(net.norm(net.conv(x, 32, 1))), [1, 2])
    return tf.nn.softmax(net.dense(x, 10))


def resnet(net: Network, x: Any) -> Any:
    x = tf.nn.max_pool2d(tf.nn.relu(net.norm(net.conv(x, 8, 7, 2))), 3, 2, "SAME")
    for out, stride in ((8, 1), (16, 2), (16, 1)):
        y = tf.nn.relu(net.norm(net.conv(x, out, 3, stride)))
        y = net.norm(net.conv(y, out, 3))
        x = net.norm(net.conv(x, out, 1, stride)) if stride != 1 or x.shape[-1] != out else x
        x = tf.nn.relu(x + y)
    return net.dense(tf.reduce_mean(x, [1, 2]), 10)


def inception(net: Network, x: Any) -> Any:
    a = tf.nn.elu(net.conv(x, 4, 1))
    b = tf.nn.leaky_relu(net.conv(tf.nn.relu(net.conv(x, 4, 1)), 6, 3))
    c = tf.nn.softplus(net.conv(tf.nn.max_pool2d(x, 3, 1, "SAME"), 4, 1))
    y = tf.nn.local_response_normalization(tf.concat([a, b, c], 3), 2, 1.0, 0.1, 0.75)
    first, second = tf.split(y, [6, 8], 3)
    return tf.concat([tf.reduce_max(first, [1, 2]), tf.reduce_min(second, [1, 2])], -1)


def unet(net: Network, x: Any) -> Any:
    down = tf.nn.relu(net.conv(x, 8, 3, 2))
    deep = tf.nn.relu(tf.nn.conv2d(down, net.w(3, 3, 8, 8), 1, "SAME", dilations=2))
    up = tf.nn.conv2d_transpose(deep, net.w(2, 2, 6, 8), [1, 16, 16, 6], 2, "SAME")
    near = tf.raw_ops.ResizeNearestNeighbor(images=down, size=[16, 16])
    y = tf.concat([up, tf.image.resize(down, [16, 16]), near], 3)
    y = tf.pad(net.conv(y, 4, 3), [[0, 0], [1, 1], [2, 2], [0, 0]], "REFLECT")
    return tf.nn.depth_to_space(y, 2), tf.sigmoid(y[:, 1:-1, ::2, 1])


def squeeze_excite(net: Network, x: Any) -> Any:
    y = net.conv(x, 8, 3)
    s = tf.reduce_mean(y, [1, 2], keepdims=True)
    s = tf.nn.sigmoid(net.conv(tf.nn.relu(net.conv(s, 4, 1)), 8, 1))
    y = y * s
    y = y * tf.nn.relu6(y + 3.0) / 6.0
    return tf.transpose(tf.reshape(y, [1, 64, 8]), [0, 2, 1])


def transformer(net: Network, x: Any) -> Any:
    q, k, v = (tf.einsum("abc,cde->abde", x, net.w(16, 2, 8)) for _ in range(3))
    scores = tf.einsum("aecd,abcd->acbe", k, q) * (1 / np.sqrt(8))
    y = tf.einsum("acbe,aecd->abcd", tf.nn.softmax(scores), v)
    x = x + tf.einsum("abcd,cde->abe", y, net.w(2, 8, 16))
    mean, variance = tf.nn.moments(x, [-1], keepdims=True)
    x = (x - mean) * tf.math.rsqrt(variance + 1e-5) * net.w(16) + net.w(16)
    y = tf.tensordot(x, net.w(16, 32), [[2], [0]])
    y = 0.5 * y * (1 + tf.math.erf(y / np.float32(np.sqrt(2))))
    return x + tf.matmul(y, tf.tile(net.w(1, 32, 16), [1, 1, 1]))


def lstm(net: Network, x: Any) -> Any:
    h, c = tf.zeros([1, 8]), tf.zeros([1, 8])
    kernel, bias = net.w(14, 32), net.w(32)
    for step in tf.unstack(x, axis=1):
        i, j, f, o = tf.split(tf.nn.bias_add(tf.matmul(tf.concat([step, h], 1), kernel), bias), 4, 1)
        c = c * tf.sigmoid(f + 1.0) + tf.sigmoid(i) * tf.tanh(j)
        h = tf.tanh(c) * tf.sigmoid(o)
    return h, tf.stack([h, c], 1)


def recurrent(net: Network, x: Any) -> Any:
    """The same with a loop of so many steps as the input has."""
    kernel, bias = net.w(10, 16), net.w(16)

    def step(t: Any, h: Any, total: Any) -> Any:
        gates = tf.nn.bias_add(tf.matmul(tf.concat([x[:, t], h], 1), kernel), bias)
        h = tf.tanh(gates[:, :4]) * tf.sigmoid(gates[:, 4:8])
        return t + 1, h, total + gates

    _, h, total = tf.while_loop(lambda t, *_: t < tf.shape(x)[1], step, [0, tf.zeros([1, 4]), tf.zeros([1, 16])])
    return h, total


def keras_layers(net: Network, x: Any) -> Any:
    """Recurrent layers, one behind the other, in both directions, with masks, and backwards."""
    made, bias = tf.keras.layers, {"bias_initializer": tf.keras.initializers.RandomNormal(stddev=0.3, seed=5)}
    x = net.layer(lambda: made.LSTM(6, return_sequences=True, **bias))(x)
    x = net.layer(lambda: made.Bidirectional(made.GRU(5, return_sequences=True, **bias)))(x)
    one = net.layer(lambda: made.SimpleRNN(4, return_sequences=True, go_backwards=True, **bias))(x)
    mask = tf.constant([[True, True, False, True, True, False]])
    other, h, c = net.layer(lambda: made.LSTM(3, return_state=True, activation="relu", **bias))(x, mask=mask)
    old = net.layer(lambda: made.GRU(3, reset_after=False, use_bias=False))(x, initial_state=c)
    return one, other, h, c, old


def keras_images(net: Network, x: Any) -> Any:
    return net.layer(lambda: tf.keras.layers.ConvLSTM2D(3, 3, padding="same", return_sequences=False))(x)


def branches(net: Network, x: Any) -> Any:
    kernel = net.w(6, 6)

    def high() -> Any:
        return tf.matmul(x, kernel), x * 2.0

    def low() -> Any:
        return tf.cond(tf.reduce_max(x) > 0.5, lambda: (tf.nn.relu(x), x), lambda: (tf.abs(x), x - 1.0))

    one, other = tf.cond(tf.reduce_sum(x) > 1.0, high, low)
    return one + 1.0, other


def selections(net: Network, x: Any) -> Any:
    values, places = tf.math.top_k(x, 3)
    picked = tf.gather(x, [3, 1], axis=1) + tf.gather_nd(x, [[[0, 2], [1, 4]], [[1, 1], [0, 0]]])
    hot = tf.one_hot(tf.argmax(x, 1), 6, on_value=2.0, off_value=-1.0)
    steps = tf.cumsum(x, 1, exclusive=True) + tf.reverse(x, [1])
    chosen = tf.where(x > 0.1, tf.square(x), tf.maximum(-x, 0.3)) + tf.clip_by_value(x, -0.5, 0.25)
    return values, picked, hot, steps, chosen, tf.cast(places, tf.float32)


def quantized(net: Network, x: Any) -> Any:
    x = tf.quantization.fake_quant_with_min_max_vars(x, -1.0, 1.0)
    w = tf.quantization.fake_quant_with_min_max_vars(net.w(3, 3, 3, 8), -0.6, 0.6, narrow_range=True)
    y = tf.nn.relu6(tf.nn.bias_add(tf.nn.conv2d(x, w, 1, "SAME"), net.w(8)))
    y = tf.quantization.fake_quant_with_min_max_args(y, 0.0, 6.0)
    return tf.reduce_mean(y, [1, 2])


IMAGE = (1, 16, 16, 3)
NETWORKS: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]]]] = {
    "lenet": (lenet, [(1, 16, 16, 1)]),
    "mobilenet": (mobilenet, [(1, 32, 32, 3)]),
    "resnet": (resnet, [(1, 32, 32, 3)]),
    "inception": (inception, [(1, 8, 8, 3)]),
    "unet": (unet, [IMAGE]),
    "squeeze_excite": (squeeze_excite, [(1, 8, 8, 3)]),
    "transformer": (transformer, [(1, 5, 16)]),
    "lstm": (lstm, [(1, 4, 6)]),
    "recurrent": (recurrent, [(1, 5, 6)]),
    "keras_layers": (keras_layers, [(1, 6, 5)]),
    "keras_images": (keras_images, [(1, 3, 6, 5, 2)]),
    "branches": (branches, [(1, 6)]),
    "selections": (selections, [(2, 6)]),
    "quantized": (quantized, [(1, 8, 8, 3)]),
}
TWICE = frozenset({"recurrent", "branches", "keras_layers", "keras_images"})
"""Networks with control flow: frozen in version 1 and, as `NAME_v2.pb`, in version 2."""
LISTS = frozenset({"keras_layers"})
"""Networks with lists of tensors: as `NAME.tflite` with TensorFlow's operators, too."""


def make(folder: Path, name: str) -> None:
    build, shapes = NETWORKS[name]
    net = Network(build, shapes)
    specs = [tf.TensorSpec(shape, tf.float32, name=f"in_{index}") for index, shape in enumerate(shapes)]
    inputs = [RANDOM.uniform(-1, 1, shape).astype(np.float32) for shape in shapes]
    net(*map(tf.constant, inputs))  # makes the weights
    function = tf.function(net, input_signature=specs)
    concrete = function.get_concrete_function()
    frozen = convert_variables_to_constants_v2(concrete, lower_control_flow=True)
    tf.io.write_graph(frozen.graph, str(folder), f"{name}.pb", as_text=False)
    names = [tensor.name for tensor in frozen.outputs]
    if name in TWICE:
        kept = convert_variables_to_constants_v2(concrete, lower_control_flow=False)
        tf.io.write_graph(kept.graph, str(folder), f"{name}_v2.pb", as_text=False)
    net.called = function
    tf.saved_model.save(net, str(folder / name), signatures=function_of_names(net, specs))
    if name in LISTS:
        kept = convert_variables_to_constants_v2(concrete, lower_control_flow=False)
        converter = tf.lite.TFLiteConverter.from_concrete_functions([kept])
        converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS, tf.lite.OpsSet.SELECT_TF_OPS]
        converter._experimental_lower_tensor_list_ops = False  # pyright: ignore[reportPrivateUsage]
        (folder / f"{name}.tflite").write_bytes(converter.convert())
    results = tf.nest.flatten(function(*map(tf.constant, inputs)))
    arrays = {f"in_{index}": array for index, array in enumerate(inputs)}
    arrays |= {f"out_{index}": result.numpy() for index, result in enumerate(results)}
    np.savez(folder / f"{name}.npz", names=np.array(names), **arrays)


def function_of_names(net: Network, specs: list[Any]) -> Any:
    """A signature whose outputs are `out_0`, `out_1`, ..."""

    def serve(*inputs: Any) -> Any:
        return {f"out_{index}": result for index, result in enumerate(tf.nest.flatten(net(*inputs)))}

    return tf.function(serve, input_signature=specs).get_concrete_function()


if __name__ == "__main__":
    for wanted in sys.argv[2:] or NETWORKS:
        make(Path(sys.argv[1]), wanted)
