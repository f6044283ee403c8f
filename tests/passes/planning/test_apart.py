"""Operations that two cores compute apart: every tile and stripe once, and never slower than one core."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from tpuc.api import stretches
from tpuc_driver.session import Session

pytestmark = pytest.mark.chip("bm1688")


def _network(path: Path, rows: int) -> None:
    """Convolutions, one of them read twice, with large maps first and many channels last."""
    random = np.random.default_rng(0)
    weights: list[Any] = []

    def weight(*shape: int) -> str:
        weights.append(
            numpy_helper.from_array((random.standard_normal(shape) / 8).astype(np.float32), f"w{len(weights)}")
        )
        return f"w{len(weights) - 1}"

    node = helper.make_node
    nodes = [
        node("Conv", ["x", weight(32, 8, 3, 3)], ["a"], pads=[1] * 4),
        node("Relu", ["a"], ["b"]),
        node("Conv", ["b", weight(32, 1, 3, 3)], ["c"], pads=[1] * 4, group=32),
        node("Add", ["b", "c"], ["d"]),
        node("Conv", ["d", weight(64, 32, 3, 3)], ["e"], pads=[1] * 4, strides=[2, 2]),
        node("MaxPool", ["e"], ["f"], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4),
        node("Conv", ["f", weight(96, 64, 3, 3)], ["g"], pads=[1] * 4),
        node("GlobalAveragePool", ["g"], ["y"]),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 8, rows, 64))
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("y", "d")]
    model = helper.make_model(
        helper.make_graph(nodes, "network", [x], outputs, weights),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    )
    path.write_bytes(model.SerializeToString())


@pytest.mark.parametrize("rows", [64, 61, 6])
def test_two_cores_give_the_bits_of_one(rows: int, tmp_path: Path) -> None:
    _network(tmp_path / "net.onnx", rows)
    found: list[tuple[int, dict[str, bytes]]] = []
    for cores in (1, 2):
        session = Session(chip="bm1688", quantize="f16", cores=cores)
        final, data, *_ = session.build(session.transform(tmp_path / "net.onnx"))
        loaded = session.chip.load(data)
        x = {"x": np.random.default_rng(1).standard_normal((1, 8, rows, 64)).astype(np.float32)}
        for _ in range(cores):
            found.append(
                (
                    loaded.timeline("vendor").cycles,
                    {name: array.tobytes() for name, array in loaded.run(x).items()},
                )
            )
            loaded._runner.steps = tuple(part for stretch in stretches(loaded._parts) for part in reversed(stretch))
        if cores == 2 and rows > 60:
            assert any("cores" in operation.extra_attributes for operation in final.main.operations)
            assert {part.core for part in loaded._parts} == {0, 1}
    assert found[0][1] == found[1][1] == found[2][1]
    assert found[1][0] <= found[0][0] * (0.85 if rows > 60 else 1)
