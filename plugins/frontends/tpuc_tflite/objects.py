"""The bytes of a TFLite file, as converters give them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from tpuc.api import UsageError
from tpuc_driver.api.objects import ObjectReader

IDENTIFIER = slice(4, 8)
"""Where a flatbuffer says what it holds."""


class TfliteObjects(ObjectReader):
    """Writes `.tflite` files."""

    title = "the bytes of a TFLite file"

    def accepts(self, given: object) -> bool:
        """Bytes with the identifier of TFLite."""
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
