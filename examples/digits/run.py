"""Compiles the digits network to int8 for BM1684X, runs 200 images through the simulator and tells how well it does."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import tpuc

HERE = Path(__file__).resolve().parent
CHIP = "bm1684x"


def main() -> int:
    """Print accuracies, cycles and memory; returns the exit status."""
    network = tpuc.load(HERE / "digits.onnx")
    compiled = network.quantize(HERE / "digits_calib.npz").compile(CHIP)
    profile = compiled.profile()

    data = np.load(HERE / "digits_eval.npz")
    images, labels = data["x"], data["y"]
    lines: list[str] = []
    for name, outputs in (("float", network.run(images)), ("int8", compiled.run(images))):
        scores = outputs["probabilities"].reshape(len(labels), -1)
        right = int((scores.argmax(axis=1) == labels).sum())
        lines.append(f"{name:5} accuracy: {right}/{len(labels)} = {right / len(labels):.1%}")
    lines.append(f"{CHIP}: {profile.cycles:,} cycles = {profile.milliseconds * 1000:.1f} us per image (predicted)")
    lines.append("memory: " + ", ".join(f"{name} {size:,} B" for name, size in compiled.memory.items()))
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
