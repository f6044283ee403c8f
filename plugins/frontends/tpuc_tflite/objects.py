"""The bytes of a TFLite file, as returned by converters."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from tpuc.api import UsageError
from tpuc_driver.api.objects import ObjectReader

IDENTIFIER = slice(4, 8)
"""Where a flatbuffer states its file type."""


class TfliteObjects(ObjectReader):
    """Writes `.tflite` files."""

    title = "the bytes of a TFLite file"

    def accepts(self, given: object) -> bool:
        """True for bytes with TFLite's identifier."""
        if not isinstance(given, bytes | bytearray | memoryview):
            return False
        return bytes(cast("bytes", given)[IDENTIFIER]) == b"TFL3"

    def write(self, given: Any, example_inputs: Any, folder: Path) -> Path:
        if example_inputs is not None:
            raise UsageError("a TFLite network states the shapes of its inputs; leave out example_inputs.")
        path = folder / "network.tflite"
        path.write_bytes(given)
        return path


READER = TfliteObjects()
