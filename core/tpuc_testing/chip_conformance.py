"""What every chip promises: values, tiles, waits, repeatability and time, checked by inheriting one class."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, ClassVar

from tpuc.api.chip import Chip, LoadedModel
from tpuc.machine import Command, Engine, Instruction, Region
from tpuc.machine.hazards import iterate_hazards
from tpuc.registry import Registry

from tpuc_testing.kernel_conformance import CompiledKernels, Sample, as_stored, check_array, compile_kernels
from tpuc_testing.op_conformance import check_stated


class ChipConformance:
    """Inherit, and state `chip`, `samples` and `growing`; everything that a chip promises is then tested.

    `samples` are ops of the TPU dialect by name, at least one of them under `tilings` of its own. `growing` are samples
    by name that do more and more of the same work, as `[small, larger, largest]`. `registry` has the chip; without one
    it is among the installed packages.
    """

    chip: ClassVar[str]
    samples: ClassVar[Mapping[str, Sample]]
    growing: ClassVar[Mapping[str, Sequence[Sample]]]
    registry: ClassVar[Registry | None] = None

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        check_stated(cls, "chip", "samples", "growing")
        if cls.__name__.startswith("Test"):
            if not any(sample.tilings for sample in cls.samples.values()):
                raise TypeError(f"{cls.__name__}.samples: one of them must state `tilings`, as in tilings=[{{'h': 2}}]")
            short = [name for name, samples in cls.growing.items() if len(samples) < 2]
            if short or not cls.growing:
                raise TypeError(f"{cls.__name__}.growing: {', '.join(short) or 'nothing'}: state at least two samples")

    def test_timing_models_say_how_well_they_are_known(self) -> None:
        chip = self._chip
        assert chip.profiles, "state a timing model in `profiles`"
        assert set(chip.profile_notes) == set(chip.profiles), "`profile_notes` say of each profile how well it is known"

    def test_the_simulator_equals_the_evaluation(self) -> None:
        self._compiled.compare(self._loaded.run(self._compiled.inputs))

    def test_every_tiling_gives_the_same_values(self) -> None:
        found = self._loaded.run(self._compiled.inputs)
        sizes, expected = tile_sizes(self._compiled), self._compiled.expected()
        for name, sample in self.samples.items():
            for number, wanted in enumerate(sample.tilings, 1):
                label = f"{name}_{number}"
                used = {axis: sizes.get(label, {}).get(axis) for axis in wanted}
                assert used == dict(wanted), f"{label}: the tiles are {used}, not {dict(wanted)}"
                check_array(label, found[label], as_stored(found[name], expected[name]))

    def test_nothing_runs_too_early(self) -> None:
        commands = self._commands()
        streams = [[command for command in commands if command.engine is engine] for engine in Engine]
        for hazard in iterate_hazards(*streams):
            raise AssertionError(f"nothing orders {hazard.compute.instruction} and {hazard.dma.instruction}")
        freed = [[replace(command, wait=0) for command in stream] for stream in streams]
        assert any(iterate_hazards(*freed)), "no instruction needs a wait: `reads` and `writes` leave things out"
        self._loaded.check()

    def test_instructions_say_what_they_touch(self) -> None:
        commands = self._commands()
        lanes, size = self._chip.lmem.lanes, self._chip.lmem.lane_bytes
        for instruction in (command.instruction for command in commands):
            assert instruction.writes(), f"{instruction}: `writes` is empty"
            for region in (*instruction.reads(), *instruction.writes()):
                assert 0 <= region.start < region.end, f"{instruction}: {region} is no part of a memory"
                inside = region.space != "lmem" or (region.end <= size and region.end_lane <= lanes)
                assert inside, f"{instruction}: {region}: local memory has {lanes} lanes of {size} bytes"
        for unread in never_read(commands):
            said = f"{type(unread).__module__}: nobody reads what `{unread.describe()}` writes"
            raise AssertionError(f"{said}; correct the `reads` of the instructions behind it")

    def test_the_same_input_gives_the_same_bytes(self) -> None:
        again = compile_kernels(self.samples, self.chip, self.registry)
        assert again.data == self._compiled.data, "two compilations of the same samples differ"
        first, second = (self._loaded.run(self._compiled.inputs) for _ in range(2))
        for name, array in first.items():
            assert array.tobytes() == second[name].tobytes(), f"{name}: two runs differ"

    def test_every_instruction_takes_time(self) -> None:
        for profile in self._chip.profiles:
            for entry in self._loaded.timeline(profile).entries:
                instruction = entry.command.instruction
                cycles = self._chip.cycles(instruction, profile)
                what = f"{profile}: {instruction.describe()}"
                assert type(cycles) is int, f"{what}: {type(cycles).__name__} cycles are no int"
                assert cycles > 0, f"{what}: {cycles} cycles"

    def test_more_work_never_takes_fewer_cycles(self) -> None:
        for name, samples in self.growing.items():
            files = [
                self._chip.load(compile_kernels({name: sample}, self.chip, self.registry).data) for sample in samples
            ]
            for profile in self._chip.profiles:
                cycles = [loaded.timeline(profile).cycles for loaded in files]
                assert cycles == sorted(cycles), f"{name}: {profile} says {cycles} cycles for more and more work"
                assert cycles[0] < cycles[-1], f"{name}: {profile} says {cycles[0]} cycles whatever the work is"

    @property
    def _chip(self) -> Chip:
        return (self.registry or Registry()).get("tpuc.chips", self.chip)

    @property
    def _compiled(self) -> CompiledKernels:
        return _compiled(type(self))

    @property
    def _loaded(self) -> LoadedModel:
        return self._chip.load(self._compiled.data, type(self).__name__)

    def _commands(self) -> list[Command]:
        """The commands of the file in the order of the first timing model."""
        return [entry.command for entry in self._loaded.timeline(self._chip.profiles[0]).entries]


@cache
def _compiled(definition: type[ChipConformance]) -> CompiledKernels:
    """The file of a class: pytest makes an object for each of its tests."""
    return compile_kernels(definition.samples, definition.chip, definition.registry)


def tile_sizes(compiled: CompiledKernels) -> dict[str, dict[str, int]]:
    """The tile sizes by axis of every op that was cut into tiles, by the op's name."""
    found: dict[str, dict[str, int]] = {}
    for operation in compiled.module.walk():
        tiling: Any = operation.extra_attributes.get("tiling")
        if tiling is not None:
            found[operation.name] = {axis: size.value for axis, size in tiling.items}
    return found


def never_read(commands: Sequence[Command]) -> Iterator[Instruction]:
    """The instructions that write to local memory what no later one reads, the last one first."""
    later: dict[Region, None] = {}
    for command in reversed(commands):
        local = [region for region in command.instruction.writes() if region.space == "lmem"]
        if local and not any(region.overlaps(read) for region in local for read in later):
            yield command.instruction
        later.update(dict.fromkeys(region for region in command.instruction.reads() if region.space == "lmem"))
