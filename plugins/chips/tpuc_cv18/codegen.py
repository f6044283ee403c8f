"""Write recorded instructions and host calls as a `.cvimodel`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

from tpuc.api import CompiledLayout, HostCall, Instruction, Recorder, TensorInfo, Uniform, Unsupported, derive_waits
from tpuc.api import TensorType as TypeOfTensor

from tpuc_cv18.container import (
    CpuRoutine,
    CviModel,
    Program,
    Routine,
    Section,
    SectionKind,
    Tensor,
    TensorType,
    TpuRoutine,
    Weight,
    write_arguments,
)
from tpuc_cv18.container.model import DEFAULT_TIME, RANK, THRESHOLD_STEPS
from tpuc_cv18.isa import Target, encode_cmdbuf
from tpuc_cv18.isa.geometry import BASE_REGISTERS, FIRST_IO, MEMORY_LIMIT_BYTES, PRIVATE, WEIGHTS, split_gmem
from tpuc_cv18.isa.tables import ID_LIMIT
from tpuc_cv18.runtimes import Version

_COLORS = ("RGB_PLANAR", "BGR_PLANAR", "RGB_PACKED", "BGR_PACKED", "RGBA_PLANAR")
PIXEL_FORMATS = frozenset((*_COLORS, "GRAYSCALE", "YUV420_PLANAR", "YUV_NV12", "YUV_NV21"))
"""Frame formats that the runtime supports."""
_FILE_TYPES = {
    "f32": TensorType.F32,
    "bf16": TensorType.BF16,
    "i8": TensorType.INT8,
    "si8": TensorType.INT8,
    "u8": TensorType.UINT8,
    "ui8": TensorType.UINT8,
    "i32": TensorType.INT32,
    "si32": TensorType.INT32,
}


def write_model(layout: CompiledLayout, recorder: Recorder, target: Target, version: Version) -> bytes:
    """Write one program with a TPU routine for each run of instructions and a CPU routine for each host call.

    Raises Unsupported when the network exceeds the memory window behind one base register.
    """
    _check_memory(layout)
    tensors = {info.name: _tensor(info, is_input=True) for info in layout.inputs}
    tensors |= {info.name: _tensor(info, is_input=False) for info in layout.outputs if info.name not in tensors}
    weights: dict[str, Weight] = {}
    calls = [_with_own_shapes(_with_weights(call, weights), tensors) for call in layout.host_calls]
    routines, sections = _routines(layout, calls, recorder.instructions, target)
    if layout.weights:
        sections.insert(0, Section(SectionKind.WEIGHT, "weight", layout.weights))
    program = Program(
        tuple(info.name for info in layout.inputs),
        tuple(info.name for info in layout.outputs),
        tuple(tensors.values()),
        tuple(routines),
        shared_bytes=layout.activations_bytes,
        private_bytes=_private_bytes((*layout.inputs, *layout.outputs)),
    )
    time = layout.build_time or DEFAULT_TIME
    constants = tuple(weights.values())
    return CviModel(target, layout.name, (program,), tuple(sections), constants, time, version=version).to_bytes()


def _check_memory(layout: CompiledLayout) -> None:
    ends = (TypeOfTensor(info.shape, info.element) for info in (*layout.inputs, *layout.outputs))
    needed = max(layout.activations_bytes, len(layout.weights), *(end.size * end.storage.bits // 8 for end in ends))
    if needed > MEMORY_LIMIT_BYTES:
        raise Unsupported(
            f"{layout.name}: its weights or values take {needed:,} bytes, more than the chip's memory window of "
            f"{MEMORY_LIMIT_BYTES:,}; compile it for smaller inputs, or split it with --output-names"
        )


def _private_bytes(infos: Iterable[TensorInfo]) -> int:
    """Size of the private memory, which holds the inputs and outputs without a base register of their own."""
    ends = [0]
    for info in infos:
        tag, offset = split_gmem(info.address)
        if tag == PRIVATE:
            type_ = TypeOfTensor(info.shape, info.element)
            ends.append(offset + type_.size * type_.storage.bits // 8)
    return max(ends)


def _with_weights(call: HostCall, weights: dict[str, Weight]) -> HostCall:
    """Register the constants of a call as named weights. A constant at two addresses gets two names."""

    def described(info: TensorInfo) -> TensorInfo:
        if not _is_weight(info):
            return info
        tensor = _tensor(info, is_input=False)
        weight = Weight(info.name, tensor.offset, tensor.bytes, tensor.shape, tensor.type)
        if weights.setdefault(info.name, weight) != weight:
            info = replace(info, name=f"{info.name}_{tensor.offset:#x}")
            weights[info.name] = replace(weight, name=info.name)
        return info

    return replace(call, inputs=tuple(map(described, call.inputs)))


def _is_weight(info: TensorInfo) -> bool:
    return split_gmem(info.address)[0] == WEIGHTS


def _with_own_shapes(call: HostCall, tensors: dict[str, Tensor]) -> HostCall:
    """Register the tensors of a call. The runtime takes extents from the tensor, so another shape of a value becomes
    another tensor at the same address.
    """

    def described(info: TensorInfo) -> TensorInfo:
        if _is_weight(info):
            return info
        tensor = _tensor(info, is_input=False, is_inner=True)
        if tensors.setdefault(info.name, tensor).shape != tensor.shape:
            info = replace(info, name=f"{info.name}_{'x'.join(map(str, info.shape))}")
            tensors[info.name] = replace(tensor, name=info.name)
        return info

    return replace(call, inputs=tuple(map(described, call.inputs)), outputs=tuple(map(described, call.outputs)))


def _routines(
    layout: CompiledLayout, calls: Sequence[HostCall], instructions: Sequence[Instruction], target: Target
) -> tuple[list[Routine], list[Section]]:
    routines: list[Routine] = []
    sections: list[Section] = []
    ready = tuple(info.name for info in layout.inputs)
    at = 0
    for call in (*calls, None):
        end = call.position if call is not None else len(instructions)
        read = call.inputs if call is not None else layout.outputs
        wanted = _names(info for info in read if not _is_weight(info))
        for part in _segments(instructions[at:end]):
            name = f"subfunc_{len(routines)}"
            sections.append(Section(SectionKind.CMDBUF, name, encode_cmdbuf(derive_waits(part), target)))
            routines.append(Routine(TpuRoutine(name), ready, wanted))
        at = end
        if call is not None:
            routines.append(_cpu_routine(call))
            ready = (*ready, *_names(call.outputs))
    return routines, sections


def _segments(instructions: Sequence[Instruction]) -> list[Sequence[Instruction]]:
    """Split instructions into segments whose command ids fit their fields."""
    return [instructions[at : at + ID_LIMIT] for at in range(0, len(instructions), ID_LIMIT)]


def _cpu_routine(call: HostCall) -> Routine:
    arguments = write_arguments(call.arguments)
    return Routine(CpuRoutine(call.function, arguments), _names(call.inputs), _names(call.outputs))


def _names(infos: Iterable[TensorInfo]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(info.name for info in infos))


def _tensor(info: TensorInfo, *, is_input: bool, is_inner: bool = False) -> Tensor:
    """Convert to the file's tensor. As in the vendor's files, the scale of an input is the reciprocal: real values are
    multiplied by it. Inner tensors may share memory with later ones and cannot be read after a run.
    """
    tag, offset = split_gmem(info.address)
    scale, zero_point, threshold = 1.0, 0.0, 0.0
    if isinstance(info.element, Uniform):
        zero_point = float(info.element.zero_point)
        scale = 1.0 / info.element.scale if is_input else info.element.scale
        threshold = info.element.scale * THRESHOLD_STEPS if info.rounds_evenly else 0.0
    storage = TypeOfTensor(info.shape, info.element).storage
    kind, shape = _FILE_TYPES[storage.name], _four(info.shape)
    if info.frame is not None and info.frame.pixel_format not in PIXEL_FORMATS:
        raise Unsupported(
            f"input '{info.name}': the runtime supports no frames of {info.frame.pixel_format}, only "
            f"{', '.join(sorted(PIXEL_FORMATS))}; choose one with --customization-format"
        )
    if info.frame is not None and tag == PRIVATE:
        raise Unsupported(
            f"input '{info.name}' takes camera frames by address, which needs a base register of its own; a file has "
            f"{BASE_REGISTERS - FIRST_IO} for inputs and outputs, assigned to inputs first. Leave out --aligned-input, "
            "or split the network"
        )
    return Tensor(info.name, kind, shape, tag, offset, scale, zero_point, is_inner, threshold, info.frame)


def _four(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Fold dimensions after the fourth into the last one: the runtime reads four."""
    if len(shape) <= RANK:
        return shape
    return (*shape[: RANK - 1], math.prod(shape[RANK - 1 :]))
