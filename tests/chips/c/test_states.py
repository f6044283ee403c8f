"""Networks in C that keep their states between runs: frame by frame as LiteRT, which keeps variables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper
from tpuc.api import TpucError
from tpuc.api.evaluation import StatefulInterpreter
from tpuc_driver.cli import main
from tpuc_driver.session import Session
from tpuc_driver.session.boundary import Boundary

from tests.chips.c.programs import build, needs_compiler, run
from tests.families import each
from tests.frontends.tflite.test_variables import by_litert, frames, streaming

Array = NDArray[Any]
pytestmark = needs_compiler
PROGRAM = """\
#include <stdio.h>
#include "net_network.h"
static {0} x[NET_X_SIZE], mean[NET_MEAN_SIZE], total[NET_TOTAL_SIZE];
int main(void) {{
  int32_t count = 0;
  while (fread(x, sizeof x, 1, stdin) == 1) {{
    if (count == 100) net_reset();
    if (net_run(x, mean, total, NULL) != 0) return 1;
    fwrite(mean, sizeof mean, 1, stdout);
    fwrite(total, sizeof total, 1, stdout);
    ++count;
  }}
  return 0;
}}
"""


@pytest.mark.parametrize(("kind", "zero", "start"), [("FLOAT32", 0, 1.5), ("INT8", -3, 0.0)])
def test_a_program_runs_a_hundred_frames_as_litert(kind: str, zero: int, start: float, tmp_path: Path) -> None:
    """And again from the start, once its states are reset; the simulator says the same."""
    content, samples = streaming(kind, zero, start), frames(kind)
    network = tmp_path / "net.tflite"
    network.write_bytes(content)
    assert main(["compile", str(network), "--chip", "c", "--state", "internal", "-o", str(tmp_path / "net")]) == 0
    element = "float" if kind == "FLOAT32" else "int8_t"
    (tmp_path / "net" / "app.c").write_text(PROGRAM.format(element))
    sources = [path.name for path in (tmp_path / "net").glob("*.c") if path.name != "main.c"]
    data = b"".join(sample.tobytes() for sample in samples)
    got = np.frombuffer(run(build(tmp_path / "net", sorted(sources)), data * 2), samples[0].dtype)
    np.testing.assert_array_equal(got[: got.size // 2], got[got.size // 2 :])
    wanted = np.concatenate([one.ravel() for frame in by_litert(content, samples) for one in frame])
    # LiteRT rounds means of integers another way
    np.testing.assert_allclose(got[: wanted.size], wanted, rtol=0, atol=1 if kind == "INT8" else 1e-5)
    _, loaded = Session().open(tmp_path / "net")
    runs = [loaded.run({loaded.inputs[0].name: sample}) for sample in samples[:3]]
    simulated = np.concatenate([one.ravel() for outputs in runs for one in outputs.values()])
    np.testing.assert_array_equal(simulated, got[: simulated.size])


def accumulator() -> onnx.ModelProto:
    """`total = h + x`, `y = total * 2`: a state that only the user knows."""
    nodes = [
        helper.make_node("Add", ["h", "x"], ["h_next"], name="h_next"),
        helper.make_node("Add", ["h_next", "h_next"], ["y"], name="y"),
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4]) for name in ("x", "h", "y", "h_next")]
    graph = helper.make_graph(nodes, "g", ends[:2], ends[2:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_a_state_that_the_user_names(tmp_path: Path) -> None:
    network, samples = tmp_path / "net.onnx", np.arange(12, dtype=np.float32).reshape(3, 1, 4)
    network.write_bytes(accumulator().SerializeToString())
    np.savez(tmp_path / "x.npz", x=samples)
    options = ["--state", "internal", "--state-pair", "h=h_next"]
    assert main(["compile", str(network), "--chip", "c", *options, "-o", str(tmp_path / "net.tar")]) == 0
    assert main(["run", str(tmp_path / "net.tar"), str(tmp_path / "x.npz"), "-o", str(tmp_path / "y.npz")]) == 0
    with np.load(tmp_path / "y.npz") as found:
        assert found.files == ["y"]
        np.testing.assert_array_equal(found["y"].reshape(3, 1, 4), 2 * np.cumsum(samples, 0))


def test_the_evaluation_of_a_module_starts_integers_at_their_zero_point(tmp_path: Path) -> None:
    content, samples = streaming("INT8", -3), frames("INT8")[:5]
    (tmp_path / "net.tflite").write_bytes(content)
    session = Session(chip="c")
    built = session.build(session.transform(tmp_path / "net.tflite"), boundary=Boundary(state="internal"))
    loaded, module = session.chip.load(built.data), StatefulInterpreter(built.module)
    for sample in samples:
        given = {loaded.inputs[0].name: sample}
        for got, wanted in zip(loaded.run(given).values(), module.run(given).values(), strict=True):
            np.testing.assert_array_equal(got, wanted)


@each(
    ("given", "expected"),
    [
        (
            {"state": "internal"},
            "net: its file names no states; name each with --state-pair INPUT=OUTPUT, or leave out",
        ),
        ({"state_pair": ("h=h_next",)}, "--state-pair has no effect without --state internal; add --state internal."),
        ({"state": "internal", "state_pair": ("h",)}, "--state-pair h: '=' is missing; give INPUT=OUTPUT."),
        (
            {"state": "internal", "state_pair": ("g=y",)},
            "net: no state from output 'y' to input 'g': there are not both; choose others with --state-pair, or",
        ),
    ],
)
def test_what_cannot_be_a_state(given: dict[str, Any], expected: str, tmp_path: Path) -> None:
    (tmp_path / "net.onnx").write_bytes(accumulator().SerializeToString())
    session = Session(chip="c")
    with pytest.raises(TpucError) as caught:
        session.build(session.transform(tmp_path / "net.onnx"), boundary=Boundary(**given))
    assert str(caught.value).startswith(expected)
