"""Write an example application for a planned program; it reads inputs from standard input and writes outputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tpuc_plan.usmp.c_source import (
    alignment_of,
    given_pools,
    identifier,
    initial_data,
    model_identifier,
    size_macro,
    tensor_identifiers,
)
from tpuc_plan.usmp.planner import PlacedProgram
from tpuc_plan.usmp.pools import PARAMETER, WORKSPACE


def example(placed: PlacedProgram) -> str:
    """Return the file `main.c`. It reads one sample after the other, each with all inputs in order, in their memory
    layout.
    """
    return "\n".join(_lines(placed)) + "\n"


def _lines(placed: PlacedProgram) -> Iterator[str]:
    program, names = placed.program, tensor_identifiers(placed.program)
    model = model_identifier(program.name)
    yield "/* Reads samples from standard input and writes outputs to standard output, as they lie in memory. */"
    yield "#ifndef ARDUINO /* where sketches have a program of their own */"
    yield "#include <stdio.h>"
    yield f'#include "{model}_metadata.h"'
    yield ""
    for name in (*program.inputs, *program.outputs):
        size = program.tensor(name).size_bytes or 1
        yield f"static TVM_ALIGNED({program.alignment}) uint8_t data_{names[name]}[{size}];"
    for pool in given_pools(placed, WORKSPACE):
        macro = size_macro(program.name, pool.name, WORKSPACE)
        aligned = f"TVM_ALIGNED({alignment_of(placed, WORKSPACE, pool.name)})"
        yield f"static {aligned} uint8_t {identifier(pool.name)}_memory[{macro} > 0 ? {macro} : 1];"
    yield ""
    yield "static int read_all(uint8_t* data, size_t size) { return fread(data, 1, size, stdin) == size; }"
    yield ""
    yield "static int write_all(const uint8_t* data, size_t size) { return fwrite(data, 1, size, stdout) == size; }"
    yield ""
    yield "int main(void) {"
    yield "  TVMContext context = {NULL, NULL, NULL};"
    yield f"  TVMInputs_{model} inputs = {{{_members(program.inputs, names)}}};"
    yield f"  TVMOutputs_{model} outputs = {{{_members(program.outputs, names)}}};"
    yield from _pools(placed)
    reads = " && ".join(f"read_all(data_{names[n]}, sizeof data_{names[n]})" for n in program.inputs)
    yield f"  while ({reads or '0'}) {{"
    yield f"    if (TVMExecute(&{model}, &inputs, &outputs, &context) != 0) return 1;"
    for name in program.outputs:
        yield f"    if (!write_all(data_{names[name]}, sizeof data_{names[name]})) return 2;"
    yield "  }"
    yield "  return 0;"
    yield "}"
    yield "#endif"


def _members(ends: Sequence[str], names: Mapping[str, str]) -> str:
    return ", ".join(f".{names[name]} = data_{names[name]}" for name in ends)


def _pools(placed: PlacedProgram) -> Iterator[str]:
    model = model_identifier(placed.program.name)
    workspaces, parameters = given_pools(placed, WORKSPACE), given_pools(placed, PARAMETER)
    if workspaces:
        members = ", ".join(f".{identifier(pool.name)} = {identifier(pool.name)}_memory" for pool in workspaces)
        yield f"  TVMWorkspaces_{model} workspaces = {{{members}}};"
        yield "  TVMSetWorkspaces(&context, &workspaces);"
    if parameters:
        members = ", ".join(f".{identifier(pool.name)} = {initial_data(model, pool.name)}" for pool in parameters)
        yield f"  TVMParameters_{model} parameters = {{{members}}};"
        yield "  TVMSetParameters(&context, &parameters);"
