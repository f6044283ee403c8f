"""What an import needs in memory, measured in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.frontends.onnx.networks import network, node

LAYERS, WIDTH = 16, 1024
PROGRAM = """
import resource, sys
from pathlib import Path
from onnx import reference, shape_inference
from tests.frontends.onnx.networks import registry
from tpuc.api import ImportOptions
from tpuc_onnx.frontend import FRONTEND
offers, before = registry(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
FRONTEND.read(Path(sys.argv[1]), ImportOptions(), offers)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="units of ru_maxrss differ")
@pytest.mark.parametrize(("is_external", "most"), [(False, 3.0), (True, 1.5)])
def test_an_import_takes_a_small_multiple_of_the_file(is_external: bool, most: float, tmp_path: Path) -> None:
    weight = np.random.default_rng(0).standard_normal((WIDTH, WIDTH), np.float32)
    nodes = [node("MatMul", f"y{index} w{index}", f"y{index + 1}") for index in range(LAYERS)]
    weights = {f"w{index}": weight for index in range(LAYERS)}
    model = network(nodes, {"y0": [1, WIDTH]}, [f"y{LAYERS}"], weights)
    path = tmp_path / "m.onnx"
    onnx.save(model, path, save_as_external_data=is_external, location="m.data" if is_external else None)
    size_kib = LAYERS * WIDTH * WIDTH * 4 / 1024
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(path)], cwd=root, capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < most * size_kib
