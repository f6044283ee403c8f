"""`tpuc npz`: show, compare, and change npz files; files are replaced atomically."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from tpuc.api import UsageError, file_stem, write_atomic
from tpuc_driver.api.command import (
    COUNT,
    FILE,
    INTEGERS,
    NAMES,
    NUMBERS,
    OUTPUT,
    App,
    CommandGroup,
    check_output,
    check_writable,
    pass_app,
)

if TYPE_CHECKING:
    from tpuc_npz.arrays import Arrays

FAILED = 1
KINDS = ("int8", "uint8", "int16", "uint16", "int32", "bf16", "float16", "float32")


@click.group(
    "npz",
    cls=CommandGroup,
    section="Run and measure",
    examples=(
        "tpuc npz compare answers.npz wanted.npz",
        "tpuc npz dump answers.npz",
    ),
)
def command() -> None:
    """Inspect, compare, and change npz files."""


def _change(path: Path, target: Path, change: Callable[[Arrays], Arrays]) -> None:
    """Apply a change to a file's arrays and write it."""
    from tpuc.api.evaluation import write_npz

    from tpuc_npz.arrays import load

    check_writable(target)
    write_npz(target, change(load(path)))


# Looking


@command.command("dump")
@click.argument("file", metavar="FILE.npz", type=FILE)
@click.argument("name", required=False)
@click.argument("count", required=False, type=COUNT)
@pass_app
def dump(app: App, file: Path, name: str | None, count: int | None) -> None:
    """List the arrays, or show the values of one: all of them, or the COUNT largest."""
    import numpy as np

    from tpuc_npz.arrays import load, named, shape_text

    arrays = load(file)
    if name is None:
        app.table([(key, shape_text(array), str(array.dtype)) for key, array in arrays.items()], has_head=False)
        return
    array = named(arrays, name, file)
    if count:
        flat = array.reshape(-1)
        order = np.argsort(-flat.astype(np.float64), kind="stable")[:count]
        places = np.stack(np.unravel_index(order, array.shape), axis=1).tolist()
        rows = [(",".join(map(str, place)), str(flat[one])) for place, one in zip(places, order, strict=True)]
        app.table(rows, has_head=False)
    else:
        app.result(np.array2string(array, threshold=array.size + 1, separator=" "))
    app.result(f"{shape_text(array)} {array.dtype}")


@command.command("get-shape")
@click.argument("file", metavar="FILE.npz", type=FILE)
@click.argument("name")
@pass_app
def get_shape(app: App, file: Path, name: str) -> None:
    """Show the shape of one array, as [1,3,224,224]."""
    from tpuc_npz.arrays import load, named

    app.result(f"[{','.join(map(str, named(load(file), name, file).shape))}]")


@command.command("statistic")
@click.argument("file", metavar="FILE.npz", type=FILE)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@pass_app
def statistic(app: App, file: Path, as_json: bool) -> None:
    """Show minimum, maximum, mean, and other figures of every array."""
    from tpuc_npz.arrays import load, statistics

    found = {name: statistics(array) for name, array in load(file).items()}
    if as_json:
        app.result_json(found)
        return
    figures = ("min", "max", "mean", "std", "absmax")
    counts = ("zeros", "nan", "inf")
    rows = [["name", "shape", "dtype", *figures, *counts]]
    for name, one in found.items():
        shown = [f"{one[figure]:.6g}" if figure in one else "-" for figure in figures]
        rows.append([name, "x".join(map(str, one["shape"])), one["dtype"], *shown, *(str(one[key]) for key in counts)])
    app.table(rows)


@command.command("check-nan-inf")
@click.argument("file", metavar="FILE.npz", type=FILE)
@pass_app
def check_nan_inf(app: App, file: Path) -> int:
    """List arrays with NaN or infinite values; exit code 1 if there are any."""
    from tpuc_npz.arrays import load, not_finite

    bad = {name: counts for name, array in load(file).items() if any((counts := not_finite(array)).values())}
    for name, counts in bad.items():
        app.result(f"{name}: {counts['nan']} NaN, {counts['inf']} infinite")
    if not bad:
        app.result("all values are finite")
    return FAILED if bad else 0


# Comparing


