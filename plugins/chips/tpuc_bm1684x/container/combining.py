"""Combine several networks or input shapes in one `.bmodel`, and extract them again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import BinaryIO

from tpuc.api import Unsupported, UsageError
from tpuc_chip_parts.flatbuffer import check_rewritable

from tpuc_bm1684x.container.model import CHIP, BModel, ModelWriter, Net, Stage


def stages(model: BModel) -> Iterator[tuple[Net, int]]:
    """Each network with the index of each of its sets of shapes, in file order."""
    return ((net, number) for net in model.nets for number in range(len(net.stages)))


def combine(files: Sequence[bytes], chip: str = CHIP) -> bytes:
    """Write one file with the networks of all files. Networks with the same name become one network with several sets
    of shapes.

    Raises UsageError for two networks with the same name and shapes, Unsupported for files from another compiler.
    """
    nets: dict[str, Net] = {}
    models = [_own(data, chip) for data in files]
    for net in (net for model in models for net in model.nets):
        before = nets.get(net.name, replace(net, stages=()))
        _check(before, net)
        nets[net.name] = replace(before, stages=_largest_first((*before.stages, *net.stages)))
    return replace(models[0], nets=tuple(nets.values())).to_bytes()


def combine_parts(files: Iterable[bytes], rest: BinaryIO, chip: str = CHIP) -> bytes:
    """Write the sections of all files, taken one after another, to `rest`, and return what stands before them: together
    the bytes of `combine`. Sets of shapes of one network come one after another.

    Raises UsageError for two networks with the same name and shapes, or the same name with others in between.
    """
    writer, shell, seen = ModelWriter(rest), BModel(()), set[str]()

    def nets() -> Iterator[Net]:
        nonlocal shell
        for data in files:
            model = BModel.from_bytes(data, chip)
            shell = replace(model, nets=())
            yield from model.nets

    for name, group in groupby(nets(), lambda net: net.name):
        if name in seen:
            raise UsageError(f"two networks have the name '{name}'; compile one of them under another name.")
        seen.add(name)
        whole, *others = group
        for net in others:
            _check(whole, net)
            whole = replace(whole, stages=_largest_first((*whole.stages, *net.stages)))
        writer.add(whole)
    return writer.start(shell)


def extract(data: bytes, chip: str = CHIP) -> list[tuple[str, bytes]]:
    """One file per network and set of shapes, each with the network's name."""
    model = _own(data, chip)
    return [
        (net.name, replace(model, nets=(replace(net, stages=(net.stages[number],)),)).to_bytes())
        for net, number in stages(model)
    ]


def _own(data: bytes, chip: str) -> BModel:
    """Read a file written by this compiler; raises Unsupported for other files, which could not be rewritten
    without loss.
    """
    model = BModel.from_bytes(data, chip)
    check_rewritable(model.to_bytes, data)
    return model


def _check(before: Net, net: Net) -> None:
    if before.address_mode != net.address_mode:
        raise Unsupported(f"network '{net.name}' has two address modes; compile it again")
    known = {tuple(tensor.shape for tensor in stage.inputs) for stage in before.stages}
    for stage in net.stages:
        shapes = tuple(tensor.shape for tensor in stage.inputs)
        if shapes in known:
            listed = ", ".join("x".join(map(str, shape)) for shape in shapes)
            raise UsageError(
                f"two networks have the name '{net.name}' and the input shapes {listed}; compile one of "
                "them under another name."
            )


def _largest_first(found: Sequence[Stage]) -> tuple[Stage, ...]:
    """Sort stages by memory, largest first: the vendor's runtime allocates memory for the first set of shapes and uses
    it for all.
    """
    return tuple(sorted(found, key=lambda stage: (stage.context_bytes, _given(stage)), reverse=True))


def _given(stage: Stage) -> int:
    """Total bytes of the inputs."""
    return sum(tensor.bytes for tensor in stage.inputs)
