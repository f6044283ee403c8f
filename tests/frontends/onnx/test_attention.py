"""Attention of ONNX Runtime in its forms, compared with ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto
from tpuc.api import Unsupported
from tpuc.interpreter import Interpreter

from tests.families import each
from tests.frontends.onnx.networks import Array, network, node, read, run_onnx, values

MS = "com.microsoft"
B, S, N, H = 2, 4, 2, 16
"""Images, length, heads and their size."""

D = N * H
WEIGHTS: Mapping[str, Array] = {
    "w": values(D, 3 * D, seed=3) / 4,
    "ww": values(D, 2 * D + 8, seed=3) / 4,
    "b": values(3 * D, seed=4),
    "bb": values(2 * D + 8, seed=4),
    "lengths": np.array([4, 2], np.int32),
    "mask": np.array([[1, 1, 0, 1], [1, 0, 0, 1]], np.int32),
    "mask3": np.tril(np.ones((B, S, S), np.int32)),
    "long_mask": np.array([[1, 1, 0, 1, 1, 1, 1], [0, 1, 1, 1, 0, 0, 1]], np.int32),
    "added": values(1, N, S, S, seed=5),
    "k": values(B, 5, D, seed=6),
    "v": values(B, 5, D, seed=7),
    "kh": values(B, N, 5, H, seed=6),
    "vh": values(B, N, 5, H, seed=7),
    "pk": values(B, N, 3, H, seed=9),
    "pv": values(B, N, 3, H, seed=10),
    "past": values(2, B, N, 3, H, seed=11),
    "five": np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32),
    "seqlens": np.array([S - 1] * B, np.int32),
    "total": np.array(S, np.int32),
    "cos": np.cos(np.outer(np.arange(8), 1 / 10 ** np.arange(H // 2))).astype(np.float32),
    "sin": np.sin(np.outer(np.arange(8), 1 / 10 ** np.arange(H // 2))).astype(np.float32),
    "cos2": np.cos(np.outer(np.arange(8), [1, 0.1])).astype(np.float32),
    "sin2": np.sin(np.outer(np.arange(8), [1, 0.1])).astype(np.float32),
    "gk": values(B, S, H, seed=12),
    "gv": values(B, S, H, seed=13),
    "place": np.array([2], np.int64),
    "places": np.array([[0, 1, 2, 3], [3, 4, 5, 6]], np.int64),
    "nk": values(B, S, D, seed=14),
    "nv": values(B, S, D, seed=15),
}
TEXT = (B, S, D)
CASES: Mapping[str, tuple[onnx.NodeProto, tuple[int, ...]]] = {
    "plain": (node("Attention", "x w b", "y", domain=MS, num_heads=N), TEXT),
    "without a bias": (node("Attention", "x w", "y", domain=MS, num_heads=N, scale=0.5), TEXT),
    "causal": (node("Attention", "x w b", "y", domain=MS, num_heads=N, unidirectional=1), TEXT),
    "with lengths": (node("Attention", "x w b lengths", "y", domain=MS, num_heads=N), TEXT),
    "with a mask": (node("Attention", "x w b mask", "y", domain=MS, num_heads=N), TEXT),
    "with a mask for each query": (node("Attention", "x w b mask3", "y", domain=MS, num_heads=N), TEXT),
    "with a summand": (node("Attention", "x w b - - added", "y", domain=MS, num_heads=N), TEXT),
    "with small values": (
        node("Attention", "x ww bb", "y", domain=MS, num_heads=N, qkv_hidden_sizes=[D, D, 8]),
        TEXT,
    ),
    "with a past": (node("Attention", "x w b - past", "y p", domain=MS, num_heads=N, unidirectional=1), TEXT),
    "with a past and a mask": (node("Attention", "x w b long_mask past", "y p", domain=MS, num_heads=N), TEXT),
    "of three": (node("MultiHeadAttention", "x k v", "y", domain=MS, num_heads=N), TEXT),
    "of three with a bias": (node("MultiHeadAttention", "x k v b", "y", domain=MS, num_heads=N), TEXT),
    "of three, of heads": (node("MultiHeadAttention", "x kh vh", "y", domain=MS, num_heads=N), TEXT),
    "of three with a mask": (node("MultiHeadAttention", "x k v - five", "y", domain=MS, num_heads=N), TEXT),
    "of three behind a past": (
        node("MultiHeadAttention", "x x x - - - pk pv", "y p q", domain=MS, num_heads=N),
        TEXT,
    ),
    "of three, causal": (node("MultiHeadAttention", "x nk nv", "y", domain=MS, num_heads=N, unidirectional=1), TEXT),
    "of groups": (
        node("GroupQueryAttention", "x gk gv - - seqlens total", "y", domain=MS, num_heads=N, kv_num_heads=1),
        TEXT,
    ),
    "of groups, turned": (
        node(
            "GroupQueryAttention",
            "x gk gv - - seqlens total cos sin",
            "y",
            domain=MS,
            num_heads=N,
            kv_num_heads=1,
            do_rotary=1,
        ),
        TEXT,
    ),
    "of groups, packed": (
        node("GroupQueryAttention", "x - - - - seqlens total", "y p q", domain=MS, num_heads=N, kv_num_heads=1),
        (B, S, D + 2 * H),
    ),
    "turned": (node("RotaryEmbedding", "x places cos sin", "y", domain=MS), TEXT),
    "turned in turn": (node("RotaryEmbedding", "x place cos sin", "y", domain=MS, interleaved=1), TEXT),
    "turned in heads": (node("RotaryEmbedding", "x places cos sin", "y", domain=MS), (B, N, S, H)),
    "turned in part": (
        node("RotaryEmbedding", "x place cos2 sin2", "y", domain=MS, num_heads=N, rotary_embedding_dim=4),
        TEXT,
    ),
}


def model_of(proto: onnx.NodeProto, shape: tuple[int, ...]) -> onnx.ModelProto:
    used = {name: WEIGHTS[name] for name in proto.input if name in WEIGHTS}
    return network([proto], {"x": list(shape)}, list(proto.output), used)


@each("case", CASES)
def test_as_onnx_runtime(case: str, tmp_path: Path) -> None:
    proto, shape = CASES[case]
    model = model_of(proto, shape)
    x = values(*shape)
    got = Interpreter(read(model, tmp_path)).run({"x": x})
    for name, wanted in run_onnx(model, {"x": x}).items():
        assert got[name].shape == wanted.shape
        np.testing.assert_allclose(got[name], wanted, atol=2e-5)


def test_packed(tmp_path: Path) -> None:
    """ONNX Runtime packs on graphics cards only: the same as the parts of it."""
    packed, pair = values(B, S, N, 3, H), values(B, 5, N, 2, H, seed=8)
    query = values(*TEXT)
    parts = [packed[:, :, :, index].reshape(B, S, D) for index in range(3)]
    keys = [pair[:, :, :, index].reshape(B, 5, D) for index in range(2)]
    for inputs, whole, (first, *others) in (
        ({"x": packed}, {}, parts),
        ({"x": query}, {"kv": pair}, [query, *keys]),
    ):
        proto = node("MultiHeadAttention", " ".join(["x", *whole]), "y", domain=MS, num_heads=N)
        module = read(network([proto], {"x": list(inputs["x"].shape)}, ["y"], whole), tmp_path)
        apart = node("MultiHeadAttention", "x k v", "y", domain=MS, num_heads=N)
        model = network([apart], {"x": list(TEXT)}, ["y"], dict(zip("kv", others, strict=True)))
        got = Interpreter(module).run(inputs)["y"]
        np.testing.assert_allclose(got, run_onnx(model, {"x": first})["y"], atol=2e-5)


@each("mask", ["", "mask"])
def test_of_integers(mask: str, tmp_path: Path) -> None:
    """QAttention; the only rounding is that of the input and of float sums."""
    random = np.random.default_rng(0)
    weights = {
        **WEIGHTS,
        "xs": np.array(0.02, np.float32),
        "xz": np.array(120, np.uint8),
        "q": random.integers(-128, 128, (D, 3 * D)).astype(np.int8),
        "qs": np.array(0.005, np.float32),
        "qz": np.array(0, np.int8),
    }
    proto = node("QAttention", f"i q b xs qs {mask or '-'} xz qz", "y", domain=MS, num_heads=N)
    nodes = [node("QuantizeLinear", "x xs xz", "i"), proto]
    used = {name: weights[name] for one in nodes for name in one.input if name in weights}
    model = network(nodes, {"x": list(TEXT)}, ["y"], used)
    x = values(*TEXT)
    got = Interpreter(read(model, tmp_path)).run({"x": x})["y"]
    np.testing.assert_allclose(got, run_onnx(model, {"x": x})["y"], atol=2e-5)


def gqa(inputs: str, **attributes: float) -> onnx.NodeProto:
    return node("GroupQueryAttention", inputs, "y", domain=MS, num_heads=N, kv_num_heads=1, **attributes)


@each(
    ("proto", "expected"),
    [
        (
            node("Attention", "x w b five", "y", domain=MS, num_heads=N),
            "a mask of shape (2, 5) is not supported; use one number or one row per image.",
        ),
        (
            node("Attention", "x w b", "y", domain=MS, num_heads=N, do_rotary=1),
            "do_rotary and past_present_share_buffer are not supported.",
        ),
        (
            node("MultiHeadAttention", "x k v", "y - - s", domain=MS, num_heads=N),
            "an in-place past, and scores as an output, are not supported.",
        ),
        (
            node("MultiHeadAttention", "x k", "y", domain=MS, num_heads=N),
            "operands of [3, 3] dimensions are not supported; use 3 dimensions each, or 5 if packed.",
        ),
        (
            node("MultiHeadAttention", "x kh vh b", "y", domain=MS, num_heads=N),
            "a bias for keys that are already split into heads is not supported.",
        ),
        (
            gqa("x gk gv pk pv seqlens total"),
            "past keys and values are not supported; export the network without a KV cache.",
        ),
        (gqa("x gk gv - - lengths total"), "its lengths minus 1 (seqlens_k) are [4, 2], not all 3."),
        (gqa("x gk gv - - seqlens total", softcap=2.0), "softcap = 2.0 is not supported."),
        (
            gqa("x gk gv - - seqlens total - - places"),
            "position ids, sinks, quantized keys, norms and scores as an output are not supported.",
        ),
        (
            node("RotaryEmbedding", "x places cos sin", "y", domain=MS, is_packed_batching=1),
            "is_packed_batching is not supported.",
        ),
    ],
)
def test_refusals(proto: onnx.NodeProto, expected: str, tmp_path: Path) -> None:
    model = model_of(proto, TEXT)
    for index, name in enumerate(model.graph.node[0].output):
        model.graph.node[0].output[index] = "" if name == "-" else name
    del model.graph.output[1:]
    with pytest.raises(Unsupported) as caught:
        read(model, tmp_path)
    assert str(caught.value).endswith(f"m.onnx: node '{proto.name}' ({proto.op_type}): {expected}")


def test_lengths_that_are_computed(tmp_path: Path) -> None:
    """Which keys count is known when the network is compiled."""
    nodes = [node("Cast", "n", "i", to=TensorProto.INT32), gqa("x gk gv - - i total")]
    used = {name: WEIGHTS[name] for name in ("gk", "gv", "total")}
    model = network(nodes, {"x": list(TEXT), "n": [B]}, ["y"], used)
    with pytest.raises(Unsupported, match=r"the list of lengths is computed at run time \('i'\), but must be a const"):
        read(model, tmp_path)
