"""Where to cut a network so that nothing before depends on operators that cannot be imported."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path


def readable_outputs(path: Path, lost: Collection[str]) -> tuple[str, ...]:
    """Tensors of an ONNX file that do not depend on the nodes `lost`, and that such nodes or nobody reads.

    Nothing for files of other formats, or when the nodes are not found.
    """
    if path.suffix.lower() != ".onnx" or not lost:
        return ()
    import onnx
    from google.protobuf.message import DecodeError

    try:
        model = onnx.ModelProto()
        model.ParseFromString(path.read_bytes())
    except (DecodeError, OSError):
        return ()
    tainted: set[str] = set()
    sound: list[onnx.NodeProto] = []
    for node in model.graph.node:
        label = node.name or next((name for name in node.output if name), "")
        if label in lost or not tainted.isdisjoint(node.input):
            tainted.update(node.output)
        else:
            sound.append(node)
    made = [name for node in sound if node.op_type != "Constant" for name in node.output if name]
    read_by_sound = {name for node in sound for name in node.input}
    declared = {value.name for value in model.graph.output}
    wanted = [name for name in made if name in declared or name not in read_by_sound]
    return tuple(wanted) if tainted else ()
