"""Estimate with the chip's timing model what an unused option would save."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from tpuc.api.chip import LoadedModel
from tpuc.api.planning import LayerCommands
from tpuc.errors import TpucError
from tpuc.ir import Module
from tpuc.ir.preprocess import is_described
from tpuc.ir.traits import NetworkInput

from tpuc_driver.session.boundary import Boundary
from tpuc_driver.session.configuration import Configuration, silent, unseen
from tpuc_driver.session.values import Built, Recipe

Build = Callable[[Configuration, Module, Recipe], Built]

LEAST_CYCLES, LEAST_SHARE = 1000, 0.1
"""Cycles of input casts, and their share of all cycles, below which savings by --fuse-preprocess are not measured,
because measuring compiles the network a second time.
"""


def hint_at_fusing(
    configuration: Configuration, module: Module, recipe: Recipe, built: Built, loaded: LoadedModel, build: Build
) -> str:
    """Return a hint at --fuse-preprocess if casts of float images take long and the option would save cycles, else an
    empty string.
    """
    chip = configuration.chip
    if not chip.profiles or built.memory_plan is None or recipe.constants is not None or recipe.boundary is not None:
        return ""
    images = _described_images(built.module)
    casts = [one for one in built.memory_plan.layers if one.op == "tpu.Cast" and one.name in images]
    cycles = loaded.timeline(chip.profiles[0]).cycles
    spent = _cycles_of(casts, loaded, chip.profiles[0])
    if spent < max(LEAST_CYCLES, LEAST_SHARE * cycles):
        return ""
    quiet = replace(configuration, work_dir=None, remark=silent, log=silent, progress=unseen)
    try:
        other = build(quiet, module, replace(recipe, boundary=Boundary(fuse_preprocess=True), keep_in=None))
        saved = cycles - chip.load(other.data, "fused").timeline(chip.profiles[0]).cycles
    except TpucError:  # the preprocessing cannot be fused
        return ""
    if saved < LEAST_CYCLES:
        return ""
    return (
        f"casting the float input takes {spent:,} of {cycles:,} cycles ({spent / cycles:.0%}); --fuse-preprocess would "
        f"save {saved:,} cycles"
    )


def _described_images(module: Module) -> frozenset[str]:
    """Return the names of values computed directly from image inputs."""
    inputs = {
        operation.result
        for operation in module.main.operations
        if isinstance(operation.op, NetworkInput) and is_described(operation.op)
    }
    return frozenset(
        operation.name
        for operation in module.main.operations
        if operation.results and any(value in inputs for value in operation.operands)
    )


def _cycles_of(layers: Sequence[LayerCommands], loaded: LoadedModel, profile: str) -> int:
    """Return the cycles during which any engine runs commands of these layers."""
    own = {
        (engine, number)
        for layer in layers
        for engine, ranges in layer.commands.items()
        for first, last in ranges
        for number in range(first, last + 1)
    }
    counts: dict[str, int] = {}
    mine: list[tuple[int, int]] = []
    for entry in loaded.timeline(profile).entries:
        engine = entry.command.engine.name.lower()
        counts[engine] = counts.get(engine, 0) + 1
        if (engine, counts[engine]) in own:
            mine.append((entry.start, entry.end))
    return _length(mine)


def _length(spans: Sequence[tuple[int, int]]) -> int:
    """Return the number of cycles covered by at least one span."""
    total = end = 0
    for first, last in sorted(spans):
        total += max(0, last - max(first, end))
        end = max(end, last)
    return total
