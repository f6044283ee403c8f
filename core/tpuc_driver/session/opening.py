"""Open compiled files with the installed chip that they are for, and prepare them to run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy.typing as npt
from tpuc.api.chip import Chip
from tpuc.errors import PluginError, TpucError, Unsupported, UsageError
from tpuc.ir import TensorType
from tpuc.registry import left_out, tell_left_out

from tpuc_driver.data import described
from tpuc_driver.session.artifacts import is_compiled_folder
from tpuc_driver.session.combining import Choice, CompiledFile
from tpuc_driver.session.configuration import Configuration
from tpuc_driver.session.running import Runner, as_stored, compiled_inputs, simulate

Array: TypeAlias = npt.NDArray[Any]


def kind_of(path: Path) -> str:
    """Describe a path for messages that nothing installed reads it."""
    if path.is_dir():
        return "folders like this one"
    return f"files of type '{path.suffix}'" if path.suffix else "files without a suffix in their name"


def opened(configuration: Configuration, path: Path) -> CompiledFile:
    """Open a compiled file; a name with no chip's suffix may be of any chip. Raises Unsupported if none reads it."""
    failed: list[PluginError] = []
    chips: list[Chip] = [chip for _, chip in configuration.registry.usable("tpuc.chips", failed)]
    candidates = [chip for chip in chips if chip.description.suffix == path.suffix or is_compiled_folder(chip, path)]
    if not candidates:
        if path.is_file() and (found := _by_content(configuration, chips, path)) is not None:
            return found
        suffixes = sorted({chip.description.suffix for chip in chips})
        raise Unsupported(
            f"{path}: no installed chip reads {kind_of(path)}; installed chips read {', '.join(suffixes)}"
            f"{left_out(failed)}"
        )
    tell_left_out(failed)
    for chip in candidates[:-1]:
        try:
            return CompiledFile.read(chip, path, configuration.trust)
        except Unsupported as error:  # the file says that it is for another chip
            configuration.log(f"{error}")
    return CompiledFile.read(candidates[-1], path, configuration.trust)


def _by_content(configuration: Configuration, chips: Sequence[Chip], path: Path) -> CompiledFile | None:
    """The file as the first chip reads it, None if none does."""
    for chip in chips:
        try:
            return CompiledFile.read(chip, path, configuration.trust)
        except TpucError as error:
            configuration.log(f"{error}")
    return None


def compiled_runner(configuration: Configuration, path: Path, preprocess: Mapping[str, Any], choice: Choice) -> Runner:
    """Prepare the network that `choice` selects from a compiled file to run in its chip's simulator."""
    file = opened(configuration, path)
    place = choice.place(file)
    chip, loaded, stated = file.chip, file.load(place), file.described(place)
    if stated and preprocess:
        raise said_twice(path, preprocess, "compile")
    settings = described(preprocess, configuration.registry, configuration.remark)
    specs = compiled_inputs(loaded, stated, settings, configuration.remark, configuration.input_layout or "")
    types = {info.name: TensorType(info.shape, info.element) for info in loaded.outputs}

    def run(sample: Mapping[str, Array]) -> dict[str, Array]:
        return simulate(configuration.registry, chip, loaded, as_stored(specs, sample))

    own = file.description(place)
    return Runner(run, specs, types, tuple(loaded.outputs), own.postprocess, own.labels)


def said_twice(path: Path, preprocess: Mapping[str, Any], command: str) -> UsageError:
    """Return the error for preprocessing options that a file already states; `command` produces such files."""
    names = sorted("preprocess" if name == "preset" else name for name in preprocess)
    options = ", ".join(f"--{name.replace('_', '-')}" for name in names)
    return UsageError(
        f"{path}: preprocessing is stored in the file. Leave out {options}, or {command} the network again with "
        "other values."
    )
