"""Values that f16 has few numbers for are named when a network is compiled with samples, with what to do."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tpuc_driver.session import Session

from tests.families import each

FIRST = "f16 has steps of 5.96e-08 around 0, too coarse for value"
WAY_OUT = (
    "they lose precision or become 0; keep the ops around them in f32 or bf16 (--quantize-table), or all with "
    "--quantize"
)


def _remarks(folder: Path, chip: str, mode: str, factor: float) -> list[str]:
    graph = helper.make_graph(
        [helper.make_node("Mul", ["x", "k"], ["s"]), helper.make_node("Abs", ["s"], ["y"])],
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 4))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 4))],
        [numpy_helper.from_array(np.float32(factor), "k")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), folder / "net.onnx")
    np.savez(folder / "x.npz", x=np.ones((1, 4), np.float32))
    said: list[str] = []
    session = Session(chip=chip, quantize=mode, remark=said.append)
    target = folder / f"net{session.chip.description.suffix}"
    session.compile(folder / "net.onnx", target, dataset=folder / "x.npz")
    return [text for text in said if "around 0" in text]


@pytest.mark.chip("bm1684x")
@each("factor", [2e-9, 5e-7])
def test_values_of_a_few_steps_are_named(factor: float, tmp_path: Path) -> None:
    (said,) = _remarks(tmp_path, "bm1684x", "f16", factor)
    assert said.startswith(FIRST)
    assert f"'s' up to {factor:g}" in said
    assert said.endswith(WAY_OUT)


@pytest.mark.chip("bm1684x")
@each(("mode", "factor"), [("f16", 2e-6), ("f16", 0.0), ("bf16", 2e-9), ("f32", 2e-9)])
def test_others_are_not(mode: str, factor: float, tmp_path: Path) -> None:
    assert _remarks(tmp_path, "bm1684x", mode, factor) == []
