"""Blocks of constants that are put into what a network computes."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import onnx
import pytest
import tpuc

from tests.families import each


@pytest.mark.chip("bm1684x")
@each("mode", ["f32", "f16"])
def test_blocks_of_constants_are_scattered(mode: str, tmp_path: Path) -> None:
    """Constants that a lowering takes in another shape are constants of that shape."""
    generator, faults = np.random.default_rng(0), list[str]()
    x, blocks = (generator.normal(size=shape).astype(np.float32) for shape in ((1, 3, 6, 5), (2, 6, 5)))
    for place, reduction in itertools.product(([[0, 1], [0, 2]], [[0, 2], [0, 0]]), ("none", "add", "mul", "max")):
        weights = {"i": np.array(place), "u": blocks}
        node = onnx.helper.make_node("ScatterND", ["x", "i", "u"], ["y"], reduction=reduction)
        ends = [[onnx.helper.make_tensor_value_info(name, 1, x.shape)] for name in "xy"]
        graph = onnx.helper.make_graph(
            [node], "blocks", *ends, [onnx.numpy_helper.from_array(array, name) for name, array in weights.items()]
        )
        opset = [onnx.helper.make_opsetid("", 18)]
        onnx.save(onnx.helper.make_model(graph, opset_imports=opset, ir_version=8), tmp_path / "blocks.onnx")
        want = x.copy()
        for (first, second), block in zip(place, blocks, strict=True):
            before = want[first, second]
            made = {"none": block, "add": before + block, "mul": before * block, "max": np.maximum(before, block)}
            want[first, second] = made[reduction]
        (got,) = tpuc.load(tmp_path / "blocks.onnx").compile("bm1684x", mode=mode).run(x).values()
        if np.abs(got - want).max() > 2**-9 * np.abs(want).max():
            faults.append(f"{place} {reduction}")
    assert faults == []
