"""Command, option and file names of TPU-MLIR and TVM, accepted as aliases."""

from __future__ import annotations

from tpuc_driver.cli.text import dashed

ALIASES = {
    "model-transform": "transform",
    "run-calibration": "calibrate",
    "run-qtable": "qtable",
    "model-deploy": "deploy",
    "model-runner": "run",
    "model-eval": "eval",
    "npz-tool": "npz",
    "tpuc-opt": "opt",
}


def command_name(typed: str) -> str:
    """The command for an alias: `model_transform.py` is `transform`."""
    name = dashed(typed.removesuffix(".py"))
    return ALIASES.get(name, name)
