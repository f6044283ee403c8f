"""Archives of chip C that somebody made to do harm: other bytes, words, sizes, members, and code."""

from __future__ import annotations

import copy
import io
import json
import tarfile
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

Random = np.random.Generator
NUMBERS: tuple[Any, ...] = (
    *(-1, 0, 1 << 31, 1 << 40, 1 << 62, 1 << 70, 10**400, 1e308, float("nan"), float("inf"), True, None, "7", [], {}),
)
WORDS: tuple[Any, ...] = (
    *("-fplugin=./x", "@args", "-wrapper", "../n", "/etc/passwd", "n;touch PWNED", "$(touch PWNED)", "n\n", "", "é"),
    *("n" * 300, "-", "--help", "n o", "\x00", "n/../n", None, 7, ["n"], {"n": 1}),
)
NAMES = ("../PWNED", "/tmp/PWNED", "a/b.c", "-o", "@x", ".hidden", "main.c", "n\n.c", "", "é.c", "x" * 100)


def choose(items: Any, random: Random) -> Any:
    """One of them."""
    return items[int(random.integers(len(items)))]


def made(files: Mapping[str, bytes], kind: bytes = tarfile.REGTYPE, link: str = "") -> bytes:
    """An archive as other tools write it; the last member is of a kind."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for number, (name, content) in enumerate(files.items(), 1):
            member = tarfile.TarInfo(name)
            if number == len(files) and kind != tarfile.REGTYPE:
                member.type, member.linkname = kind, link
                archive.addfile(member)
                continue
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return stream.getvalue()


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Every place in JSON that holds something, as what holds it and where."""
    kind = type(value).__name__
    keys: list[Any] = sorted(value) if kind == "dict" else list(range(len(value))) if kind == "list" else []
    return [(value, key) for key in keys] + [place for key in keys for place in _places(value[key])]


def words(files: dict[str, bytes], random: Random) -> bytes:
    """The description says something else somewhere."""
    whole: Any = json.loads(files["metadata.json"])
    for _ in range(int(random.integers(1, 3))):
        place, key = choose(_places(whole), random)
        old: Any = place[key]
        new = choose(WORDS if isinstance(old, str) or random.integers(3) == 0 else NUMBERS, random)
        place[key] = copy.deepcopy(new)  # a list may be damaged in turn
    return made({**files, "metadata.json": json.dumps(whole).encode("utf-8", "surrogatepass")})


def text(files: dict[str, bytes], random: Random) -> bytes:
    """The description is no description."""
    texts = (
        b"",
        b"[" * 100_000,
        b"{}",
        b"[]",
        b"7",
        b'{"version": 1}',
        b"\xff" * 9,
        b'{"version": ' + b"9" * 9999 + b"}",
    )
    return made({**files, "metadata.json": choose(texts, random)})


def members(files: dict[str, bytes], random: Random) -> bytes:
    """Members that are elsewhere, no files, or named otherwise."""
    kinds = (
        tarfile.SYMTYPE,
        tarfile.LNKTYPE,
        tarfile.DIRTYPE,
        tarfile.CHRTYPE,
        tarfile.FIFOTYPE,
        tarfile.GNUTYPE_SPARSE,
    )
    if random.integers(2):
        return made({**files, choose(NAMES, random): b"x"})
    name = choose(("main.c", "extra.c", "metadata.json"), random)
    rest = {key: content for key, content in files.items() if key != name}
    return made({**rest, name: b""}, choose(kinds, random), choose(("/etc/passwd", "../x", "main.c"), random))


def sizes(files: dict[str, bytes], random: Random) -> bytes:
    """Headers that state other sizes."""
    data = bytearray(made(files))
    at = 512 * int(random.integers(0, len(data) // 512))
    data[at + 124 : at + 136] = choose((b"77777777777\0", b"-0000000001\0", b"\x80" + b"\xff" * 11, b"\0" * 12), random)
    header = bytes(data[at : at + 512])
    total = sum(header) - sum(header[148:156]) + 256
    data[at + 148 : at + 156] = b"%06o\0 " % total
    return bytes(data)


def damage(files: dict[str, bytes], random: Random) -> bytes:
    """Bytes anywhere, or an end too early."""
    data = bytearray(made(files))
    for _ in range(int(random.integers(1, 9))):
        data[int(random.integers(len(data)))] = int(random.integers(256))
    return bytes(data[: int(random.integers(len(data)))] if random.integers(3) == 0 else data)


RUNNING = (
    'if (system("touch %s")) {}',
    'FILE* f = fopen("%s", "w"); if (f) { fputs("x", f); fclose(f); }',
    "for (;;) {}",
    "for (;;) pause();",
    "while (fork() >= 0) {}",
    "setsid(); if (fork() == 0) for (;;) pause();",
    "for (;;) { char* p = malloc(1 << 24); if (!p) break; memset(p, 1, 1 << 24); }",
    "for (;;) if (write(1, main, 64) < 0) break;",
    "kill(getppid(), SIGKILL); kill(-1, SIGTERM);",
    "abort();",
    "_exit(0);",
    "((void (*)(void))8)();",
    'execl("/bin/sh", "sh", "-c", "touch %s", (char*)0);',
    'chdir("/"); symlink("/etc/passwd", "%s"); rename("./network", "%s"); mkdir("%s", 0700);',
    "int s = socket(AF_INET, SOCK_STREAM, 0); if (s >= 0) { listen(s, 1); for (;;) pause(); }",
    "char* deep(char* p) { char q[4096]; q[0] = *p; return deep(q); } deep((char*)main);",
)
SOURCES = (
    '#include "/dev/zero"',
    '#include "/etc/passwd"',
    '#include "/proc/self/environ"',
    "#error \x1b[2J\x1b]0;owned\x07",
    "static char big[1L << 46]; int use(void) { return big[5]; }",
    "#include __FILE__",
    "\n".join(f"#define M{n} M{n + 1} M{n + 1}" for n in range(40)) + "\nint y = M0;",
    '__asm__(".incbin \\"/dev/zero\\"");',
    '__asm__(".rept 1000000000\\n.quad 7\\n.endr");',
    "(" * 200_000,
    '#pragma GCC optimize("-fplugin=./x")',
)
HEADERS = ("signal.h", "stdio.h", "stdlib.h", "string.h", "sys/socket.h", "sys/stat.h", "sys/types.h", "unistd.h")


def code(files: dict[str, bytes], random: Random, mark: str = "PWNED") -> bytes:
    """The network does something else: when it is compiled, or before it is run."""
    name = next(key for key in files if key.endswith("_operators.c"))
    if random.integers(3) == 0:
        return made({**files, name: files[name] + b"\n" + choose(SOURCES, random).encode()})
    statement = choose(RUNNING, random).replace("%s", mark)
    head = "".join(f"#include <{header}>\n" for header in HEADERS)
    ignored = '#pragma GCC diagnostic ignored "-Wall"\n'
    for warning in ("unused-result", "pedantic", "infinite-recursion", "array-bounds", "implicit-function-declaration"):
        ignored += f'#pragma GCC diagnostic ignored "-W{warning}"\n'
    body = f"int main(void);\n__attribute__((constructor)) static void strike(void) {{ {statement} }}\n"
    return made({**files, name: f"#define _GNU_SOURCE\n{head}{ignored}{body}".encode() + files[name]})


KINDS: tuple[Callable[[dict[str, bytes], Random], bytes], ...] = (words, text, members, sizes, damage, code)
