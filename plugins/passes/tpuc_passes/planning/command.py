"""`tpuc plan`: where the buffers of a network lie, by any planner, in any pools, also as C source."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from tpuc.api import UsageError, write_atomic
from tpuc.api.command import OUTPUT, App, Command, check_output, pass_app

if TYPE_CHECKING:
    from tpuc.api import MemoryPlan, Planner

    from tpuc_passes.planning.pools import Pools
    from tpuc_passes.planning.usmp import PlacedProgram

_PATH = click.Path(path_type=Path)


@click.command("plan", cls=Command, context_settings={"ignore_unknown_options": True, "allow_extra_args": True})
@click.argument("files", metavar="FILE...", nargs=-1, type=str)
@click.option("--planner", default="greedy", show_default=True, metavar="NAME", help="Also NAME{option=value}.")
@click.option("--target", default="c", show_default=True, help="Targets, the one that ops run on first: accel,c.")
@click.option("--usmp-workspace-pools", default="", metavar="NAMES", help="In order of preference: dtcm,sram.")
@click.option("--usmp-parameter-pools", default="", metavar="NAMES", help="The same for constants: itcm,flash.")
@click.option("--executor", type=click.Choice(["aot"]), expose_value=False, help="As in TVM; there is no other.")
@click.option("--output-format", type=click.Choice(["mlf"]), expose_value=False, help="Likewise.")
@click.option("--output-c", type=_PATH, metavar="DIR", help="Write a header and a source file per network.")
@click.option("--dump", type=OUTPUT, metavar="FILE.json", help="Write the list of buffers, to plan it again.")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
@pass_app
def command(
    app: App,
    files: tuple[str, ...],
    planner: str,
    target: str,
    usmp_workspace_pools: str,
    usmp_parameter_pools: str,
    output_c: Path | None,
    dump: Path | None,
    as_json: bool,
) -> None:
    """Plan the memory of networks (.mlir), or of lists of buffers (.json).

    \b
    Pools are described as in TVM:
      --usmp-workspace-pool-NAME="target=c:rw,accel:rw;size=1000"
      --usmp-parameter-pool-NAME="target=c;size=64k"
    """
    from tpuc_passes.planning.arena import find_planner
    from tpuc_passes.planning.pools import read_pools

    paths, options = _split(files)
    options |= {"usmp-workspace-pools": usmp_workspace_pools, "usmp-parameter-pools": usmp_parameter_pools}
    if dump is not None:
        check_output("--dump", dump, paths)
    if not paths:
        raise UsageError("there is nothing to plan; give a .mlir or .json file.")
    targets = tuple(name.strip() for name in target.split(",") if name.strip())
    pools = read_pools(options, targets)
    algorithm = find_planner(lambda name: app.registry.get("tpuc.planners", name), planner)
    lists = [path for path in paths if path.suffix == ".json"]
    if lists and (output_c is not None or pools.workspace or pools.parameter or len(paths) > 1):
        raise UsageError(
            f"{lists[0]} is a list of buffers with its own pools; give it alone, without pools and C source."
        )
    if lists:
        plan = _plan_list(lists[0], algorithm)
        if as_json:
            app.result_json(plan.to_json())
        else:
            app.result(plan.text())
        return
    placed = [_plan_module(app, path, targets, pools, algorithm) for path in paths]
    if dump is not None:
        _dump(dump, placed)
    if output_c is not None:
        _write_c(app, output_c, placed)
    if as_json:
        app.result_json(
            {
                one.program.name: {"workspace": one.workspace.to_json(), "parameter": one.parameter.to_json()}
                for one in placed
            }
        )
        return
    for one in placed:
        app.result(one.program.name)
        app.result(one.workspace.text())
        app.result(one.parameter.text())
    if len(placed) > 1:
        _show_shared(app, placed)


def _split(words: Sequence[str]) -> tuple[list[Path], dict[str, str]]:
    """Files, and options that describe pools: `--usmp-workspace-pool-NAME=TEXT`, with or without a space."""
    paths: list[Path] = []
    options: dict[str, str] = {}
    pending = ""
    for word in words:
        if pending:
            options[pending], pending = word, ""
            continue
        if not word.startswith("-"):
            paths.append(Path(word))
            continue
        key, _, value = word.lstrip("-").partition("=")
        for kind in ("workspace", "parameter"):
            prefix = f"usmp-{kind}-pool-"
            if key.replace("_", "-").startswith(prefix):
                key = prefix + key[len(prefix) :]
                break
        else:
            raise UsageError(f"no such option: {word}.")
        if key in options:
            raise UsageError(f"--{key} is given twice; keep one.")
        options[key] = value
        pending = "" if value else key
    if pending:
        raise UsageError(f'--{pending} needs a description such as "target=c:rw;size=1000".')
    return paths, options


def _plan_module(app: App, path: Path, targets: Sequence[str], pools: Pools, algorithm: Planner) -> PlacedProgram:
    from tpuc.api import read_module

    from tpuc_passes.planning.usmp import lower_constants, plan_program

    module = read_module(path, app.registry.resolve_op)
    return plan_program(lower_constants(module, targets), pools, algorithm)


def _plan_list(path: Path, algorithm: Planner) -> MemoryPlan:
    from tpuc_passes.planning.arena import make_plan
    from tpuc_passes.planning.lists import read_list

    buffers, pools, lived = read_list(path)
    return make_plan(algorithm, buffers, pools, lived)


def _dump(path: Path, placed: Sequence[PlacedProgram]) -> None:
    from tpuc_passes.planning.lists import list_text

    if len(placed) != 1:
        raise UsageError("--dump writes the buffers of one network; give one file.")
    write_atomic(path, list_text(placed[0]))


def _write_c(app: App, folder: Path, placed: Sequence[PlacedProgram]) -> None:
    from tpuc_passes.planning.c_source import c_files

    folder.mkdir(parents=True, exist_ok=True)
    files = {name: text for one in placed for name, text in c_files(one).items()}
    for name, text in files.items():
        write_atomic(folder / name, text)
        app.log(f"wrote {folder / name}")


def _show_shared(app: App, placed: Sequence[PlacedProgram]) -> None:
    from tpuc_passes.planning.usmp import shared_pools

    for pool in shared_pools([one.workspace for one in placed]):
        app.result(f"pool '{pool.name}' shared by networks that never run at once: {pool.peak_bytes:,} B")
