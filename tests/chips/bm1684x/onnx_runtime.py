"""ONNX networks compiled for bm1684x, beside what ONNX Runtime computes."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import GraphProto, helper
from tpuc_driver.session import Session

onnxruntime = pytest.importorskip("onnxruntime")

Arrays: TypeAlias = dict[str, NDArray[Any]]


def compiled(work: Path, graph: GraphProto, inputs: Arrays, mode: str) -> tuple[Session, bytes, Arrays]:
    """The session, the compiled file, and ONNX Runtime's outputs by name."""
    path, names = work / "net.onnx", [output.name for output in graph.output]
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    path.write_bytes(model.SerializeToString())
    wanted = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"]).run(names, inputs)
    session = Session(chip="bm1684x", quantize=mode)
    return session, session.build(session.transform(path)).data, dict(zip(names, wanted, strict=True))


def check_equal(outputs: Arrays, wanted: Arrays) -> None:
    """Every output is equal, whatever shape it comes in."""
    assert [name for name, value in wanted.items() if not np.array_equal(outputs[name].ravel(), value.ravel())] == []
