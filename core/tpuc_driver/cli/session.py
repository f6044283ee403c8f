"""Helpers shared by commands: create the session late, and check options before any work."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource
from tpuc.errors import HazardError, IllegalCommand, UsageError
from tpuc.files import check_writable, write_atomic

from tpuc_driver.cli.app import App

if TYPE_CHECKING:
    from tpuc.api.chip import Chip, LoadedModel

    from tpuc_driver.cli.pools import PoolChoice
    from tpuc_driver.data import SampleSet
    from tpuc_driver.session import CompileReport, Session


def open_session(
    app: App,
    *,
    chip: str | None = None,
    quantize: str | None = None,
    work_dir: Path | None = None,
    symmetric_divisor: int | None = None,
    runtime_version: str | None = None,
    planner: str | None = None,
    opt: int | None = None,
    cores: int | None = None,
    cpu_ops: Sequence[str] = (),
    input_layout: str | None = None,
    trust: bool = False,
    pools: PoolChoice | None = None,
    layout: str | None = None,
) -> Session:
    """A session with the user's choices; raises UsageError when the chip lacks the mode."""
    from tpuc_driver.session import Session
    from tpuc_driver.session.modes import check_mode

    if chip is not None:
        check_mode(app.registry.get("tpuc.chips", chip), quantize)
    return Session(
        app.registry,
        chip=chip,
        quantize=quantize,
        work_dir=work_dir,
        symmetric_divisor=symmetric_divisor,
        runtime_version=runtime_version,
        planner=planner,
        opt=opt,
        cores=cores,
        cpu_ops=cpu_ops,
        input_layout=input_layout,
        trust=trust,
        targets=pools.targets if pools is not None else (),
        pools=pools.options if pools is not None else None,
        layout=layout,
        pipelines=app.pipelines,
        progress=app.progress,
        log=app.log,
        remark=app.remark,
    )


def open_compiled(app: App, path: Path) -> tuple[Chip, LoadedModel]:
    """A compiled file and its installed chip; raises Unsupported when there is none.

    A file with a hazard is opened with a remark; only running it is refused.
    """
    chip, loaded = open_session(app).open(path)
    try:
        loaded.check()
    except HazardError as error:
        app.remark(f"{error}. Results depend on which engine is faster.")
    except IllegalCommand:
        pass  # it is of no account for those who look, and running says it
    return chip, loaded


def chosen_chip(app: App, chip: str | None, pools: PoolChoice) -> str:
    """The named chip, or the first of the targets that is a chip; raises UsageError without either."""
    found = chip or next((name for name in pools.targets if app.registry.has("tpuc.chips", name)), None)
    if found is None:
        raise UsageError(
            f"no chip to compile for; add --chip NAME: {', '.join(sorted(app.registry.names('tpuc.chips')))}."
        )
    if pools.options and not _plans_pools(app, found):
        raise UsageError(f"chip '{found}' has no memory pools; leave out the options --usmp-....")
    return found


def chosen_chips(
    app: App, chip: str | None, pools: PoolChoice, output: Path | None, network: Path
) -> list[tuple[str, Path]]:
    """The comma-separated chips, and the file for each: for one chip the user's name, for several `NAME_CHIP` with the
    suffix of the chip. NAME defaults to the network's.
    """
    names = dict.fromkeys(part.strip() for part in (chip or "").split(",") if part.strip())
    known = [chosen_chip(app, name, pools) for name in names or (None,)]
    found = [app.registry.get("tpuc.chips", name).description for name in known]
    if len(found) == 1 and output is not None:
        return [(known[0], output)]
    stem, place = (network.stem, Path()) if output is None else (output.stem, output.parent)
    if len(found) == 1:
        return [(known[0], place / f"{stem}{found[0].suffix}")]
    return [(one.name, place / f"{stem}_{one.name}{one.suffix}") for one in found]


def _plans_pools(app: App, chip: str) -> bool:
    from tpuc.api.function import FunctionChip

    return isinstance(app.registry.get("tpuc.chips", chip), FunctionChip)


def compiled_file(app: App, chip: str, output: Path) -> Path | None:
    """The output file of a compilation, None where it is a folder; raises UsageError for an existing file in its
    place.
    """
    from tpuc_driver.session.artifacts import names_folder

    _check_ending(app, chip, output)
    if not names_folder(app.registry.get("tpuc.chips", chip), output):
        return output
    if output.exists() and not output.is_dir():
        raise UsageError(f"{output} is a file, but chip '{chip}' writes a folder; choose another name.")
    check_writable(output / "metadata.json" if output.exists() else output)
    return None


