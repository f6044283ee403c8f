"""Names of classes for people: packaged lists, or a file with one name per line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tpuc.api import UsageError

from tpuc_eval.datasets.labels import class_names

FOLDER = Path(__file__).resolve().parents[1] / "names"


@dataclass(frozen=True)
class Naming:
    """Names by class index; class 0 of a network with one class more is the background."""

    source: str
    names: Sequence[str]

    def of(self, index: int, classes: int) -> str:
        """What to call a class of a network with so many; raises UsageError where the names are not of its classes."""
        if not self.names:
            return f"class {index}"
        if classes == len(self.names) + 1:
            return self.names[index - 1] if index else "background"
        if classes != len(self.names):
            raise UsageError(
                f"--labels {self.source} has {len(self.names)} names, and the network has {classes} classes; give its "
                "own names, one per line in the order of its outputs."
            )
        return self.names[index]


def naming(text: str) -> Naming:
    """The names that `--labels` asks for: a packaged list by its name, or a file."""
    packaged = {path.stem: path for path in sorted(FOLDER.glob("*.txt"))}
    if not text:
        return Naming("", ())
    path = packaged.get(text, Path(text))
    if not path.is_file():
        raise UsageError(f"--labels {text}: no such file, and no such list; lists: {', '.join(packaged)}.")
    return Naming(text, class_names(path))
