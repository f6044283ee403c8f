"""ONNX networks in memory: a `ModelProto`, or its bytes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, cast

from tpuc.api import UsageError, file_stem
from tpuc_driver.api.objects import ObjectReader

MOST_BYTES = 2**31 - 1
"""Maximum size of a protobuf message; weights of a larger network lie in a separate file."""


class OnnxObjects(ObjectReader):
    """Writes `.onnx` files."""

    title = "an onnx.ModelProto or its bytes"

    def accepts(self, given: object) -> bool:
        """True for a message, or for bytes that parse as one with a graph."""
        if isinstance(given, bytes | bytearray | memoryview):
            return _parsed(bytes(cast("bytes", given))) is not None
        onnx = sys.modules.get("onnx")
        return onnx is not None and isinstance(given, onnx.ModelProto)

    def write(self, given: Any, example_inputs: Any, folder: Path) -> Path:
        import onnx

        if example_inputs is not None:
            raise UsageError("an ONNX network states the shapes of its inputs; leave out example_inputs.")
        is_message = isinstance(given, onnx.ModelProto)
        model: Any = given if is_message else _parsed(bytes(given))
        path = folder / f"{file_stem(model.graph.name or 'network')}.onnx"
        if model.ByteSize() > MOST_BYTES:
            copy = onnx.ModelProto()
            copy.CopyFrom(model)  # `save_model` moves the weights out of what it is given
            cast("Any", onnx).save_model(copy, path, save_as_external_data=True, location=f"{path.stem}.data")
        else:
            path.write_bytes(model.SerializeToString())
        return path


def _parsed(data: bytes) -> Any:
    """Parse bytes as a message; None if they are none."""
    import onnx
    from google.protobuf.message import DecodeError

    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except DecodeError:
        return None
    return model if model.HasField("graph") else None


READER = OnnxObjects()
