"""int8 on real networks and labelled data: right answers and signal to noise, against the float network."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tpuc.data import inputs_of
from tpuc.interpreter import Interpreter
from tpuc.session import Session
from tpuc.session.compare import real_values, types_of

from tests.models.measures import TASKS, Task


@dataclass(frozen=True)
class Floor:
    """The least right answers, and the least dB on `tensor` ("logits": what the final Softmax takes)."""

    right: int = 0
    tensor: str = ""
    sqnr_db: float = -math.inf
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])


# The vendor's own compiler reaches these with the same calibration data, less one count where the issue allows it.
FLOORS = {
    "mobilenet_v1": Floor(33),
    "mobilenet_v2": Floor(54, "logits", 15.9),
    "blazeface": Floor(38),
    "ultraface": Floor(38),
    "yunet": Floor(38),
    # Its activations need finer tuning than 10 thresholds on 10 samples give (6.8 dB).
    "yolox": Floor(tensor="output", sqnr_db=7.3),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", TASKS)
def test_int8_reaches_the_floor(name: str, model_data: Path, tmp_path: Path) -> None:
    task, floor = TASKS[name], FLOORS[name]
    result = measure(task, model_data, tmp_path, options=floor.options)
    assert result.right >= floor.right, f"{result.right} right, float {result.right_float}"
    if floor.tensor:
        tensor = result.logits if floor.tensor == "logits" else floor.tensor
        assert result.sqnr_db[tensor] >= floor.sqnr_db, f"{tensor}: {result.sqnr_db[tensor]:.2f} dB"


@dataclass
class Measured:
    """Right answers of float and int8, and pooled signal to noise per tensor in dB."""

    right_float: int
    right: int
    sqnr_db: dict[str, float]
    logits: str


def measure(
    task: Task, model_data: Path, work: Path, method: str = "kld", options: Mapping[str, Any] | None = None
) -> Measured:
    """Compile for int8 and run every sample, float and int8, on the host (the simulator gives the same integers)."""
    session = Session(chip="bm1684x", quantize="int8")
    module = session.transform(model_data / "onnx" / task.file)
    (spec,) = inputs_of(module)
    samples = work / "samples.npz"
    np.savez(samples, **{spec.name: np.concatenate(task.calibration(model_data / "data"))})
    table = session.calibrate(module, dataset=samples, method=method, options=options)
    final, _ = session.build(module, table)
    logits = next((o.operands[0].name for o in module.main.operations if o.op.name == "top.Softmax"), "")
    hosts = Interpreter(module), Interpreter(final)
    types = types_of(final)
    right = [0, 0]
    power: dict[str, list[float]] = {}
    keep = [name for name in (logits,) if name]
    names = [hosts[0].output_names, hosts[1].output_names]
    for x, label in zip(task.samples(model_data / "data"), task.labels(model_data / "data"), strict=True):
        values = [host.run({spec.name: x}, keep) for host in hosts]
        for index in (0, 1):
            outputs: list[NDArray[Any]] = [values[index][name] for name in names[index]]
            right[index] += bool(task.right(outputs, label))
        pairs = [*zip(names[0], names[1], strict=True), *((name, name) for name in keep)]
        for float_name, int8_name in pairs:
            reference = values[0][float_name].astype(np.float64)
            error = real_values(values[1][int8_name], types[int8_name]).reshape(reference.shape) - reference
            sums = power.setdefault(float_name, [0.0, 0.0])
            sums[0] += float((reference**2).sum())
            sums[1] += float((error**2).sum())
    sqnr = {name: 10 * math.log10(signal / noise) if noise else math.inf for name, (signal, noise) in power.items()}
    return Measured(right[0], right[1], sqnr, logits)
