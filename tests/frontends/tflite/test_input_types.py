"""`transform --test-input` for inputs of every type and rank, which LiteRT takes as the file states them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tpuc.errors import TpucError, Unsupported
from tpuc_driver.session import Session

from tests.frontends.tflite.files import Node, Tensor, constant, tflite_file

pytest.importorskip("ai_edge_litert.interpreter", reason="needs ai-edge-litert")

PLAIN = ("BOOL", "INT8", "UINT8", "INT16", "INT32", "INT64", "FLOAT16", "FLOAT32", "FLOAT64")
QUANTIZED = ("INT8", "UINT8", "INT16")
SHAPES = ((), (3,), (1, 3, 4, 5), (1, 2, 3, 2, 2))
CAST, DEQUANTIZE = (Node("CAST", ["x"], ["y"], ("CastOptions", {})), Node("DEQUANTIZE", ["x"], ["y"]))


def fault_of(folder: Path, tensor: Tensor, node: Node, given: str) -> str:
    """Why a comparison on a sample of a dtype fails; empty when it does not."""
    sample = np.asarray(np.random.default_rng(0).integers(0, 2 if tensor.kind == "BOOL" else 7, tensor.shape))
    path, file = folder / "types.tflite", folder / "x.npz"
    path.write_bytes(tflite_file([tensor, Tensor("y", tensor.shape)], [node], ["x"], ["y"]))
    np.savez(file, x=sample.astype(given))
    session = Session()
    try:
        session.verify_transform(path, session.transform(path), test_input=(file,))
    except TpucError as error:
        return f"{tensor.kind} {tensor.shape} as {given}: {error}"
    return ""


def test_every_type_and_rank_compares(tmp_path: Path) -> None:
    faults: list[str] = []
    for shape in SHAPES:
        for kind in PLAIN:
            own = kind.lower()
            given = {own, "float64" if own.startswith("float") else "int64"}
            faults += [fault_of(tmp_path, Tensor("x", shape, kind), CAST, one) for one in sorted(given)]
        for kind in QUANTIZED:
            stored = Tensor("x", shape, kind, None, (0.05,), (0 if kind == "INT16" else 3,))
            faults += [fault_of(tmp_path, stored, DEQUANTIZE, given) for given in (kind.lower(), "float32")]
    assert [fault for fault in faults if fault] == []


def test_a_network_that_the_engine_cannot_run(tmp_path: Path) -> None:
    """LiteRT gathers no rows by 16-bit indices."""
    rows = constant("rows", np.arange(28, dtype=np.float32).reshape(7, 4))
    node = Node("GATHER", ["rows", "x"], ["y"], ("GatherOptions", {}))
    path = tmp_path / "types.tflite"
    path.write_bytes(tflite_file([rows, Tensor("x", (2,), "INT8"), Tensor("y", (2, 4))], [node], ["x"], ["y"]))
    np.savez(tmp_path / "x.npz", x=np.ones(2, np.int8))
    session = Session()
    with pytest.raises(Unsupported, match=r"types\.tflite: LiteRT cannot run it \(.*\)\. Leave out --test-input\."):
        session.verify_transform(path, session.transform(path), test_input=(tmp_path / "x.npz",))
