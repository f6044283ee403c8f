"""Element-wise operators that are several of ours, against their definitions."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from tpuc.interpreter import Interpreter
from tpuc.registry import Registry

from tests.frontends.tensorflow.networks import imported
from tests.frontends.tensorflow.writing import GraphWriter


def test_what_is_left_of_an_error_function_and_quotients_without_nan(tmp_path: Path, registry: Registry) -> None:
    g, f32 = GraphWriter(), np.dtype(np.float32)
    x, y = g.placeholder("x", (2, 5)), g.placeholder("y", (2, 5))
    g.add("rest", "Erfc", x, T=f32)
    g.add("quotient", "DivNoNan", x, y, T=f32)
    g.add("row", "DivNoNan", x, g.constant("c", [1, 0, 2, 0, -4]), T=f32)
    path = tmp_path / "net.pb"
    path.write_bytes(g.content())
    a = np.linspace(-3, 3, 10, dtype=np.float32).reshape(2, 5)
    b = np.array([[0, 1, -2, 0, 5], [3, 0, 0, 0.5, 1]], np.float32)
    found = Interpreter(imported(path, registry, ["rest", "quotient", "row"])).run({"x": a, "y": b})
    c = np.array([1, 0, 2, 0, -4], np.float32)
    wanted = {
        "rest": np.vectorize(math.erfc)(a),
        "quotient": np.divide(a, b, out=np.zeros_like(a), where=b != 0),
        "row": np.divide(a, c, out=np.zeros_like(a), where=c != 0),
    }
    for name, array in wanted.items():
        np.testing.assert_allclose(found[name].reshape(2, 5), array, rtol=1e-5, atol=1e-6)