def _check_ending(app: App, chip: str, output: Path) -> None:
    """Raise UsageError for another chip's suffix, since the file could not be opened later."""
    own = app.registry.get("tpuc.chips", chip).description.suffix
    if output.suffix == own:
        return
    for name, other in app.registry.usable("tpuc.chips"):
        ending = other.description.suffix
        if output.suffix == ending:
            raise UsageError(
                f"{output}: {ending} is the suffix of files for '{name}', but files for chip '{chip}' end in {own}; "
                f"name it {output.with_suffix(own)}."
            )


def check_inputs(*paths: Path | None) -> None:
    """Raise FileNotFoundError for the first missing path, before a long run."""
    for path in paths:
        if path is not None and not path.exists():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))


def check_belongings() -> None:
    """Raise UsageError for options that require another option which is missing."""
    if not _has("test_input") and any(map(is_said, ("excepts", "tolerance", "test_reference"))):
        raise UsageError("--excepts, --tolerance and --test-reference require --test-input; add --test-input FILE.")
    if not _has("min_accuracy") and any(map(is_said, ("measure", "max_trials", "accept_point_estimate"))):
        raise UsageError(
            "--measure, --max-trials and --accept-point-estimate require --min-accuracy; add --min-accuracy FIGURE."
        )


def _has(option: str) -> bool:
    value = click.get_current_context().params.get(option)
    return value is not None and value != ()


def is_said(option: str) -> bool:
    """True if the option is on the command line; values in tpuc.toml apply only where they fit."""
    return click.get_current_context().get_parameter_source(option) is ParameterSource.COMMANDLINE


def check_outputs(*paths: Path | None) -> None:
    """Raise for the first file that cannot be written, before a long run."""
    for path in paths:
        if path is not None:
            check_writable(path)


def check_one_data_source(
    dataset: Path | Sequence[SampleSet] | None, data_list: Path | None, required: bool = False
) -> None:
    """Raise UsageError if samples come from more than one source."""
    if dataset and data_list is not None:
        raise UsageError("--dataset and --data-list both give samples; give one of them.")
    if required and not dataset and data_list is None:
        raise UsageError("no samples to calibrate with; give --dataset DIR or --data-list FILE.")


def show_report(
    app: App, report: CompileReport, report_path: Path | None, memory_plan: Path | None, work_dir: Path | None
) -> None:
    """Print the report of a compilation; with paths also write it as JSON, and the memory plan.

    In the folder of intermediate files they are named after the compiled file, plus `.json` and `.plan.json`.
    """
    paths = [] if report_path is None else [report_path]
    plans = [] if memory_plan is None else [memory_plan]
    if work_dir is not None:
        work_dir.mkdir(parents=True, exist_ok=True)
        paths.append(work_dir / f"{Path(report.model).name}.json")
        plans.append(work_dir / f"{Path(report.model).name}.plan.json")
    for path in paths:
        _write_json({**report.to_json(), **_made_by(app)}, path)
    if report.memory_plan is not None:
        for path in plans:
            _write_json(report.memory_plan.to_json(), path)
    app.result(report.text())


def check_bundle(bundle: Path) -> None:
    """Raise UsageError where the deployment folder cannot be written."""
    from tpuc_driver.session.bundle import check_bundle

    check_bundle(bundle)


def write_bundle(app: App, session: Session, path: Path, bundle: Path) -> None:
    """Write the deployment folder of a compiled file; a remark tells if the chip has no programs."""
    from tpuc_driver.session.bundle import write_bundle

    file = session.opened(path)
    if not write_bundle(file, bundle):
        app.remark(f"chip '{file.chip.description.name}' has no example program yet; {bundle} is written without one.")


def _made_by(app: App) -> dict[str, Any]:
    """The command line that makes the file again."""
    from tpuc_driver.diagnosis import versions

    return {"command": ["tpuc", *app.arguments], "versions": versions()}


def _write_json(values: Mapping[str, Any], path: Path) -> None:
    write_atomic(path, json.dumps(values, indent=2, ensure_ascii=False) + "\n")
