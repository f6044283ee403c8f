"""The page of exported networks counts what was measured, and nothing else as compiled."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
import tpuc
from onnx import TensorProto, helper, numpy_helper

from benchmarks import exports
from benchmarks.architectures import ARCHITECTURES
from benchmarks.architectures.measure import matched
from benchmarks.architectures.rounding import rounded

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.fixture(scope="module")
def models() -> Any:
    spec = importlib.util.spec_from_file_location("docs_models", DOCS / "models.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_collection_is_large_and_its_names_are_unique() -> None:
    names = [row.name for row in ARCHITECTURES]
    assert len(set(names)) == len(names) >= 80
    assert {row.package for row in ARCHITECTURES} == {"timm", "torchvision", "transformers", "ultralytics", "drawn"}


def test_results_are_those_of_the_collection_and_every_refusal_has_a_reason() -> None:
    results = exports.read()
    assert results.keys() <= {f"{row.name} {kind}" for row in ARCHITECTURES for kind in row.exporters}
    steps = [step for entry in results.values() for step in entry.get("steps", {}).values()]
    assert {step["result"] for step in steps} <= {"equal", "wrong", "refused", "failed", "timeout", "memory"}
    assert [step for step in steps if step["result"] != "equal" and not step.get("why")] == []


STEPS = {
    "as it is": {"result": "equal", "cycles": 7},
    "with an option": {"result": "equal", "cycles": 7, "option": "--cpu-ops all", "why": "no"},
    "outside the bound": {"result": "wrong", "cycles": 7, "why": "below"},
    "not at all": {"result": "refused", "why": "stride at most 15, this one is 40"},
}


@pytest.mark.parametrize(("expected", "step"), STEPS.items(), ids=STEPS.keys())
def test_each_result_counts_once(expected: str, step: dict[str, Any], models: Any) -> None:
    entry = {"bytes": 1, "steps": {"import": {"result": "equal"}, "bm1684x f16": step}}
    found = models.counts([entry, {"bytes": 1, "steps": {}}], "bm1684x f16")
    assert {name: count for name, count in found.items() if count} == {expected: 1}


def test_what_is_not_imported_compiles_nowhere(models: Any) -> None:
    entry = {"bytes": 1, "steps": {"import": {"result": "refused", "why": "no operator"}}}
    assert [models.outcome(entry, column) for column in models.COLUMNS] == ["not at all"] * len(models.COLUMNS)


def test_refusals_of_one_kind_are_one_line_with_its_networks(models: Any) -> None:
    first, second, third = ARCHITECTURES[:3]
    reasons = ("node 'a': stride at most 15, this one is 40", "node 'b': stride at most 15, this one is 41", "no")
    found = [
        (row, "dynamo", {"steps": {"c f32": {"result": "refused", "why": why}}})
        for row, why in zip((first, second, third), reasons, strict=True)
    ]
    assert list(models.causes(found)) == [
        ("c f32", reasons[0], [first.name, second.name]),
        ("c f32", "no", [third.name]),
    ]


def test_a_result_is_kept_in_the_order_of_the_table(tmp_path: Path) -> None:
    first, second = ARCHITECTURES[:2]
    for row in (second, first):
        exports.keep(f"{row.name} dynamo", {"export": "no"}, tmp_path / "results.json")
    assert list(json.loads((tmp_path / "results.json").read_text())) == [
        f"{first.name} dynamo",
        f"{second.name} dynamo",
    ]


def test_selected_rows_are_matched_one_to_one_over_all_outputs() -> None:
    logits, boxes = np.array([[[1.0], [1.0], [3.0]]]), np.array([[[0.1, 0.2], [0.7, 0.8], [0.5, 0.5]]])
    wanted = {"logits": logits, "boxes": boxes}
    moved = {name: array[:, [2, 0, 1]] + 0.01 for name, array in wanted.items()}
    for name, array in matched(moved, wanted).items():
        assert np.allclose(array, wanted[name] + 0.01)
    scores, missed = np.array([[[0.0], [1.0]]]), np.array([[[5.0], [0.4]]])
    assert matched({"scores": missed}, {"scores": scores})["scores"].ravel().tolist() == [0.4, 5.0]


@pytest.mark.parametrize("mode", ["f16", "bf16", "int8"])
def test_rounding_alone_is_that_of_numpy(mode: str, tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    x, weight = (random.normal(0, 3, shape).astype(np.float32) for shape in ((5, 33), (33, 7)))
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["product"]),
        helper.make_node("Reshape", ["product", "shape"], ["y"]),
    ]
    constants = [numpy_helper.from_array(weight, "w"), numpy_helper.from_array(np.array([35]), "shape")]
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in (("x", (5, 33)), ("y", (35,)))
    ]
    graph = helper.make_graph(nodes, "product", ends[:1], ends[1:], constants)
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), tmp_path / "net.onnx"
    )

    def narrow(array: np.ndarray, exact: np.ndarray, axis: int | None = None) -> np.ndarray:
        if mode != "int8":
            return array.astype({"f16": np.float16, "bf16": ml_dtypes.bfloat16}[mode]).astype(np.float32)
        step = np.abs(exact).max(axis, keepdims=True) / 127
        return np.round(array / step) * step

    wanted = narrow(narrow(x, x) @ narrow(weight, weight, 0), x @ weight).reshape(35)
    found = rounded(tpuc.load(tmp_path / "net.onnx").module, [{"x": x}], mode)["y"]
    assert np.abs(found - wanted).max() <= 1e-5 * np.abs(wanted).max()
    assert np.abs(found - (x @ weight).reshape(35)).max() > 1e-3
