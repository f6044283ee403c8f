"""Forward remarks of the compiler as Python warnings, and the output of `-v` as log records."""

from __future__ import annotations

import inspect
import logging
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from tpuc.errors import visible
from tpuc.warned import TpucWarning

from tpuc_driver.facade.wording import for_python
from tpuc_driver.progress import Display
from tpuc_driver.session import Session

DISPLAY = Display()
"""The progress display of notebooks and terminals."""
LOGGER = logging.getLogger("tpuc")
_PACKAGE = __name__.rpartition(".")[0]


class Remark(TpucWarning):
    """A remark on a network, its samples or its compiled file; one sentence."""


def make_session(
    *,
    chip: str | None = None,
    mode: str | None = None,
    planner: str | None = None,
    opt: int | None = None,
    cores: int | None = None,
    runtime_version: str | None = None,
    cpu_ops: Sequence[str] = (),
    input_layout: str | None = None,
    trust: bool = False,
    work_dir: Path | None = None,
) -> Session:
    """A session that issues warnings and log records."""
    return Session(
        chip=chip,
        quantize=mode,
        planner=planner,
        opt=opt,
        cores=cores,
        runtime_version=runtime_version,
        cpu_ops=cpu_ops,
        input_layout=input_layout,
        trust=trust,
        work_dir=work_dir,
        progress=DISPLAY,
        remark=warn,
        log=lambda text: LOGGER.info("%s", visible(text)),
    )


def paths_in(settings: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """The settings, with the named ones converted to paths."""
    return {
        name: Path(value) if name in names and isinstance(value, str) else value for name, value in settings.items()
    }


def warn(text: str) -> None:
    """Issue a warning at the line of the user's program that called the facade."""
    with DISPLAY.paused():
        _warn(for_python(text))


def _warn(text: str) -> None:
    frame: FrameType | None = inspect.currentframe()
    level = user_level = 1
    while frame is not None:
        level += 1
        if str(frame.f_globals.get("__name__", "")).startswith(_PACKAGE):
            user_level = level
        frame = frame.f_back
    warnings.warn(visible(text), Remark, stacklevel=user_level)
