"""Compiles the digits network to int8 for BM1684X, runs 200 images through the simulator and tells how well it does."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import track
from tpuc.data import inputs_of
from tpuc.interpreter import Interpreter
from tpuc.session import Session

HERE = Path(__file__).resolve().parent
CHIP = "bm1684x"


def main() -> int:
    """Print accuracies, cycles and memory; returns the exit status."""
    session = Session(chip=CHIP, quantize="int8")
    module = session.transform(HERE / "digits.onnx")
    table = session.calibrate(module, dataset=HERE / "digits_calib.npz")
    with tempfile.TemporaryDirectory() as folder:
        report = session.deploy(module, Path(folder) / "digits.bmodel", calibration_table=table)
        chip, loaded = session.open(Path(folder) / "digits.bmodel")

    data = np.load(HERE / "digits_eval.npz")
    images, labels = data["x"], data["y"]
    host = Interpreter(module)
    spec = inputs_of(module)[0]
    right = {"float": 0, "int8": 0}
    console = Console(stderr=True)
    for image, label in track(
        list(zip(images, labels, strict=True)), "simulating", console=console, disable=not console.is_terminal
    ):
        inputs = {spec.name: image.reshape(spec.shape).astype(np.float32)}
        outputs = {"float": host.run(inputs), "int8": session.simulate(chip, loaded, inputs)}
        for name, result in outputs.items():
            right[name] += int(np.argmax(next(iter(result.values()))) == label)

    count = len(labels)
    lines = [f"{name:5} accuracy: {hits}/{count} = {hits / count:.1%}" for name, hits in right.items()]
    memory = ", ".join(f"{name} {size:,} B" for name, size in report.memory.items())
    lines.append(f"{CHIP}: {report.cycles:,} cycles = {report.milliseconds * 1000:.1f} us per image (predicted)")
    lines.append(f"memory: {memory}")
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
