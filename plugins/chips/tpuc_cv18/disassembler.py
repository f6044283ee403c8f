"""Print a `.cvimodel` as text."""

from __future__ import annotations

from collections.abc import Iterator

from tpuc.api import Command, CorruptFile, Engine, IllegalCommand, visible

from tpuc_cv18.container import CpuRoutine, CviModel, Program, Tensor, TpuRoutine, read_arguments
from tpuc_cv18.isa import Cv18Instruction, Target
from tpuc_cv18.simulator import load_segments


def disassemble(data: bytes, target: Target) -> str:
    """List all programs, routines and commands of a file. A damaged stream is reported in place."""
    model = CviModel.from_bytes(data, target)
    lines = [f"cvimodel {model.name!r} for {target.name}, by {model.producer}, {len(data)} bytes"]
    lines += [f"  section {item.name} {item.kind.name.lower()}, {len(item.data)} bytes" for item in model.sections]
    for number, program in enumerate(model.programs):
        lines += _program_lines(model, program, number)
    return "\n".join(map(visible, lines)) + "\n"


def _program_lines(model: CviModel, program: Program, number: int) -> Iterator[str]:
    yield f"program {number}: {program.shared_bytes} bytes shared, {program.private_bytes} bytes private"
    for kind, names in (("input", program.inputs), ("output", program.outputs)):
        for name in names:
            yield f"  {kind} {_tensor_text(program.tensor(name))}"
    for index, routine in enumerate(program.routines):
        match routine.body:
            case CpuRoutine(function, arguments):
                values = ", ".join(f"{key}={value}" for key, value in read_arguments(arguments).items())
                operands = f"{', '.join(routine.inputs)} -> {', '.join(routine.outputs)}"
                yield f"  routine {index}: cpu {function}({values}) {operands}"
            case TpuRoutine():
                yield f"  routine {index}: tpu {routine.body.cmdbuf or routine.body.dmabuf}"
                yield from _command_lines(model, routine.body)


def _tensor_text(tensor: Tensor) -> str:
    shape = "x".join(map(str, tensor.shape))
    place = "nowhere" if tensor.tag is None else f"g{tensor.tag}+{tensor.offset:#x}"
    scale = f" scale {tensor.scale:.9g}" if tensor.scale else ""
    return f"{tensor.name} {tensor.type.name.lower()} {shape} at {place}{scale}"


def _command_lines(model: CviModel, body: TpuRoutine) -> Iterator[str]:
    try:
        segments = load_segments(model, body)
    except (CorruptFile, IllegalCommand) as error:
        yield f"    unreadable: {error}"
        return
    for segment in segments:
        for command in segment.order:
            engine = "tiu " if command.engine is Engine.COMPUTE else "tdma"
            yield f"    {engine} {format_command(command)}"


def format_command(command: Command) -> str:
    """Format a command as `3 wait 2  conv ...`, followed by its layer number."""
    wait = f"wait {command.wait}" if command.wait else ""
    instruction = command.instruction
    layer = f"  #{instruction.layer}" if isinstance(instruction, Cv18Instruction) and instruction.layer else ""
    return f"{command.number:>5} {wait:<10} {instruction.describe()}{layer}"
