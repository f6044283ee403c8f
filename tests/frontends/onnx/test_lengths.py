"""Recurrent layers whose sequences end at lengths that only a run knows, against ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper
from tpuc.interpreter import Interpreter

from tests.families import each
from tests.frontends.onnx.networks import network, node, read, run_onnx, values

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
DIRECTIONS = ("forward", "reverse", "bidirectional")
STEPS, COUNT, INNER, HIDDEN = 7, 3, 5, 6


def layer(op: str, direction: str) -> onnx.ModelProto:
    ways, gates = 2 if direction == "bidirectional" else 1, GATES[op] * HIDDEN
    results = "Y Yh Yc" if op == "LSTM" else "Y Yh"
    model = network(
        [node(op, "x W R B lengths", results, hidden_size=HIDDEN, direction=direction)],
        {"x": [STEPS, COUNT, INNER]},
        results.split(),
        {
            "W": values(ways, gates, INNER),
            "R": values(ways, gates, HIDDEN, seed=2) / 2,
            "B": values(ways, 2 * gates, seed=3),
        },
    )
    model.graph.input.append(helper.make_tensor_value_info("lengths", TensorProto.INT32, [COUNT]))
    return model


@each(("op", "direction"), [(op, direction) for op in GATES for direction in DIRECTIONS])
def test_sequences_end_where_they_say(op: str, direction: str, tmp_path: Path) -> None:
    """Behind its length Y is 0, and the last states are those of the last valid step."""
    model = layer(op, direction)
    interpreter = Interpreter(read(model, tmp_path))
    for lengths in ([7, 3, 1], [2, 7, 5]):
        x = values(STEPS, COUNT, INNER, seed=lengths[0])
        wanted = run_onnx(model, {"x": x, "lengths": np.array(lengths, np.int32)})
        got = interpreter.run({"x": x, "lengths": np.array(lengths, np.float32)})
        for name, array in wanted.items():
            np.testing.assert_allclose(got[name], array, rtol=0, atol=1e-5)
