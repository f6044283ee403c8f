"""Network objects of other libraries for `tpuc.load`: readers in the group `tpuc.objects`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar


class ObjectReader(ABC):
    """Writes network objects of one library to files that a front end reads. It imports the library late."""

    api_version: ClassVar[int] = 1
    title: ClassVar[str]
    """The accepted type, for messages: `onnx.ModelProto`."""

    @abstractmethod
    def accepts(self, given: object) -> bool:
        """True for a network of this library, or the bytes of one."""

    @abstractmethod
    def write(self, given: Any, example_inputs: Any, folder: Path) -> Path:
        """Write the network into the folder and return the file; its stem is the network's name.

        `example_inputs` are those given with the network, or None. Raises InvalidModel, Unsupported or UsageError with
        a sentence.
        """
