"""How long a module of 20,000 ops takes to print and to parse: `python benchmarks/ir_text.py [--ops N]`."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from tpuc.api import F64, I64, Bool, F64Array, I64Array, Op, RoundMode
from tpuc.ir.attributes import IntegerAttr, StringAttr
from tpuc.ir.builtin import Return
from tpuc.ir.operation import Block, Function, Location, Module, Operation
from tpuc.ir.text import parse_module, print_module
from tpuc.ir.types import F32, SI8, FunctionType, ScalarType, TensorType, Uniform
from tpuc_testing.equality import same_module

T = TypeVar("T")


@dataclass(frozen=True)
class Weight(Op):
    name = "bench.Weight"


@dataclass(frozen=True)
class Conv(Op):
    name = "bench.Conv"
    kernel_shape: I64Array
    multiplier: I64Array
    strides: I64Array = (1, 1)
    pads: I64Array = (1, 1, 1, 1)
    dilations: I64Array = (1, 1)
    group: I64 = 1
    do_relu: Bool = False
    relu_limit: F64 = -1.0
    scales: F64Array = ()
    round_mode: RoundMode = "HalfUp"


OPS: dict[str, type[Op]] = {Weight.name: Weight, Conv.name: Conv}


def chain(count: int) -> Module:
    """A quantized chain in which every op has attributes, addresses, scales and a name of its own."""
    plain = TensorType((1, 16, 32, 32), F32)
    body = Block([plain])
    value = body.arguments[0]
    for index in range(count // 2):
        address = IntegerAttr(4294967296 + 4096 * index)
        weight_type = TensorType((16, 16, 3, 3), SI8, address)
        weight = body.append(Operation(Weight(), (), (weight_type,), Location((f"weight_{index}",))))
        element = Uniform(ScalarType("i8"), F32, 0.01 + index / 7919)
        result = TensorType((1, 16, 32, 32), element, address)
        op = Conv((3, 3), (1073741824 + index,), scales=(1.5, index / 3))
        extra = {"path": StringAttr(f"layer {index}")} if index % 4 == 0 else None
        value = body.append(
            Operation(op, (value, weight.result), (result,), Location((f"conv_{index}",)), extra)
        ).result
    body.append(Operation(Return(), (value,)))
    function = Function("main", FunctionType((plain,), (value.type,)), body)
    return Module("bench", {"module.chip": StringAttr("ALL")}, [function])


def best_of(runs: int, work: Callable[[], T]) -> tuple[float, T]:
    """The shortest time of several runs, and the result."""
    times: list[float] = []
    for _ in range(runs):
        start = time.perf_counter()
        result = work()
        times.append(time.perf_counter() - start)
    return min(times), result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ops", type=int, default=20_000)
    count: int = parser.parse_args().ops
    module = chain(count)
    printing, text = best_of(3, lambda: print_module(module))
    parsing, parsed = best_of(3, lambda: parse_module(text, OPS.get))
    foreign, _ = best_of(3, lambda: parse_module(text, lambda _: None))
    cloning, _ = best_of(3, module.clone)
    verifying, _ = best_of(3, module.verify)
    assert same_module(module, parsed)
    print(f"{count} ops, {len(text) / 1e6:.1f} MB of text")
    print(f"print                  {printing:6.3f} s")
    print(f"parse                  {parsing:6.3f} s")
    print(f"parse, ops not known   {foreign:6.3f} s")
    print(f"clone                  {cloning:6.3f} s")
    print(f"verify                 {verifying:6.3f} s")


if __name__ == "__main__":
    main()