@command.command("compare")
@click.argument("target", metavar="TARGET.npz", type=FILE)
@click.argument("reference", metavar="REFERENCE.npz", type=FILE)
@click.option(
    "--tolerance", type=NUMBERS, default="0.99,0.99", show_default=True, help="Minimum cosine and Euclidean similarity."
)
@click.option("--excepts", type=NAMES, default=(), help="Arrays to leave out: conv1,relu2.")
@click.option("--save", type=OUTPUT, metavar="FILE.csv", help="Write the table there too.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@pass_app
def compare(
    app: App,
    target: Path,
    reference: Path,
    tolerance: tuple[float, ...],
    excepts: tuple[str, ...],
    save: Path | None,
    as_json: bool,
) -> int:
    """Compare arrays of the same name; exit code 1 if one is not similar enough."""
    from tpuc_npz.arrays import load
    from tpuc_npz.comparison import compared

    if len(tolerance) != 2:
        raise UsageError(f"--tolerance takes two numbers, cosine and euclidean; {len(tolerance)} were given.")
    if save is not None:
        check_writable(save)
    found = compared(load(target), load(reference), tolerance, excepts, (target, reference))
    rows = [["name", "verdict", "cosine", "euclidean", "SQNR dB"], *(one.cells() for one in found)]
    if save is not None:
        write_atomic(save, "".join(",".join(row) + "\n" for row in rows))
    failed = [one for one in found if not one.passed]
    if as_json:
        app.result_json({"passed": not failed, "arrays": [one.to_json() for one in found]})
    else:
        app.table(rows)
        app.result(f"{len(found)} compared, {len(failed)} failed")
    return FAILED if failed else 0


@command.command("print-diff")
@click.argument("one", metavar="A.npz", type=FILE)
@click.argument("other", metavar="B.npz", type=FILE)
@click.argument("name")
@click.argument("count", required=False, type=COUNT)
@pass_app
def print_diff(app: App, one: Path, other: Path, name: str, count: int | None) -> None:
    """Show the elements of an array that differ, the largest differences first."""
    from tpuc_npz.arrays import differences, load, named

    found = differences(named(load(one), name, one), named(load(other), name, other))
    rows = [("place", one.name, other.name)]
    rows += [(",".join(map(str, place)), str(a), str(b)) for place, a, b in found[: count or None]]
    app.table(rows)
    app.result(f"{len(found)} differ")


# Changing


@command.command("extract")
@click.argument("file", metavar="FILE.npz", type=FILE)
@click.argument("target", metavar="TARGET.npz", type=OUTPUT)
@click.argument("names", type=NAMES)
def extract(file: Path, target: Path, names: tuple[str, ...]) -> None:
    """Write some arrays to another file: NAMES are a,b,c."""
    from tpuc_npz.arrays import extracted

    _change(file, target, lambda arrays: extracted(arrays, names, file))


@command.command("remove")
@click.argument("file", metavar="FILE.npz", type=FILE)
@click.argument("names", type=NAMES)
def remove(file: Path, names: tuple[str, ...]) -> None:
    """Remove arrays from a file: NAMES are a,b,c."""
    from tpuc_npz.arrays import removed

    _change(file, file, lambda arrays: removed(arrays, names, file))


@command.command("insert")
@click.argument("source", metavar="SOURCE.npz", type=FILE)
@click.argument("file", metavar="FILE.npz", type=FILE)
def insert(source: Path, file: Path) -> None:
    """Add the arrays of SOURCE to FILE."""
    from tpuc_npz.arrays import load, merged

    _change(file, file, lambda arrays: merged(arrays, load(source), (file, source)))


@command.command("merge")
@click.argument("files", metavar="FILE.npz FILE.npz... TARGET.npz", nargs=-1, type=FILE)
def merge(files: tuple[Path, ...]) -> None:
    """Write the arrays of all files but the last to the last."""
    from functools import reduce

    from tpuc_npz.arrays import load, merged

    if len(files) < 3:
        raise UsageError("merge takes two or more input files and the output file, as in: a.npz b.npz both.npz.")
    *sources, target = files
    check_output("merge", target, sources)
    _change(
        sources[0],
        target,
        lambda first: reduce(lambda one, path: merged(one, load(path), (sources[0], path)), sources[1:], first),
    )


@command.command("rename")
@click.argument("file", metavar="FILE.npz", type=FILE)
@click.argument("old")
@click.argument("new")
def rename(file: Path, old: str, new: str) -> None:
    """Give an array another name."""
    from tpuc_npz.arrays import renamed

    _change(file, file, lambda arrays: renamed(arrays, old, new, file))


@command.command("reshape")
@click.argument("file", metavar="FILE.npz", type=FILE)
@click.argument("name")
@click.argument("shape", type=INTEGERS)
def reshape(file: Path, name: str, shape: tuple[int, ...]) -> None:
    """Give an array another SHAPE: 4,5,1."""
    from tpuc_npz.arrays import reshaped

    _change(file, file, lambda arrays: reshaped(arrays, name, shape, file))


@command.command("permute")
@click.argument("file", metavar="FILE.npz", type=FILE)
@click.argument("what", metavar="[NAME] ORDER", nargs=-1)
def permute(file: Path, what: tuple[str, ...]) -> None:
    """Permute the axes of an array, or of all, to ORDER: 0,2,1,3."""
    from tpuc_npz.arrays import permuted

    if not 1 <= len(what) <= 2:
        raise UsageError(
            "permute takes a file, optionally the name of one array, and an order, as in: in.npz x 0,2,1,3."
        )
    order = tuple(INTEGERS.convert(what[-1], None, None))
    name = what[0] if len(what) == 2 else None
    _change(file, file, lambda arrays: permuted(arrays, name, order, file))


def _conversion(name: str, summary: str, change: Callable[[Arrays], Arrays]) -> None:
    def convert(file: Path, target: Path) -> None:
        _change(file, target, change)

    convert.__doc__ = summary
    for argument in (("target", "TARGET.npz"), ("file", "FILE.npz")):
        convert = click.argument(argument[0], metavar=argument[1], type=FILE)(convert)
    command.command(name)(convert)


def _to_float32(stored: str) -> Callable[[Arrays], Arrays]:
    def change(arrays: Arrays) -> Arrays:
        from tpuc_npz.arrays import to_float32

        return to_float32(arrays, stored)

    return change


def _from_float32(stored: str) -> Callable[[Arrays], Arrays]:
    def change(arrays: Arrays) -> Arrays:
        from tpuc_npz.arrays import from_float32

        return from_float32(arrays, stored)

    return change


_conversion("bf16-to-fp32", "Convert raw bfloat16 arrays (16 bits) to float32.", _to_float32("bf16"))
_conversion("fp16-to-fp32", "Convert float16 arrays, also raw ones (16 bits), to float32.", _to_float32("fp16"))
_conversion("fp32-to-bf16", "Convert float32 arrays to raw bfloat16, ties to even.", _from_float32("bf16"))
_conversion("fp32-to-fp16", "Convert float32 arrays to float16, ties to even.", _from_float32("fp16"))


# Other formats


@command.command("to-dat")
@click.argument("file", metavar="FILE.npz", type=FILE)
@click.argument("target", metavar="TARGET.dat", type=OUTPUT)
def to_dat(file: Path, target: Path) -> None:
    """Write the values of all arrays, concatenated in file order."""
    from tpuc_npz.arrays import load, raw_bytes

    check_writable(target)
    write_atomic(target, b"".join(raw_bytes(array, None) for array in load(file).values()))


@command.command("to-bin")
@click.argument("file", metavar="FILE.npz", type=FILE)
@click.argument("name")
@click.argument("target", metavar="TARGET.bin", type=OUTPUT)
@click.argument("kind", metavar=f"[{'|'.join(KINDS)}]", required=False, type=click.Choice(KINDS))
def to_bin(file: Path, name: str, target: Path, kind: str | None) -> None:
    """Write the values of one array, unchanged or as another type."""
    from tpuc_npz.arrays import load, named, raw_bytes

    check_writable(target)
    write_atomic(target, raw_bytes(named(load(file), name, file), kind))


@command.command("to-npy")
@click.argument("file", metavar="FILE.npz", type=FILE)
@click.argument("name")
@click.option("-o", "--output", type=OUTPUT, metavar="FILE.npy", help="File to write; NAME.npy by default.")
@pass_app
def to_npy(app: App, file: Path, name: str, output: Path | None) -> None:
    """Write one array as an npy file."""
    import numpy as np

    from tpuc_npz.arrays import load, named

    array = named(load(file), name, file)
    target = output if output is not None else Path(f"{file_stem(name)}.npy")

    def fill(stream: Any) -> None:
        np.lib.format.write_array(stream, np.ascontiguousarray(array), allow_pickle=False)

    write_atomic(target, fill)
    app.remark(f"{target} written")
