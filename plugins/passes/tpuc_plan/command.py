"""`tpuc plan`: place the buffers of a network with any planner, in any pools, also as C source."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from tpuc.api import UsageError, write_atomic
from tpuc_driver.api.command import OUTPUT, App, PoolChoice, PoolsCommand, pass_app, pool_options, write_all

if TYPE_CHECKING:
    from tpuc.api import MemoryPlan, Planner

    from tpuc_plan.usmp.planner import PlacedProgram
    from tpuc_plan.usmp.pools import Pools

_PATH = click.Path(path_type=Path)


@click.command(
    "plan",
    cls=PoolsCommand,
    section="Look inside",
    examples=("tpuc plan net.mlir --planner hill-climb",),
)
@click.argument("files", metavar="FILE...", nargs=-1, type=_PATH)
@click.option("--planner", default="greedy", show_default=True, metavar="NAME", help="Also NAME{option=value}.")
@pool_options
@click.option("--output-c", type=_PATH, metavar="DIR", help="Write a header and a source file per network.")
@click.option("--dump", type=OUTPUT, metavar="FILE.json", help="Write the list of buffers, to plan it again.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@pass_app
def command(
    app: App,
    files: tuple[Path, ...],
    planner: str,
    pools: PoolChoice,
    output_c: Path | None,
    dump: Path | None,
    as_json: bool,
) -> None:
    """Plan the memory of networks (.mlir) or buffer lists (.json).

    \b
    Pools are described as in TVM:
      --usmp-workspace-pool-NAME="target=c:rw,accel:rw;size=1000"
      --usmp-parameter-pool-NAME="target=c;size=64k"
    """
    from tpuc_plan.planners.arena import find_planner
    from tpuc_plan.usmp.pools import read_pools

    if not files:
        raise UsageError("nothing to plan; give a .mlir or .json file.")
    targets = pools.targets or ("c",)
    named = read_pools(pools.options or {}, targets)
    algorithm = find_planner(lambda name: app.registry.get("tpuc.planners", name), planner)
    lists = [path for path in files if path.suffix == ".json"]
    if lists and (output_c is not None or named.workspace or named.parameter or len(files) > 1):
        raise UsageError(
            f"{lists[0]} is a buffer list with its own pools; pass it alone, without pool options and --output-c."
        )
    if lists:
        plan = _plan_list(lists[0], algorithm)
        if as_json:
            app.result_json(plan.to_json())
        else:
            app.result(plan.text())
        return
    placed = [_plan_module(app, path, targets, named, algorithm) for path in files]
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


def _plan_module(app: App, path: Path, targets: Sequence[str], pools: Pools, algorithm: Planner) -> PlacedProgram:
    from tpuc.api import read_module

    from tpuc_plan.usmp.planner import lower_constants, plan_program

    module = read_module(path, app.registry.resolve_op)
    return plan_program(lower_constants(module, targets), pools, algorithm)


def _plan_list(path: Path, algorithm: Planner) -> MemoryPlan:
    from tpuc_plan.planners.arena import make_plan
    from tpuc_plan.usmp.buffer_lists import read_list

    buffers, pools, lived = read_list(path)
    return make_plan(algorithm, buffers, pools, lived)


def _dump(path: Path, placed: Sequence[PlacedProgram]) -> None:
    from tpuc_plan.usmp.buffer_lists import list_text

    if len(placed) != 1:
        raise UsageError("--dump writes the buffers of one network; give a single file.")
    write_atomic(path, list_text(placed[0]))


def _write_c(app: App, folder: Path, placed: Sequence[PlacedProgram]) -> None:
    from tpuc_plan.usmp.c_source import c_files

    files = {folder / name: text for one in placed for name, text in c_files(one).items()}
    write_all(files)
    for path in files:
        app.log(f"wrote {path}")


def _show_shared(app: App, placed: Sequence[PlacedProgram]) -> None:
    from tpuc_plan.usmp.planner import shared_pools

    for pool in shared_pools([one.workspace for one in placed]):
        app.result(f"pool '{pool.name}' shared by networks that never run at once: {pool.peak_bytes:,} B")
