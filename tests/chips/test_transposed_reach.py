"""Transposed convolutions whose output padding or stride reaches beyond the filter are those of ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
import tpuc
from onnx import helper, numpy_helper

from tests.families import each

MODES = {"bm1684x": ("f32", "f16", "int8"), "cv181x": ("bf16", "int8")}
CHANNELS, GROUPS, CASES = 4, (1, 2, 4), 12
SQNR_DB = {"f32": 100.0, "f16": 50.0, "bf16": 35.0, "int8": 25.0}
"""What a mode keeps of one layer of normal values."""


def network(dimensions: int, cases: int = CASES) -> onnx.ModelProto:
    """Many layers on one input, drawn at random: each has an output padding above its padding at the end, or a stride
    above its window.
    """
    random = np.random.default_rng(dimensions)
    nodes, weights, outputs = [], [], []
    for index in range(cases):
        kernel, stride = (random.integers(1, 4, dimensions).tolist() for _ in range(2))
        stride = [one + 1 for one in stride]
        extra = [int(random.integers(0, one)) for one in stride]
        pads = [int(random.integers(0, one)) for one in kernel] * 2
        pads[dimensions:] = [int(random.integers(0, one + 1)) for one in pads[:dimensions]]
        group = int(random.choice(GROUPS))
        shape = (CHANNELS, 8 // group, *kernel)
        weights += [
            numpy_helper.from_array(random.normal(0, 1, shape).astype(np.float32), f"w{index}"),
            numpy_helper.from_array(random.normal(0, 1, 8).astype(np.float32), f"b{index}"),
        ]
        nodes.append(
            helper.make_node(
                "ConvTranspose",
                ["x", f"w{index}", f"b{index}"],
                [f"y{index}"],
                name=f"y{index}",
                group=group,
                kernel_shape=kernel,
                strides=stride,
                pads=pads,
                output_padding=extra,
            )
        )
        outputs.append(helper.make_tensor_value_info(f"y{index}", onnx.TensorProto.FLOAT, None))
    source = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, CHANNELS, *(5, 6)[:dimensions]])
    graph = helper.make_graph(nodes, "reach", [source], outputs, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.filterwarnings("ignore::tpuc_driver.facade.remarks.Remark")  # one sample is enough for a sum
@each("chip", [pytest.param(chip, marks=pytest.mark.chip(chip)) for chip in MODES])
def test_what_lies_beyond_the_filter_is_the_bias(chip: str) -> None:
    low: list[str] = []
    for dimensions in (1, 2):
        model = network(dimensions)
        x = np.random.default_rng(9).normal(0, 1, (1, CHANNELS, *(5, 6)[:dimensions])).astype(np.float32)
        engine = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        wanted = dict(zip([one.name for one in engine.get_outputs()], engine.run(None, {"x": x}), strict=True))
        loaded = tpuc.load(model)
        for mode in MODES[chip]:
            made = (
                loaded.quantize(x[None], method="max", tune_num=0, bias_num=0).compile(chip) if mode == "int8" else None
            )
            found = (made or loaded.compile(chip, mode=mode)).run({"x": x})
            for name, array in wanted.items():
                noise = float(np.sum((found[name] - array) ** 2)) + 1e-30
                decibels = 10 * np.log10(float(np.sum(array**2)) / noise)
                if decibels < SQNR_DB[mode]:
                    low.append(f"{dimensions}-D {mode} {name}: {decibels:.1f} dB")
    assert low == []
