"""`tpuc check`: report in one pass everything that a chip cannot compute."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import click
from tpuc.api import FLOAT_MODES, Chip, CpuFunction, LoadedModel, Module, Operation, TpucError, UsageError, cpu_function
from tpuc_driver.api.command import (
    EMPTY,
    FILE,
    MODE,
    NAMES,
    POSITIVE,
    SHAPES,
    App,
    Command,
    Shapes,
    check_inputs,
    open_session,
    pass_app,
    runtime_option,
    specializing_options,
)

if TYPE_CHECKING:
    from tpuc_driver.api.host import HostTime

    from tpuc_check.destination import Destination
    from tpuc_check.findings import Finding
    from tpuc_check.trial import Trials


@click.command(
    "check",
    cls=Command,
    section="Compile",
    examples=("tpuc check net.onnx --chip {chip} --quantize int8",),
)
@click.argument("networks", metavar="MODEL...", type=FILE, nargs=-1, required=True)
@click.option("--model-data", type=FILE, metavar="FILE", help="Weights of the network, if they are in a separate file.")
@click.option("--random-weights", is_flag=True, help="Initialize missing weights randomly.")
@click.option("--chip", help="The chip (`tpuc plugins` lists them); by default that of the board or file.")
@click.option(
    "--board",
    metavar="NAME",
    help="Check that it fits this board: duo64, duo256 and so on (`tpuc plugins` lists them).",
)
@runtime_option
@click.option(
    "--quantize", type=MODE, help="f32, f16, bf16, int8, int8-asym, ...; by default, network and chip decide."
)
@click.option("--input-shapes", type=SHAPES, default=EMPTY, help="Shapes of dynamic inputs: [[1,3,224,224]].")
@click.option("--batch", type=POSITIVE, help="Batch size of every input.")
@specializing_options
@click.option("--output-names", type=NAMES, default=EMPTY, help="Cut the network at these values.")
@click.option(
    "--full", is_flag=True, help="Plan local memory as `tpuc compile` does: exact sizes with --board, but slower."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@pass_app
def command(
    app: App,
    networks: tuple[Path, ...],
    model_data: Path | None,
    random_weights: bool,
    chip: str | None,
    board: str | None,
    runtime_version: str | None,
    quantize: str | None,
    input_shapes: Shapes,
    batch: int | None,
    output_names: tuple[str, ...],
    full: bool,
    as_json: bool,
    **specializing: Any,
) -> int:
    """List every op and limit that keeps a network from compiling, and suggest a fix for each.

    Integer modes are calibrated on random data. The exit code is 0 if the network compiles, else 1. Ops are planned
    individually, which takes seconds; the whole network is planned only if that fails, or with --full. MODEL may also
    be a compiled file, to check whether it runs on a board or runtime. Several models are checked one after another
    with the same options.
    """
    check_inputs(*networks, model_data)
    if len(networks) > 1 and (model_data or as_json):
        raise UsageError("--model-data and --json are for one network; check them one at a time.")
    from tpuc_check.destination import Destination

    destination = Destination(None if board is None else app.registry.get("tpuc.boards", board), runtime_version)
    chip = chip or (None if destination.board is None else destination.board.chip)
    settings = {
        "model_data": model_data,
        "random_weights": random_weights,
        "input_shapes": input_shapes,
        "batch": batch,
        "output_names": output_names,
        **specializing,
    }
    destination = replace(destination, full=full)
    codes = [_show(app, _checked(app, network, chip, quantize, destination, settings), as_json) for network in networks]
    return max(codes)


def _checked(
    app: App,
    network: Path,
    chip: str | None,
    quantize: str | None,
    destination: Destination,
    settings: dict[str, Any],
) -> Result:
    """Check one network or compiled file; raises UsageError if no chip is chosen."""
    if _is_compiled(app, network, chip):
        return check_compiled(app, network, destination)
    if chip is None:
        raise UsageError("no chip is chosen; add --chip NAME or --board NAME.")
    session = open_session(app, chip=chip, quantize=quantize, runtime_version=destination.runtime_version)
    with tempfile.TemporaryDirectory() as folder:
        found = check(app, session, network, settings, Path(folder), destination)
    return Result(network, chip, found.mode, destination, found)


def _is_compiled(app: App, path: Path, chip: str | None) -> bool:
    """True for a compiled file, by its suffix: that of the chip, or of no network format."""
    if chip is not None:
        return path.suffix == app.registry.get("tpuc.chips", chip).description.suffix
    return path.suffix != ".mlir" and not open_session(app).is_network(path)


def _show(app: App, result: Result, as_json: bool) -> int:
    """Print a result and return the exit code."""
    if as_json:
        app.result_json(result.to_json())
    else:
        for finding in result.findings:
            app.result(finding.text())
        app.result(result.summary())
    return 1 if result.findings else 0


class Found(NamedTuple):
    """The findings of a check. `ops`: number of ops examined; `behind`: true if some follow a part that could not be
    read.

    `device_bytes`: what the runtime allocates for the network, `exact` if planned as by `tpuc compile`. `mode`: the
    mode in which the network is compiled. `host_times`: functions that the runtime computes on the processor.
    """

    findings: tuple[Finding, ...]
    ops: int = 0
    behind: bool = False
    device_bytes: Mapping[str, int] = MappingProxyType({})
    mode: str | None = None
    exact: bool = True
    host_times: tuple[HostTime, ...] = ()


@dataclass(frozen=True)
class Result:
    """The result for a network in a mode, or for a compiled file (mode None)."""

    network: Path
    chip: str
    mode: str | None
    destination: Destination
    found: Found

    @property
    def findings(self) -> tuple[Finding, ...]:
        """One finding per reason."""
        return self.found.findings

    def summary(self) -> str:
        """The last line."""
        where = f"{self.network.name} on {self.chip}{'' if self.mode is None else f' in {self.mode}'}"
        there = self.destination.summary(self.found.device_bytes, exact=self.found.exact)
        if not self.findings:
            what = "all its commands are legal" if self.mode is None else f"all {self.found.ops} ops can be computed"
            return f"{where}: {what}{self._on_processor()}{there}"
        behind = "; ops behind an unknown operator were not checked" if self.found.behind else ""
        ops = "" if self.mode is None else f", {self.found.ops} ops checked{behind}"
        return f"{where}: {len(self.findings)} problem(s){ops}"

    def _on_processor(self) -> str:
        """Name the functions on the processor, which slow a network down unseen."""
        times = self.found.host_times
        if not times:
            return ""
        from tpuc_driver.api.host import shown_time

        names = ", ".join(dict.fromkeys(time.function for time in times))
        return f", {names} on the processor in about {shown_time(sum(time.milliseconds for time in times))} (estimated)"

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "model": str(self.network),
            "chip": self.chip,
            "mode": self.mode,
            "supported": not self.findings,
            "ops": self.found.ops,
            "complete": not self.found.behind,
            "findings": [finding.to_json() for finding in self.findings],
            **self.destination.to_json(self.found.device_bytes),
            "exact_bytes": self.found.exact,
            "host_functions": [dict(vars(time)) for time in self.found.host_times],
        }


def check_compiled(app: App, path: Path, destination: Destination) -> Result:
    """Check a compiled file: whether it is intact and legal, and whether it runs at its destination."""
    chip, loaded = open_session(app).open(path)
    loaded.check()
    name = chip.description.name
    findings = destination.findings(name, loaded)
    found = Found(tuple(findings), device_bytes=loaded.device_bytes, host_times=_times(app, chip, loaded))
    return Result(path, name, None, destination, found)


def check(
    app: App, session: Any, network: Path, settings: dict[str, Any], folder: Path, destination: Destination
) -> Found:
    """Import as much as possible, then compile; if that fails, try every op separately.

    A pre-quantized network is checked in the mode in which it is compiled, whatever mode was requested.
    """
    from tpuc_importing.obstacles import ImportRefused

    from tpuc_check.findings import import_findings
    from tpuc_check.trial import computes

    findings = destination.wrong_chip(session.chip.description.name)
    asked = session.mode or session.chip.description.float_mode
    if findings:
        return Found(tuple(findings), mode=asked)
    module: Module | None = None
    try:
        module = _read(session, network, settings)
    except TpucError as error:
        refused = error if isinstance(error, ImportRefused) else ImportRefused(str(error), {}, ())
        findings = import_findings(str(error), str(network), refused.unknown)
        outputs = refused.readable
        if outputs:
            app.remark(f"checking the part of the network before: {', '.join(outputs)}")
            module = _read_part(session, network, {**settings, "output_names": outputs})
    if module is None:
        return Found(tuple(findings), behind=True, mode=asked)
    behind = bool(findings)
    mode = session.mode_used(module)
    session = session.having(mode=mode)
    count = sum(map(computes, module.main.operations))
    table = _ranges(session, module, folder)
    refused, loaded, exact = whole(session, module, table, destination)
    found = (*findings, *explained(app, session, module, table, refused))
    sizes: Mapping[str, int] = {} if loaded is None else loaded.device_bytes
    return Found(found, count, behind, sizes, mode, exact, _times(app, session.chip, loaded))


def _times(app: App, chip: Chip, loaded: LoadedModel | None) -> tuple[HostTime, ...]:
    if loaded is None or not loaded.host_calls:
        return ()
    from tpuc_driver.api.host import host_times

    return host_times(app.registry, chip, loaded)


def _read(session: Any, network: Path, settings: dict[str, Any]) -> Module:
    """Read the network of a file, or a module; raises UsageError for settings that the module already has."""
    if network.suffix.lower() != ".mlir":
        return session.transform(network, **settings)
    given = [f"--{name.replace('_', '-')}" for name, value in settings.items() if value]
    if given:
        raise UsageError(f"{network} is a module, which already contains these settings; leave out {', '.join(given)}.")
    return session.load(network)


def _quiet(session: Any) -> Any:
    """Return the session without remarks: those about single ops do not concern the network."""
    return session.having(remark=_unheard)


def _unheard(_text: str) -> None: ...


def _read_part(session: Any, network: Path, settings: dict[str, Any]) -> Module | None:
    try:
        return session.transform(network, **settings)
    except TpucError:
        return None  # told already, by what the whole network said


def _ranges(session: Any, module: Module, folder: Path) -> Any:
    """Return a calibration table of random data, if the mode needs one."""
    from tpuc_check.ranges import drawn_ranges

    return drawn_ranges(_quiet(session), module, folder)


def explained(app: App, session: Any, module: Module, table: Any, refused: Sequence[Finding]) -> Sequence[Finding]:
    """Return the findings of the whole network; if its compilation fails at one op, those of every op instead."""
    from tpuc_check.findings import NETWORK

    whole = next((finding for finding in refused if finding.stage == NETWORK), None)
    if whole is None:
        return refused
    found = _on_chip(app, session, module, table)
    return found if any(one.reason in whole.reason for one in found) else (*found, whole)


def _on_chip(app: App, session: Any, module: Module, table: Any) -> list[Finding]:
    """Return one finding per reason."""
    from tpuc_check.findings import Finding
    from tpuc_check.trial import Trials, computes

    trials = Trials(module, _quiet(session), table)
    operations = [operation for operation in module.main.operations if computes(operation)]
    refused: dict[tuple[str, str, str], list[Operation]] = {}
    for operation in app.progress(operations, "checking", len(operations)):
        verdict = trials.verdict(operation)
        if verdict.reason is not None:
            refused.setdefault((verdict.stage, operation.op.name, verdict.reason), []).append(operation)
    floats = _float_trials(app, session, module)
    findings: list[Finding] = []
    for (stage, op, reason), found in refused.items():
        way_out, cycles, host = _way_out(session, op, found, floats)
        names = tuple(operation.name for operation in found)
        findings.append(Finding(stage, names, op, reason, way_out, session.mode, cycles, host))
    return findings


def _float_trials(app: App, session: Any, module: Module) -> dict[str, Trials]:
    from tpuc_check.trial import Trials

    description = session.chip.description
    modes = [mode for mode in description.modes if mode in FLOAT_MODES and mode != session.mode]
    cheap_first = sorted(modes, key=lambda mode: mode == "f32")
    return {
        mode: Trials(module, _quiet(open_session(app, chip=description.name, quantize=mode))) for mode in cheap_first
    }


def _way_out(
    session: Any, op: str, found: Sequence[Operation], floats: dict[str, Trials]
) -> tuple[str, int | None, int | None]:
    """Suggest a fix: a float layer, a function of the runtime, a rewrite, or the host; with the predicted cost."""
    from tpuc_driver.api.host import host_milliseconds, shown_time

    from tpuc_check.findings import REWRITES
    from tpuc_check.ranges import host_operations

    for mode, trials in floats.items():
        verdicts = [trials.verdict(operation) for operation in found]
        cycles = [verdict.cycles or 0 for verdict in verdicts]
        if all(verdict.reason is None for verdict in verdicts):
            return f"keep it in {mode} with --quantize-table (`NODE {mode}`): {sum(cycles)} cycles", sum(cycles), None
    work = sum(host_operations(operation) for operation in found)
    host = f"about {shown_time(host_milliseconds(session.chip, work))} for {work} operations of one core"
    function = cpu_function(session.registry, session.chip.description.owners, op)
    if function is not None and all(_fits(function, operation) for operation in found):
        name = op.partition(".")[2]
        return (
            f"compile it with --cpu-ops {name} to compute it on the processor ({host})",
            None,
            work,
        )
    hint = REWRITES.get(op)
    if hint is not None:
        return f"{hint} ({host})", None, work
    return f"cut the network there with --output-names and compute it on the host: {host}", None, work


def _fits(function: CpuFunction[Any], operation: Operation) -> bool:
    """True if the function can compute the node, as far as the node alone shows."""
    others = operation.results[function.results :]
    return function.refuse(operation.node()) is None and not any(result.uses for result in others)


def whole(
    session: Any, module: Module, table: Any, destination: Destination
) -> tuple[list[Finding], LoadedModel | None, bool]:
    """Return why the network does not compile or run, its file if it compiles, and whether the sizes are those of `tpuc
    compile`.

    A plan with the first tiling that fits for every op is as conclusive as the best plan, unless it is refused or
    leaves less than a third of the board's memory.
    """
    if not destination.full:
        try:
            loaded = _compiled(session.having(opt=0), module, table)
        except TpucError:
            pass
        else:
            if destination.has_room(loaded):
                return [], loaded, False
    from tpuc_check.findings import NETWORK, Finding

    try:
        loaded = _compiled(session, module, table)
    except TpucError as error:
        reason = str(error).splitlines()[0].rstrip(".")
        return [Finding(NETWORK, (), "", reason, "Compile the network for details", session.mode)], None, True
    if destination.board is None:
        return [], loaded, True
    return destination.findings(session.chip.description.name, loaded), loaded, True


def _compiled(session: Any, module: Module, table: Any) -> LoadedModel:
    built = session.build(module, table)
    if built.instructions is None:
        loaded = session.chip.load(built.data, module.name)
    else:
        loaded = session.chip.load_written(built.data, module.name, built.instructions)
    loaded.check()
    return loaded
