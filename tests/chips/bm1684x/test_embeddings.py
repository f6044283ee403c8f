"""A network over token numbers: look-ups, positions by running sums, masked attention, the best class of each token."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from tpuc_driver.session import Session

from tests.families import each

onnxruntime = pytest.importorskip("onnxruntime")

Array = NDArray[Any]
WORDS, WIDTH, TOKENS, HEADS, CLASSES = 5000, 64, 24, 4, 10  # more words than 16-bit floats count
LEAST_COSINE = {"f32": 1 - 1e-6, "f16": 0.9999, "bf16": 0.999, "int8": 0.98}


def network() -> onnx.ModelProto:
    rng = np.random.default_rng(0)
    weights: list[onnx.TensorProto] = []
    nodes: list[onnx.NodeProto] = []

    def weight(name: str, array: Array) -> str:
        weights.append(numpy_helper.from_array(array, name))
        return name

    def matrix(name: str, *shape: int, scale: float) -> str:
        return weight(name, rng.normal(0, scale, shape).astype(np.float32))

    def op(kind: str, inputs: list[str], name: str, **attributes: Any) -> str:
        nodes.append(helper.make_node(kind, inputs, [name], name=name, **attributes))
        return name

    def heads(x: str, name: str, order: list[int]) -> str:
        apart = weight(f"{name}_shape", np.array([1, TOKENS, HEADS, WIDTH // HEADS], np.int64))
        return op("Transpose", [op("Reshape", [x, apart], f"{name}_apart")], name, perm=order)

    words = op("Gather", [matrix("words", WORDS, WIDTH, scale=0.5), "ids"], "word", axis=0)
    used = op("Not", [op("Equal", ["ids", weight("pad", np.array(0, np.int64))], "is_pad")], "used")
    count = op("Cast", [used], "count", to=TensorProto.INT64)
    sums = op("CumSum", [count, weight("along", np.array(1, np.int64))], "sums")
    places = op("Add", [op("Mul", [sums, count], "kept"), weight("one", np.array(1, np.int64))], "places")
    positions = op("Gather", [matrix("table", TOKENS + 2, WIDTH, scale=0.5), places], "position", axis=0)
    scale, bias = weight("g", np.ones(WIDTH, np.float32)), weight("b", np.zeros(WIDTH, np.float32))
    x = op("LayerNormalization", [op("Add", [words, positions], "sum"), scale, bias], "x", axis=-1)
    q = op("MatMul", [x, matrix("wq", WIDTH, WIDTH, scale=0.1)], "q")
    v = op("MatMul", [x, matrix("wv", WIDTH, WIDTH, scale=0.1)], "v")
    scores = op("MatMul", [heads(q, "query", [0, 2, 1, 3]), heads(q, "key", [0, 2, 3, 1])], "scores")
    scores = op("Mul", [scores, weight("quarter", np.array(0.25, np.float32))], "scaled")
    mask = op("Unsqueeze", [used, weight("front", np.array([1, 2], np.int64))], "mask")
    scores = op("Where", [mask, scores, weight("never", np.array(-3.4e38, np.float32))], "masked")
    mixed = op("MatMul", [op("Softmax", [scores], "p", axis=-1), heads(v, "value", [0, 2, 1, 3])], "mixed")
    whole = weight("whole", np.array([1, TOKENS, WIDTH], np.int64))
    context = op("Reshape", [op("Transpose", [mixed], "turned", perm=[0, 2, 1, 3]), whole], "context")
    logits = op("MatMul", [op("Add", [context, x], "y"), matrix("wo", WIDTH, CLASSES, scale=0.3)], "logits")
    op("ArgMax", [logits], "best", axis=-1, keepdims=0)
    graph = helper.make_graph(
        nodes,
        "tokens",
        [helper.make_tensor_value_info("ids", TensorProto.INT64, [1, TOKENS])],
        [
            helper.make_tensor_value_info("logits", TensorProto.FLOAT, [1, TOKENS, CLASSES]),
            helper.make_tensor_value_info("best", TensorProto.INT64, [1, TOKENS]),
        ],
        weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def sentences(count: int) -> Iterator[Array]:
    """Token numbers, the last ones 0."""
    rng = np.random.default_rng(5)
    for _ in range(count):
        ids = rng.integers(1, WORDS, (1, TOKENS))
        ids[:, TOKENS - int(rng.integers(0, 10)) :] = 0
        yield ids.astype(np.int64)


def compiled(mode: str, folder: Path) -> Path:
    """The file of the network."""
    path = folder / "tokens.onnx"
    path.write_bytes(network().SerializeToString())
    samples = folder / "samples.npz"
    np.savez(samples, ids=np.stack([ids.astype(np.float32) for ids in sentences(16)]))
    model = folder / "tokens.bmodel"
    session = Session(chip="bm1684x", quantize=mode)
    session.compile(path, model, dataset=samples if mode.startswith("int8") else None, calibration_method="max")
    return model


@each("mode", LEAST_COSINE)
def test_tokens_choose_their_rows(mode: str, tmp_path: Path) -> None:
    model = compiled(mode, tmp_path)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    reference = onnxruntime.InferenceSession(network().SerializeToString(), options)
    chip = Session(chip="bm1684x").chip
    loaded = chip.load(model.read_bytes())
    agree = 0
    for ids in sentences(4):
        logits, best = reference.run(None, {"ids": ids})
        found = loaded.run({"ids": ids.astype(np.float32)})
        got = next(value for name, value in found.items() if value.size == logits.size).reshape(logits.shape)
        places = next(value for name, value in found.items() if value.size == best.size).reshape(best.shape)
        cosine = float((got * logits).sum() / np.sqrt((got**2).sum() * (logits**2).sum()))
        assert cosine >= LEAST_COSINE[mode], cosine
        assert np.array_equal(places, got.argmax(-1))
        agree += int((places == best).sum())
    # weights are random, so many tokens have two scores that are nearly equal
    assert agree >= (0.85 if mode == "int8" else 0.98) * 4 * TOKENS
