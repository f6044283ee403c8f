"""Combine several input shapes of one network in one `.cvimodel`, and extract them again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tpuc.api import Unsupported, UsageError
from tpuc_chip_parts.flatbuffer import check_rewritable

from tpuc_cv18.container.model import CviModel, Program, Routine, Section, SectionKind, TpuRoutine
from tpuc_cv18.isa.target import Target


def combine(files: Sequence[bytes], target: Target) -> bytes:
    """Write one file with the programs of all files. They share the longest weight section.

    Raises Unsupported when a weight section is not a prefix of the longest one: commands address weights by offset, and
    a file has one weight section. Raises UsageError for two programs with the same shapes.
    """
    models = [_own(data, target) for data in files]
    sections: list[Section] = []
    programs: list[Program] = []
    weights = max((_weights(model) for model in models), key=len)
    for model in models:
        if not weights.startswith(_weights(model)):
            raise Unsupported(
                f"the weights of '{model.name}' differ, and a cvimodel holds one set of weights; compile "
                "the shapes of one network together, with --input-shapes for each"
            )
        names = {one.name: f"{one.name}_{len(programs)}" for one in model.sections if programs}
        sections += [replace(one, name=names.get(one.name, one.name)) for one in model.sections if not _is_weight(one)]
        programs += [_renamed(program, names) for program in model.programs]
    shapes = [_shapes(program) for program in programs]
    if len(set(shapes)) < len(shapes):
        raise UsageError(
            f"two of the networks take the same shapes, {shapes[0]}, by which the runtime selects a program."
        )
    named = tuple(dict.fromkeys(one for model in models for one in model.weights))
    if len({one.name for one in named}) < len(named):
        raise Unsupported("two networks have constants of the same name for runtime functions; keep them apart")
    whole = (Section(SectionKind.WEIGHT, "weight", weights),) if weights else ()
    return replace(models[0], programs=tuple(programs), sections=(*whole, *sections), weights=named).to_bytes()


def extract(data: bytes, target: Target) -> list[tuple[str, bytes]]:
    """One file per program, each with the network's name and all weights."""
    model = _own(data, target)
    return [(model.name, _alone(model, number).to_bytes()) for number in range(len(model.programs))]


def _alone(model: CviModel, number: int) -> CviModel:
    suffix = f"_{number}" if number else ""
    program = model.programs[number]
    used = {routine.body.cmdbuf for routine in program.routines if isinstance(routine.body, TpuRoutine)}
    kept = [one for one in model.sections if _is_weight(one) or one.name in used]
    names = {one.name: one.name.removesuffix(suffix) for one in kept if not _is_weight(one)}
    sections = tuple(replace(one, name=names.get(one.name, one.name)) for one in kept)
    return replace(model, programs=(_renamed(program, names),), sections=sections)


def _own(data: bytes, target: Target) -> CviModel:
    """Read a file written by this compiler; raises Unsupported for other files, which could not be rewritten
    without loss.
    """
    model = CviModel.from_bytes(data, target)
    check_rewritable(model.to_bytes, data)
    return model


def _is_weight(section: Section) -> bool:
    return section.kind is SectionKind.WEIGHT


def _weights(model: CviModel) -> bytes:
    section = model.section(SectionKind.WEIGHT)
    return b"" if section is None else section.data


def _shapes(program: Program) -> str:
    return ", ".join("x".join(map(str, program.tensor(name).shape)) for name in program.inputs)


def _renamed(program: Program, names: Mapping[str, str]) -> Program:
    def routine(one: Routine) -> Routine:
        if not isinstance(one.body, TpuRoutine):
            return one
        cmdbuf, dmabuf = (names.get(name, name) for name in (one.body.cmdbuf, one.body.dmabuf))
        return replace(one, body=TpuRoutine(cmdbuf, dmabuf))

    return replace(program, routines=tuple(map(routine, program.routines)))
