"""Test suites for `onnx.backend` run on simulators; what is refused with a sentence is shown as skipped."""

from __future__ import annotations

import subprocess
import sys
import unittest
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from tpuc import onnx_backend

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits" / "digits.onnx"
CHIP = "bm1684x"
NAMES = "relu add_bcast gemm_default_matrix_bias reshape_negative_dim clip sequence_insert_at_back"
FEW = rf"^test_({NAMES.replace(' ', '|')}|optional_get_element_optional_tensor)_cpu$"


SUITE = f"""
import unittest, warnings
warnings.simplefilter("ignore")  # of the suite, which computes what it expects as it is loaded
import onnx.backend.test
from tpuc import onnx_backend

suite = onnx.backend.test.BackendTest(onnx_backend.backend_for("{CHIP}", "f32"), "suite")
suite.include({FEW!r})
result = unittest.TestResult()
unittest.defaultTestLoader.loadTestsFromTestCase(suite.test_cases["OnnxBackendNodeModelTest"]).run(result)
assert not result.failures and not result.errors, [*result.failures, *result.errors]
skipped = {{test.id().rpartition(".")[2]: reason for test, reason in result.skipped}}
print("\\n".join(f"{{name}}: {{reason}}" for name, reason in skipped.items() if "no matched include" not in reason))
print(result.testsRun - len(result.skipped), "passed")
"""


def test_the_suite_of_onnx_runs_on_a_chip() -> None:
    done = subprocess.run([sys.executable, "-c", SUITE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "5 passed" in done.stdout
    assert "test_sequence_insert_at_back_cpu: " in done.stdout
    assert "input 'optional_input' is an optional value, but only tensors of numbers are supported." in done.stdout


@pytest.mark.chip("bm1684x")
def test_devices_are_the_host_chips_and_their_modes() -> None:
    found = {name: onnx_backend.supports_device(name) for name in ("CPU", CHIP, f"{CHIP}:f16", "CUDA", f"{CHIP}:f8")}
    assert found == {"CPU": True, CHIP: True, f"{CHIP}:f16": True, "CUDA": False, f"{CHIP}:f8": False}


def test_a_network_runs_on_host_and_chip() -> None:
    model = onnx.load(DIGITS)
    x = np.load(DIGITS.with_name("digits_eval.npz"))["x"][:1].reshape(1, 1, 8, 8)
    host = onnx_backend.run_model(model, [x])
    chip = onnx_backend.prepare(model, f"{CHIP}:f16").run({"image": x})
    assert host["probabilities"].dtype == np.float32
    np.testing.assert_allclose(chip[0], host[0], atol=5e-3)  # half floats
    assert not np.array_equal(chip[0], host[0])


def test_integers_that_are_shapes_become_constants_and_may_change() -> None:
    ends = [helper.make_tensor_value_info("x", 1, (2, 6)), helper.make_tensor_value_info("s", 7, (2,))]
    out = [helper.make_tensor_value_info("y", 1, (None, None))]
    graph = helper.make_graph([helper.make_node("Reshape", ["x", "s"], ["y"])], "g", ends, out)
    ready = onnx_backend.prepare(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), CHIP)
    x = np.arange(12, dtype=np.float32).reshape(2, 6)
    for shape in ((3, 4), (4, 3)):
        np.testing.assert_array_equal(ready.run([x, np.array(shape)])[0], x.reshape(shape))


def test_a_node_alone() -> None:
    node = helper.make_node("Sub", ["a", "b"], ["c"])
    a, b = np.float32([[1, 2]]), np.float32([[5, 7]])
    (found,) = onnx_backend.run_node(node, [a, b], CHIP, outputs_info=[(np.float32, (1, 2))])
    np.testing.assert_array_equal(found, a - b)


def test_what_cannot_be_compiled_is_a_skipped_test_with_a_sentence() -> None:
    node = helper.make_node("StringConcat", ["a", "b"], ["c"])
    ends: list[Any] = [helper.make_tensor_value_info(name, 8, (1,)) for name in "abc"]
    model = helper.make_model(helper.make_graph([node], "g", ends[:2], ends[2:]))
    with pytest.raises(unittest.SkipTest, match=r"^g: input 'a' is text, but only tensors of numbers"):
        onnx_backend.prepare(model, CHIP)
