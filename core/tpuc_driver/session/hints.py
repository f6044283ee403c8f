"""Estimate with the chip's timing model what an unused option would save, and what a quantize table costs."""

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
SLOWER = 1.2
"""Ratio of cycles with and without a quantize table above which the table is remarked on."""


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
    other = _cycles_with(configuration, module, replace(recipe, boundary=Boundary(fuse_preprocess=True)), build)
    saved = cycles - (cycles if other is None else other)
    if saved < LEAST_CYCLES:
        return ""
    return (
        f"casting the float input takes {spent:,} of {cycles:,} cycles ({spent / cycles:.0%}); --fuse-preprocess would "
        f"save {saved:,} cycles"
    )


def remark_on_table(
    configuration: Configuration, module: Module, recipe: Recipe, cycles: int | None, build: Build
) -> str:
    """Return a remark if the quantize table makes the network clearly slower than `build` does without it, else an
    empty string. `cycles` are those with the table.
    """
    if not recipe.quantize_table or cycles is None:
        return ""
    plain = _cycles_with(configuration, module, replace(recipe, quantize_table=None, constants=None), build)
    if plain is None or cycles <= SLOWER * plain:
        return ""
    return (
        f"the quantize table makes the network {cycles / plain:.1f} times as slow: {cycles:,} cycles instead of "
        f"{plain:,}; `tpuc qtable` finds the layers that gain most and the fastest float type for them"
    )


def _cycles_with(configuration: Configuration, module: Module, recipe: Recipe, build: Build) -> int | None:
    """Return the cycles of the network compiled in another way; None if it does not compile so."""
    chip = configuration.chip
    quiet = replace(configuration, work_dir=None, remark=silent, log=silent, progress=unseen)
    try:
        data = build(quiet, module, replace(recipe, keep_in=None)).data
        return chip.load(data, module.name).timeline(chip.profiles[0]).cycles
    except TpucError:
        return None


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
