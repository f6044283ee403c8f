"""Assemble the output folder: operators in C, the library code they use, and build files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tpuc.api import FunctionCall, FunctionProgram

from tpuc_c.description import DESCRIPTION, description_of, tensor_to_json
from tpuc_c.layouts import arranged
from tpuc_c.network_header import network_header, state_definitions
from tpuc_c.text import C_TYPES, c_type

LIBRARY = Path(__file__).with_name("library")
BASE = "tpuc_math.h"


def project_files(program: FunctionProgram, layout: str = "") -> dict[str, bytes]:
    """Every file, by name."""
    headers = sorted({BASE, *(name for call in program.calls for name in call.routine.library)})
    code = dict(program.files) | {name: (LIBRARY / name).read_text(encoding="utf-8") for name in headers}
    code[f"{program.identifier}_operators.c"] = "\n".join(_operators(program, headers)) + "\n"
    code[f"{program.identifier}_network.h"] = network_header(program)
    files = {name: text.encode("utf-8") for name, text in arranged(layout, program, code).items()}
    fields = {
        "name": program.name,
        "identifier": program.identifier,
        "inputs": [tensor_to_json(info) for info in program.inputs],
        "outputs": [tensor_to_json(info) for info in program.outputs],
        **({"states": [[one.input, one.output] for one in program.states]} if program.states else {}),
        "workspace_bytes": program.workspace_bytes,
        "parameter_bytes": program.parameter_bytes,
        "operators": [{"name": call.view.node.name, "function": call.function} for call in program.calls],
    }
    return {**files, DESCRIPTION: description_of(fields, files)}


def _operators(program: FunctionProgram, headers: list[str]) -> Iterator[str]:
    yield f"/* The operators of model '{_plain(program.name)}'. */"
    for name in headers:
        yield f'#include "{name}"'
    for call in program.calls:
        yield ""
        yield from _function(call)
    if program.states:
        yield from state_definitions(program)


def _function(call: FunctionCall) -> Iterator[str]:
    parameters = ", ".join([*(f"void* p{number}" for number in range(call.parameters)), "void* resource_handle"])
    yield f"/* {_plain(call.view.node.op.name)} '{_plain(call.view.node.name)}' */"
    yield f"int32_t {call.function}({parameters});"
    yield f"int32_t {call.function}({parameters}) {{"
    for declaration, name in _pointers(call):
        yield f"  {declaration}"
        yield f"  (void){name};"
    yield "  (void)resource_handle;"
    yield from (f"  {line}" for line in call.routine.body.splitlines())
    yield "  return 0;"
    yield "}"


def _pointers(call: FunctionCall) -> Iterator[tuple[str, str]]:
    """A declaration for each tensor under the name that the routine uses, and that name."""
    for index, (position, type) in enumerate(zip(call.operands, call.view.node.operand_types, strict=True)):
        if position is not None:
            yield f"const {c_type(type.storage)}* const x{index} = p{position};", f"x{index}"
    for index, (position, type) in enumerate(zip(call.results, call.view.node.result_types, strict=True)):
        yield f"{c_type(type.storage)}* const y{index} = p{position};", f"y{index}"
    for index, (position, array) in enumerate(zip(call.constants, call.routine.constants, strict=True)):
        yield f"const {C_TYPES[array.dtype.name]}* const k{index} = p{position};", f"k{index}"
    for index, (position, memory) in enumerate(zip(call.scratch, call.routine.scratch, strict=True)):
        yield f"{memory.element}* const s{index} = p{position};", f"s{index}"


def _plain(text: str) -> str:
    """Replace characters that are not allowed inside a comment."""
    return "".join(letter if letter.isascii() and (letter.isalnum() or letter in "_ .:-") else "_" for letter in text)
