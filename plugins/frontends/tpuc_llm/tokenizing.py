"""The process that runs a model's tokenizer and chat template: JSON lines in, JSON lines out.

Both are programs of whoever wrote the model, and the package for tokenizers ends its process on some of them. So they
have a process of their own, with limits of memory and of time for each request.
"""

from __future__ import annotations

import importlib
import json
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

MEMORY_BYTES, BYTES_PER_BYTE = 1 << 29, 64
"""Of address space, beyond what the process has when it starts: for any tokenizer, and for each byte of its file."""
SECONDS = 20
"""Of processor time, for each request."""
MOST_TOKENS, MOST_CHARACTERS = 1 << 20, 1 << 24
"""Of an answer."""


def main() -> None:
    """Read the tokenizer that the command line names and say whether it works, then answer requests."""
    path = Path(sys.argv[1])
    tokenizers = importlib.import_module("tokenizers")
    with suppress(ImportError):
        importlib.import_module("jinja2.sandbox")
    _limit_memory(MEMORY_BYTES + BYTES_PER_BYTE * path.stat().st_size)
    opened: list[Any] = []
    _answer(lambda: opened.append(tokenizers.Tokenizer.from_file(str(path))))
    for line in sys.stdin:
        kind, *given = json.loads(line)
        _answer(lambda kind=kind, given=given: REQUESTS[kind](opened[0], *given))


def _encode(encoder: Any, text: str, has_special: bool) -> list[int]:
    ids: list[int] = encoder.encode(text, add_special_tokens=has_special).ids
    if len(ids) > MOST_TOKENS:
        raise ValueError(f"it makes {len(ids)} tokens of {len(text)} characters")
    return ids


def _decode(encoder: Any, ids: list[int]) -> str:
    text = str(encoder.decode(ids, skip_special_tokens=True))
    if len(text) > MOST_CHARACTERS:
        raise ValueError(f"it makes {len(text)} characters of {len(ids)} tokens")
    return text


def _render(_: Any, template: str, values: dict[str, Any]) -> str:
    sandbox = importlib.import_module("jinja2.sandbox")
    environment = sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    text = str(environment.from_string(template).render(**values))
    if len(text) > MOST_CHARACTERS:
        raise ValueError(f"it writes {len(text)} characters")
    return text


REQUESTS: dict[str, Callable[..., Any]] = {"encode": _encode, "decode": _decode, "render": _render}


def _answer(work: Callable[[], Any]) -> None:
    _limit_seconds(SECONDS)
    try:
        answer = {"is": work()}
    except BaseException as error:  # noqa: BLE001  # the package panics with what is no Exception
        answer = {"failed": next(iter(str(error).splitlines()), "") or type(error).__name__}
    _limit_seconds(0)
    sys.stdout.write(f"{json.dumps(answer)}\n")
    sys.stdout.flush()


def _limit_memory(size: int) -> None:
    with suppress(ImportError, OSError, ValueError):  # where there are such limits
        resource: Any = importlib.import_module("resource")
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        most = pages * resource.getpagesize() + size
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _limit_seconds(seconds: float) -> None:
    """End the process after so much processor time, native code included."""
    if hasattr(signal, "setitimer"):
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_PROF, seconds)


if __name__ == "__main__":
    main()
