"""TPU-MLIR's scripts by their names: each is the command of tpuc that does the same."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

SCRIPTS: Mapping[str, tuple[str, ...]] = {
    "model_transform": ("transform",),
    "run_calibration": ("calibrate",),
    "run_qtable": ("qtable",),
    "model_deploy": ("deploy",),
    "model_runner": ("run",),
    "model_eval": ("eval",),
    "npz_tool": ("npz",),
    "visual": ("visual",),
    "run_model": ("regress", "."),
    "run_all": ("regress", "."),
}
"""What a script's own arguments are put behind. The scripts of the regression are run in the folder of networks."""

RESPELLED = {"--缩放": "--scale", "--MLIR": "--mlir"}
"""Options that are printed in translation or in capitals."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a script: its path, then its arguments; those of the process when None."""
    from tpuc_driver.cli import main as tpuc

    script, *given = sys.argv if arguments is None else arguments
    return tpuc([*SCRIPTS[stem_of(script)], *respelled(given)])


def stem_of(script: str) -> str:
    """The name of a script without `.py` or `.sh`, and without `.exe` on systems that have it."""
    name = Path(script).name
    for ending in (".exe", ".py", ".sh"):
        name = name.removesuffix(ending)
    return name


def respelled(arguments: Sequence[str]) -> list[str]:
    """Arguments as tpuc takes them. Books print a blank behind the dashes of an option; no script takes `--` alone."""
    joined: list[str] = []
    for argument in arguments:
        if joined and joined[-1] == "--":
            joined[-1] += argument
        else:
            joined.append(argument)
    return [RESPELLED.get(argument, argument) for argument in joined]
