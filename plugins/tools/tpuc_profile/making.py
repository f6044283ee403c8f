"""Build the report of a compiled file: time the program, trace its data, name its layers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tpuc.api import Chip, LayerCommands, LoadedModel, Registry, UsageError
from tpuc_driver.api.host import host_times

from tpuc_profile.analysis import PlannedPlace, analyze, by_layer, name_tensors
from tpuc_profile.report import Report


def make_report(
    file: Path,
    chip: Chip,
    loaded: LoadedModel,
    profile: str,
    places: Sequence[PlannedPlace] = (),
    layers: Sequence[LayerCommands] | None = None,
    registry: Registry | None = None,
) -> Report:
    """Build the report by a timing profile of the chip. `places`: those of a memory plan; `layers`: the file's own if
    None. `registry` has the functions on the processor.

    Raises ValueError for layers whose commands differ from the file's.
    """
    timeline = loaded.timeline(profile)
    analysis = analyze(loaded, timeline, (chip.description.ddr_base, loaded.memory.get("weights", 0)))
    reasons = name_tensors(analysis, places or None, loaded.inner_tensors)
    known = loaded.layers if layers is None else layers
    if known:
        analysis = by_layer(analysis, known)
    names = [tensor.name for tensor in analysis.tensors]
    totals = _totals(chip, loaded, profile, timeline.cycles)
    return Report(
        str(file),
        chip,
        profile,
        loaded,
        analysis,
        names,
        reasons,
        None,
        totals,
        host_times(registry or Registry(), chip, loaded),
    )


def profile_named(chip: Chip, name: str | None) -> str:
    """Return a timing profile of the chip, by default the first; raises UsageError for an unknown name."""
    if not chip.profiles:
        raise UsageError(f"chip '{chip.description.name}' has no timing model; measure the network on the board.")
    name = name or chip.profiles[0]
    if name not in chip.profiles:
        raise UsageError(
            f"chip '{chip.description.name}' has no timing profile '{name}'. Its profiles: {', '.join(chip.profiles)}."
        )
    return name


def _totals(chip: Chip, loaded: LoadedModel, known: str, cycles: int) -> dict[str, int]:
    """Return the cycles by every profile of the chip, one of which is known."""
    return {name: cycles if name == known else loaded.timeline(name).cycles for name in chip.profiles}
