"""Print a `.bmodel` as text."""

from __future__ import annotations

from collections.abc import Iterator

from tpuc.api import Command, CorruptFile, Engine, IllegalCommand, visible

from tpuc_bm1684x.container import BModel, CommandGroup, CpuLayer, Net, Stage, SubNet, Tensor
from tpuc_bm1684x.isa.stream import decode_stream
from tpuc_bm1684x.isa.target import BM1684X, Target
from tpuc_bm1684x.layers import layer_function


def disassemble(data: bytes, target: Target = BM1684X) -> str:
    """List all networks, groups and commands of a file. A damaged stream is reported in place."""
    model = BModel.from_bytes(data, target.file_chip)
    lines = [f"bmodel for {model.chip}, version {model.version}, {len(data)} bytes"]
    for net in model.nets:
        lines += _net_lines(net, target)
    return "\n".join(map(visible, lines)) + "\n"


def _net_lines(net: Net, target: Target) -> Iterator[str]:
    for number, stage in enumerate(net.stages):
        yield f"net {net.name} stage {number}"
        yield from _stage_lines(stage)
        index = 0
        for subnet in stage.subnets:
            if subnet.layer is not None:
                yield _layer_text(subnet, subnet.layer)
            for group in subnet.groups:
                yield f"  group {index}: {group.tiu_count} compute and {group.gdma_count} DMA commands"
                yield from _group_lines(group, target)
                index += 1
            for core, group in enumerate(subnet.cores):
                yield f"  core {core}: {group.tiu_count} compute and {group.gdma_count} DMA commands"
                yield from _group_lines(group, target)


def _stage_lines(stage: Stage) -> Iterator[str]:
    weights = stage.coefficients
    if weights is not None:
        yield f"  weights {weights.address:#x}, {len(weights.data)} bytes"
    if stage.io_bytes:
        yield f"  inputs and outputs {stage.io_address:#x}, {stage.io_bytes} bytes"
    yield f"  context {stage.context_address:#x}, {stage.context_bytes} bytes"
    for kind, tensors in (("input", stage.inputs), ("output", stage.outputs)):
        for tensor in tensors:
            yield f"  {kind} {_tensor_text(tensor)}"


def _layer_text(subnet: SubNet, layer: CpuLayer) -> str:
    function = layer_function(layer.number)
    what = f"layer {layer.number}"
    if function is not None:
        arguments = function.unpack(layer.parameters)
        what += f" {function.function}({', '.join(f'{name}={value}' for name, value in arguments.items())})"
    reads, writes = (", ".join(map(_tensor_text, tensors)) for tensors in (subnet.inputs, subnet.outputs))
    return f"  processor: {what} of {reads} to {writes}"


def _tensor_text(tensor: Tensor) -> str:
    shape = "x".join(map(str, tensor.shape))
    return f"{tensor.name} {tensor.type.name.lower()} {shape} at {tensor.address:#x}"


def _group_lines(group: CommandGroup, target: Target) -> Iterator[str]:
    for engine, name, data in ((Engine.COMPUTE, "tiu", group.tiu), (Engine.DMA, "gdma", group.gdma)):
        try:
            stream = decode_stream(engine, data, target)
        except (CorruptFile, IllegalCommand) as error:
            yield f"    {name} unreadable: {error}"
            continue
        for command in (*stream.commands, stream.end):
            yield f"    {name} {format_command(command)}"


def format_command(command: Command) -> str:
    """Format a command as `3 wait 2  dma.copy ...`."""
    wait = f"wait {command.wait}" if command.wait else ""
    return f"{command.number:>5} {wait:<10} {command.instruction.describe()}"
