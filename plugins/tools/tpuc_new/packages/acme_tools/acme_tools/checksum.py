"""A hook that observes an event: checksums beside finished files."""

from __future__ import annotations

import hashlib
from pathlib import Path

from tpuc.api import write_atomic
from tpuc_driver.api.command import hookimpl


class Checksum:
    """Writes `FILE.sha256` beside every finished file."""

    api_version = 1

    @hookimpl
    def artifact_written(self, path: Path) -> None:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        write_atomic(path.with_name(f"{path.name}.sha256"), f"{digest}  {path.name}\n")


CHECKSUM = Checksum()
