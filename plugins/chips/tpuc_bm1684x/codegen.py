"""Write recorded instructions as a `.bmodel`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from tpuc.api import CompiledLayout, Recorder, TensorInfo, TensorType, Uniform, Unsupported

from tpuc_bm1684x.container import BModel, Coefficients, CpuLayer, Net, Stage, SubNet, Tensor
from tpuc_bm1684x.container import TensorType as FileType
from tpuc_bm1684x.container.model import DEFAULT_TIME, RANK_LIMIT
from tpuc_bm1684x.cores import encode_cores
from tpuc_bm1684x.isa.geometry import DDR_LIMIT_BYTES
from tpuc_bm1684x.isa.target import BM1684X, Target
from tpuc_bm1684x.layers import layer_functions
from tpuc_bm1684x.subnets import Call, command_group, divide

_FILE_TYPES = {
    "f32": FileType.F32,
    "f16": FileType.F16,
    "bf16": FileType.BF16,
    "i8": FileType.INT8,
    "si8": FileType.INT8,
    "u8": FileType.UINT8,
    "ui8": FileType.UINT8,
    "i16": FileType.INT16,
    "i32": FileType.INT32,
    "si32": FileType.INT32,
}


def write_model(layout: CompiledLayout, recorder: Recorder, target: Target = BM1684X) -> bytes:
    """Write a file with one net and one stage. Host calls split the stage into several subnets; without them it has one
    subnet with one command group.

    Raises IllegalCommand when the command ids of a group would overflow, Unsupported when the network exceeds the
    simulated memory or the tensor rank that the file format allows.
    """
    _check_memory(layout, target)
    inputs = tuple(_tensor(info, is_input=True) for info in layout.inputs)
    outputs = tuple(_tensor(info, is_input=False) for info in layout.outputs)
    if layout.host_calls:
        calls = tuple(_calls(layout, (*inputs, *outputs)))
        subnets, recorder.instructions = divide(recorder.instructions, calls, inputs, outputs)
    elif recorder.starts:
        subnets = (SubNet((), inputs, outputs, cores=encode_cores(recorder.parts(), target)),)
    else:
        subnets = (SubNet((command_group(recorder.instructions, target),), inputs, outputs),)
    stage = Stage(
        inputs,
        outputs,
        layout.activations_address,
        layout.activations_bytes,
        subnets,
        Coefficients(layout.weights, layout.weights_address) if layout.weights else None,
        io_address=layout.boundary_address,
        io_bytes=layout.boundary_bytes,
    )
    mode = target.address_modes[0] if target.ddr_tags else int(layout.boundary_bytes > 0)
    time = layout.build_time or DEFAULT_TIME
    return BModel((Net(layout.name, (stage,), mode),), target.file_chip, time=time).to_bytes()


def _check_memory(layout: CompiledLayout, target: Target) -> None:
    ends = [layout.weights_address + len(layout.weights), layout.activations_address + layout.activations_bytes]
    needed = len(layout.weights) + layout.activations_bytes if target.ddr_tags else max(ends) - target.ddr_base
    if needed > DDR_LIMIT_BYTES:
        raise Unsupported(
            f"{layout.name}: its weights and values take {needed:,} bytes of DDR, more than the "
            f"{DDR_LIMIT_BYTES:,} of the simulator that checks every file; compile it for smaller "
            "inputs, or split it with --output-names"
        )


def _calls(layout: CompiledLayout, ends: Iterable[Tensor]) -> Iterator[Call]:
    """CPU layers with their tensors. When a name occurs with several shapes, the shape is appended to the name; all of
    them share one address.
    """
    known = {tensor.name: tensor for tensor in ends}

    def described(info: TensorInfo) -> Tensor:
        tensor = _tensor(info, is_input=False)
        if known.setdefault(info.name, tensor).shape != tensor.shape:
            tensor = replace(tensor, name=f"{info.name}_{'x'.join(map(str, info.shape))}")
        return known.setdefault(tensor.name, tensor)

    for call in layout.host_calls:
        function = layer_functions()[call.function]
        layer = CpuLayer(function.layer, function.pack(call.arguments))
        inputs, outputs = (tuple(map(described, infos)) for infos in (call.inputs, call.outputs))
        yield Call(layer, inputs, outputs, call.position, function.is_partial)


def _tensor(info: TensorInfo, *, is_input: bool) -> Tensor:
    """Convert to the file's tensor. As in the vendor's files, the scale of an input is the reciprocal: real values are
    multiplied by it.
    """
    if len(info.shape) > RANK_LIMIT:
        raise Unsupported(
            f"value '{info.name}' has {len(info.shape)} dimensions; inputs and outputs of this chip have at most "
            f"{RANK_LIMIT}; reshape it"
        )
    storage = TensorType(info.shape, info.element).storage
    scale, zero_point = 1.0, 0
    if isinstance(info.element, Uniform):
        scale, zero_point = info.element.scale, info.element.zero_point
    return Tensor(
        info.name, _FILE_TYPES[storage.name], info.shape, info.address, 1.0 / scale if is_input else scale, zero_point
    )
