"""Write a network object to a file, by the reader of its library."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tpuc.errors import PluginError, UsageError
from tpuc.registry import Registry, left_out, tell_left_out

from tpuc_driver.api.objects import ObjectReader

GROUP = "tpuc.objects"


def file_of(given: object, example_inputs: Any, registry: Registry, folder: Path) -> Path:
    """A file of the network; raises UsageError where no installed reader accepts such objects."""
    failed: list[PluginError] = []
    titles: list[str] = []
    for _, found in registry.usable(GROUP, failed):
        reader: ObjectReader = found
        if reader.accepts(given):
            tell_left_out(failed)
            return reader.write(given, example_inputs, folder)
        titles.append(reader.title)
    what = "bytes" if isinstance(given, bytes | bytearray | memoryview) else f"objects of type {type(given).__name__}"
    raise UsageError(
        f"tpuc.load does not read these {what}; give the path of a file, {', '.join(sorted(titles))}{left_out(failed)}"
    )
