"""Pack the output folder into an archive, and unpack it."""

from __future__ import annotations

import io
import re
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from tpuc.api import CorruptFile

from tpuc_c.description import DESCRIPTION, FILE_NAME, listed_files

BLOCK = 512
MOST_MEMBERS = 256
OCTAL = re.compile(rb" *([0-7]+)[ \0]*")


def packed(files: Mapping[str, bytes]) -> bytes:
    """Pack files into an archive without times and owners, so that equal files give equal bytes."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, content in sorted(files.items()):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            member.mode = 0o644
            archive.addfile(member, io.BytesIO(content))
    return stream.getvalue()


def unpacked(data: bytes, source: str) -> dict[str, bytes]:
    """The files of an archive; raises CorruptFile."""
    files: dict[str, bytes] = {}
    for name, content in _members(data, source):
        if name in files or len(files) == MOST_MEMBERS:
            raise CorruptFile(f"{source}: has too many members, or '{name}' twice; compile it again")
        files[name] = content
    return files


def _members(data: bytes, source: str) -> Iterator[tuple[str, bytes]]:
    """Read regular files only, as `packed` writes them: no links, and nothing that expands when read."""
    at = 0
    while data[at : at + BLOCK].strip(b"\0"):
        header = data[at : at + BLOCK]
        total = sum(header) - sum(header[148:156]) + 8 * ord(" ")
        if len(header) < BLOCK or header[257:262] != b"ustar" or _octal(header[148:156]) != total:
            raise CorruptFile(f"{source}: is not an archive of a network in C; compile it again")
        name = header[:100].rstrip(b"\0").decode("utf-8", "replace")
        size = _octal(header[124:136])
        prefix = header[345:500].strip(b"\0")
        if header[156:157] not in (b"0", b"\0") or size is None or prefix or not FILE_NAME.fullmatch(name):
            raise CorruptFile(f"{source}: member '{name}' is not a regular file; compile it again")
        at += BLOCK
        content = data[at : at + size]
        if len(content) != size:
            raise CorruptFile(f"{source}: member '{name}' is cut short; copy or compile it again")
        yield name, content
        at += -(-size // BLOCK) * BLOCK
    if not at:
        raise CorruptFile(f"{source}: is not an archive of a network in C; compile it again")


def _octal(digits: bytes) -> int | None:
    found = OCTAL.fullmatch(digits)
    return int(found.group(1), 8) if found else None


def _is_plain(folder: Path, name: str) -> bool:
    """True for a regular file that is not reached through a link."""
    path = folder / name
    between = [parent for parent in path.parents if parent.is_relative_to(folder) and parent != folder]
    return path.is_file() and not any(one.is_symlink() for one in (path, *between))


def archived(folder: Path) -> bytes:
    """Pack the files that the description in an output folder lists; raises CorruptFile."""
    described = folder / DESCRIPTION
    if not described.is_file():
        raise CorruptFile(f"{folder}: there is no {DESCRIPTION} in it; name a folder that `tpuc compile` wrote")
    names = listed_files(described.read_bytes(), str(folder))
    missing = [name for name in names if not _is_plain(folder, name)]
    if missing:
        raise CorruptFile(f"{folder}: {missing[0]} is missing; compile it again")
    return packed({name: (folder / name).read_bytes() for name in [*names, DESCRIPTION]})
