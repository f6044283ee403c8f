"""Writes recorded instructions as a `.bmodel`."""

from __future__ import annotations

from tpuc.api import CompiledLayout, Engine, Recorder, TensorInfo, TensorType, Uniform

from tpuc_bm1684x.container import BModel, Coefficients, CommandGroup, Net, Stage, SubNet, Tensor
from tpuc_bm1684x.container import TensorType as FileType
from tpuc_bm1684x.container.model import DEFAULT_TIME
from tpuc_bm1684x.isa import encode_stream

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


def write_model(layout: CompiledLayout, recorder: Recorder) -> bytes:
    """One net, one stage, one subnet, one command group.

    Raises IllegalCommand when the ids of one group would overflow.
    """
    commands = recorder.commands()
    counts = {engine: sum(1 for command in commands if command.engine is engine) + 1 for engine in Engine}
    group = CommandGroup(
        encode_stream(commands, Engine.COMPUTE),
        encode_stream(commands, Engine.DMA),
        counts[Engine.COMPUTE],
        counts[Engine.DMA],
    )
    inputs = tuple(_tensor(info, is_input=True) for info in layout.inputs)
    outputs = tuple(_tensor(info, is_input=False) for info in layout.outputs)
    stage = Stage(
        inputs,
        outputs,
        layout.activations_address,
        layout.activations_bytes,
        (SubNet((group,), inputs, outputs),),
        Coefficients(layout.weights, layout.weights_address) if layout.weights else None,
    )
    return BModel((Net(layout.name, (stage,)),), time=layout.build_time or DEFAULT_TIME).to_bytes()


def _tensor(info: TensorInfo, *, is_input: bool) -> Tensor:
    """As the vendor's files have it, the scale of an input is what real values are multiplied by to be stored."""
    storage = TensorType(info.shape, info.element).storage
    scale, zero_point = 1.0, 0
    if isinstance(info.element, Uniform):
        scale, zero_point = info.element.scale, info.element.zero_point
    return Tensor(
        info.name, _FILE_TYPES[storage.name], info.shape, info.address, 1.0 / scale if is_input else scale, zero_point
    )
