"""What is written beside a finished file is what `sha256sum` says of it."""

from __future__ import annotations

import hashlib
from pathlib import Path

from acme_tools.checksum import CHECKSUM


def test_it_lies_beside_the_file(tmp_path: Path) -> None:
    path = tmp_path / "net.bmodel"
    path.write_bytes(b"compiled")
    CHECKSUM.artifact_written(path)
    wanted = f"{hashlib.sha256(b'compiled').hexdigest()}  net.bmodel\n"
    assert (tmp_path / "net.bmodel.sha256").read_text() == wanted
