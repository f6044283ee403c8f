"""Networks as objects of other libraries, which `tpuc.load` takes: readers in the group `tpuc.objects`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar


class ObjectReader(ABC):
    """Writes network objects of one library as files that a front end reads. It imports the library late."""

    api_version: ClassVar[int] = 1
    title: ClassVar[str]
    """What it takes, for people: `onnx.ModelProto`."""

    @abstractmethod
    def accepts(self, given: object) -> bool:
        """Is it a network of this library, or the bytes of one?"""

    @abstractmethod
    def write(self, given: Any, example_inputs: Any, folder: Path) -> Path:
        """The file that was written into the folder; its stem is the network's name.

        `example_inputs` are what the user gave beside the network, or None. Raises InvalidModel, Unsupported or
        UsageError with a sentence.
        """
