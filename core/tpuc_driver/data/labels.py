"""Class names: bundled lists, or a file with one name per line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tpuc.errors import UsageError

FOLDER = Path(__file__).resolve().parent / "names"
BACKGROUND = "background"


@dataclass(frozen=True)
class Labels:
    """Names by class index; if a network has one class more, class 0 is the background. `source` is for messages."""

    source: str = ""
    names: Sequence[str] = ()

    def fitted(self, classes: int) -> Sequence[str]:
        """One name per class, empty without labels; raises UsageError if the numbers differ."""
        if len(self.names) in (0, classes):
            return self.names
        if len(self.names) + 1 == classes:
            return (BACKGROUND, *self.names)
        raise UsageError(
            f"{self.source} has {len(self.names)} names, but the network has {classes} classes; give one name per "
            "line, in the order of its outputs."
        )

    def of(self, index: int, classes: int) -> str:
        """The name of a class of a network with that many classes; raises UsageError if the numbers differ."""
        fitted = self.fitted(classes)
        return fitted[index] if fitted else f"class {index}"


def labels_named(text: str) -> Labels:
    """The labels for `--labels`: a bundled list by name, or a file; without names for an empty text."""
    if not text:
        return Labels()
    packaged = {path.stem: path for path in sorted(FOLDER.glob("*.txt"))}
    path = packaged.get(text, Path(text))
    if not path.is_file():
        raise UsageError(f"--labels {text}: neither a file nor a built-in list; built-in lists: {', '.join(packaged)}.")
    names = lines_of(path, "one name per line")
    if not names:
        raise UsageError(f"--labels {text} has no names; give one per line.")
    return Labels(f"--labels {text}", names)


def lines_of(path: Path, wanted: str) -> list[str]:
    """The nonempty lines of a text file; raises UsageError with a description of what is `wanted`."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: is not a text file. Give {wanted}.") from error
    return [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
