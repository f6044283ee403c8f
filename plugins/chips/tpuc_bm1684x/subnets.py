"""Divide a program into TPU subnets and the CPU layers between them.

The runtime keeps network inputs and layer results in its own memory. It copies such a tensor to DDR when a TPU subnet
that lists it as an input starts. A CPU layer reads tensors in the runtime's memory by name, and all others from DDR.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from tpuc.api import Engine, Instruction, Region, derive_waits

from tpuc_bm1684x.container import CommandGroup, CpuLayer, SubNet, Tensor
from tpuc_bm1684x.container.model import SubNetMode
from tpuc_bm1684x.cores import encode_group
from tpuc_bm1684x.isa import DType, Fill
from tpuc_bm1684x.isa.target import BM1684X, Target


@dataclass(frozen=True)
class Call:
    """A CPU layer with its tensors."""

    layer: CpuLayer
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    position: int
    """The number of instructions before the call."""
    is_partial: bool = False
    """The layer may leave the tail of its results unwritten."""


@dataclass
class _Part:
    """TPU commands or a CPU layer, with the tensors that it receives from and returns to the runtime."""

    instructions: Sequence[Instruction]
    call: Call | None = None
    inputs: list[Tensor] = field(default_factory=list[Tensor])
    outputs: list[Tensor] = field(default_factory=list[Tensor])

    def reads(self, tensor: Tensor) -> bool:
        """True when its commands read any byte of the tensor."""
        return _meets(tensor, (region for one in self.instructions for region in one.reads()))

    def writes(self, tensor: Tensor) -> bool:
        """True when it changes any byte of the tensor in DDR."""
        copied = self.inputs if self.call is None else self.call.outputs
        if any(overlap(tensor, other) for other in copied):
            return True
        return _meets(tensor, (region for one in self.instructions for region in one.writes()))


def command_group(instructions: Sequence[Instruction], target: Target = BM1684X) -> CommandGroup:
    """Encode consecutive commands as the two engine streams; raises IllegalCommand when command ids would overflow."""
    commands = derive_waits(instructions)
    return encode_group({engine: [one for one in commands if one.engine is engine] for engine in Engine}, target)


def divide(
    instructions: Sequence[Instruction], calls: Sequence[Call], inputs: Sequence[Tensor], outputs: Sequence[Tensor]
) -> tuple[tuple[SubNet, ...], list[Instruction]]:
    """Divide a program into subnets, in program order; returns also their instructions, some of which clear results."""
    held = {tensor.name: tensor for tensor in inputs}
    """Tensors that are in the runtime's own memory but not yet in DDR."""
    parts: list[_Part] = []
    at = 0
    for call in calls:
        if at < call.position:
            parts.append(_commands(instructions[at : call.position], held))
            at = call.position
        _bring(parts, held, call.inputs)
        cleared = [tensor for tensor in outputs if _is_cleared(tensor, call, calls, instructions)]
        if cleared:
            _clear(parts, cleared, call)
        parts.append(_Part((), call, [*call.inputs, *cleared], list(call.outputs)))
        for tensor in call.outputs:
            _overwrite(held, tensor)
        held |= {tensor.name: tensor for tensor in call.outputs}
    if at < len(instructions):
        parts.append(_commands(instructions[at:], held))
    _bring(parts, held, outputs)
    _name_results(parts, outputs)
    on_host = {tensor.name for call in calls for tensor in (*call.inputs, *call.outputs)}
    return tuple(_subnet(part, on_host) for part in parts), [one for part in parts for one in part.instructions]


def overlap(one: Tensor, other: Tensor) -> bool:
    """True when two tensors share bytes of DDR."""
    return one.address < other.address + other.bytes and other.address < one.address + one.bytes


def _commands(instructions: Sequence[Instruction], held: dict[str, Tensor]) -> _Part:
    """A TPU part whose inputs are the `held` tensors that its commands read."""
    part = _Part(instructions)
    part.inputs += [tensor for tensor in held.values() if part.reads(tensor)]
    for tensor in [*held.values()]:
        if tensor in part.inputs or part.writes(tensor):
            del held[tensor.name]
    return part


def _bring(parts: list[_Part], held: dict[str, Tensor], wanted: Sequence[Tensor]) -> None:
    """Copy to DDR every held tensor that overlaps a wanted tensor of another name. The preceding TPU part does it;
    after a CPU layer, a TPU part without commands is added.
    """
    missing = [
        tensor
        for tensor in held.values()
        if any(overlap(tensor, other) and other.name != tensor.name for other in wanted)
    ]
    if not missing:
        return
    if not parts or parts[-1].call is not None:
        parts.append(_Part(()))
    parts[-1].inputs += missing
    for tensor in missing:
        del held[tensor.name]


def _is_cleared(tensor: Tensor, call: Call, calls: Iterable[Call], instructions: Sequence[Instruction]) -> bool:
    """True when a partial layer writes this network output and nothing else reads it afterwards."""
    if not call.is_partial or all(tensor.name != other.name for other in call.outputs):
        return False
    read = [other for one in calls if one.position >= call.position for other in one.inputs]
    behind = (region for one in instructions[call.position :] for region in one.reads())
    return not any(overlap(tensor, other) for other in read) and not _meets(tensor, behind)


def _clear(parts: list[_Part], tensors: Sequence[Tensor], call: Call) -> None:
    """Fill the outputs of a partial layer with zeros in the TPU part before it. The layer lists them as inputs, so the
    zeros reach the runtime's memory. A TPU part always gets an input, because the runtime stops at a subnet without
    one.
    """
    if not parts or parts[-1].call is not None:
        parts.append(_Part((), inputs=[call.inputs[0]]))
    fills = [
        Fill(destination=one.address, shape=(1, 1, 1, one.bytes // 4), dtype=DType.INT32, value=0) for one in tensors
    ]
    parts[-1].instructions = [*parts[-1].instructions, *fills]
    parts[-1].outputs += tensors


def _overwrite(held: dict[str, Tensor], by: Tensor) -> None:
    for tensor in [*held.values()]:
        if overlap(tensor, by):
            del held[tensor.name]


def _name_results(parts: Sequence[_Part], outputs: Sequence[Tensor]) -> None:
    """Add to each part's outputs the tensors that it writes last and that later layers or the user read."""
    for index, part in enumerate(parts):
        wanted = part.call.inputs if part.call is not None else ()
        for tensor in wanted:
            _name(parts[:index], tensor)
    for tensor in outputs:
        _name(parts, tensor)


def _name(parts: Sequence[_Part], tensor: Tensor) -> None:
    writer = next((part for part in reversed(parts) if part.writes(tensor)), None)
    if writer is not None and all(tensor.name != other.name for other in (*writer.inputs, *writer.outputs)):
        writer.outputs.append(tensor)


def _meets(tensor: Tensor, regions: Iterable[Region]) -> bool:
    whole = Region("ddr", tensor.address, tensor.address + tensor.bytes)
    return any(region.space == "ddr" and region.meets(whole) for region in regions)


def _subnet(part: _Part, on_host: Iterable[str]) -> SubNet:
    inputs, outputs = (
        tuple(replace(tensor, on_host=tensor.name in on_host) for tensor in tensors)
        for tensors in (part.inputs, part.outputs)
    )
    if part.call is not None:
        return SubNet((), inputs, outputs, SubNetMode.CPU, part.call.layer)
    return SubNet((command_group(part.instructions),), inputs, outputs)
