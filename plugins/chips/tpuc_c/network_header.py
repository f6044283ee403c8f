"""Write the header for applications: a function with typed pointers, and macros that describe inputs and outputs."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Sequence

import numpy as np
from tpuc.api import FunctionProgram, TensorInfo, TensorType, Uniform, free_name
from tpuc.api.boundary import first_value

from tpuc_c.text import c_type


def network_header(program: FunctionProgram) -> str:
    """The text of `NAME_network.h`."""
    return "\n".join(_lines(program)) + "\n"


def ends(program: FunctionProgram) -> tuple[list[TensorInfo], list[TensorInfo]]:
    """The inputs and outputs that applications see: those that are no states."""
    taken, given = ({getattr(state, kind) for state in program.states} for kind in ("input", "output"))
    return [one for one in program.inputs if one.name not in taken], [
        one for one in program.outputs if one.name not in given
    ]


def end_names(program: FunctionProgram) -> list[str]:
    """The C names of all inputs, then of all outputs."""
    model, (inputs, outputs) = program.identifier, ends(program)
    return _names([*inputs, *outputs], {model, f"{model}_run"})


def example_name(program: FunctionProgram) -> str:
    """The name of the folder with an example, cut to 24 letters: paths in archives have at most 100 letters."""
    return program.identifier[:24]


def _lines(program: FunctionProgram) -> Iterator[str]:
    model, guard = program.identifier, f"{program.identifier.upper()}_NETWORK_H"
    names, (given, taken) = end_names(program), ends(program)
    inputs, outputs = names[: len(given)], names[len(given) :]
    yield f"/* The network '{_plain(program.name)}' for applications in C and C++. */"
    yield f"#ifndef {guard}"
    yield f"#define {guard}"
    yield ""
    yield f'#include "{model}_metadata.h"'
    for kind, infos, own in (("Input", given, inputs), ("Output", taken, outputs)):
        for info, name in zip(infos, own, strict=True):
            yield ""
            yield from _macros(kind, info, f"{model}_{name}".upper())
    yield ""
    yield from ("#ifdef __cplusplus", 'extern "C" {', "#endif")
    yield ""
    parameters = [
        *(f"const {element_type(info)}* {name}" for info, name in zip(given, inputs, strict=True)),
        *(f"{element_type(info)}* {name}" for info, name in zip(taken, outputs, strict=True)),
        "const TVMContext* context",
    ]
    if program.states:
        yield from state_declarations(program)
    yield "/* Runs it once: 0, or what failed. Without pools of its own the application gives NULL as context. */"
    yield f"static inline int32_t {model}_run({', '.join(parameters)}) {{"
    called = {id(info): name for info, name in zip([*given, *taken], names, strict=True)}
    for index, state in enumerate(program.states):
        (came,), (goes,) = (
            [one for one in infos if one.name == name]
            for infos, name in ((program.inputs, state.input), (program.outputs, state.output))
        )
        called |= {id(came): f"{model}_state{index}", id(goes): f"{model}_next{index}"}
    for kind, infos in (("Inputs", program.inputs), ("Outputs", program.outputs)):
        pointers = ", ".join(f"(uint8_t*){called[id(one)]}" for one in infos) or "0"
        yield f"  const TVM{kind}_{model} {'given' if kind == 'Inputs' else 'taken'} = {{{pointers}}};"
    if program.states:
        yield f"  {model}_begin();"
        yield f"  return {model}_end(TVMExecute(&{model}, &given, &taken, context));"
    else:
        yield f"  return TVMExecute(&{model}, &given, &taken, context);"
    yield "}"
    yield ""
    yield from ("#ifdef __cplusplus", "}", "#endif")
    yield ""
    yield "#endif"


def state_declarations(program: FunctionProgram) -> Iterator[str]:
    """What the operators define to keep states: two buffers for each, and functions around a run."""
    model = program.identifier
    for index, (_, info) in enumerate(kept(program)):
        size = max(math.prod(info.shape), 1)
        yield f"extern {element_type(info)} {model}_state{index}[{size}], {model}_next{index}[{size}];"
    yield f"void {model}_begin(void);"
    yield f"int32_t {model}_end(int32_t failed);"
    yield "/* Forgets all states: the next run is the first one again. */"
    yield f"void {model}_reset(void);"
    yield ""


def state_definitions(program: FunctionProgram) -> Iterator[str]:
    """The same for the operators' file."""
    model = program.identifier
    yield ""
    yield "/* States: what a run leaves for the next one. A run that fails leaves them as they were. */"
    yield "#include <string.h>"
    yield from state_declarations(program)
    yield f"static int32_t {model}_has_begun = 0;"
    for index, (_, info) in enumerate(kept(program)):
        size = max(math.prod(info.shape), 1)
        yield f"{element_type(info)} {model}_state{index}[{size}], {model}_next{index}[{size}];"
    yield f"void {model}_reset(void) {{"
    for index, (first, info) in enumerate(kept(program)):
        place = f"{model}_state{index}"
        yield f"  for (int32_t i = 0; i < {max(math.prod(info.shape), 1)}; ++i) {place}[i] = {first};"
    yield f"  {model}_has_begun = 1;"
    yield "}"
    yield f"void {model}_begin(void) {{"
    yield f"  if (!{model}_has_begun) {model}_reset();"
    yield "}"
    yield f"int32_t {model}_end(int32_t failed) {{"
    yield "  if (failed != 0) return failed;"
    for index in range(len(program.states)):
        yield f"  memcpy({model}_state{index}, {model}_next{index}, sizeof {model}_state{index});"
    yield "  return 0;"
    yield "}"


def kept(program: FunctionProgram) -> Iterator[tuple[int, TensorInfo]]:
    """What each state is before the first run, and its input."""
    inputs = {info.name: info for info in program.inputs}
    for state in program.states:
        info = inputs[state.input]
        yield first_value(TensorType(info.shape, info.element)), info


def _macros(kind: str, info: TensorInfo, prefix: str) -> Iterator[str]:
    extents = " x ".join(map(str, info.shape)) or "one value"
    yield f"/* {kind} '{_plain(info.name)}', {extents}{_meaning(info)}. */"
    yield f"#define {prefix}_RANK {len(info.shape)}"
    if info.shape:
        yield f"#define {prefix}_SHAPE {{{', '.join(map(str, info.shape))}}}"
    yield f"#define {prefix}_SIZE {math.prod(info.shape)}"
    if isinstance(info.element, Uniform):
        yield f"#define {prefix}_SCALE {_decimal(info.element.scale)}"
        yield f"#define {prefix}_ZERO_POINT {info.element.zero_point}"


def _decimal(value: float) -> str:
    """A float32 literal without loss; C++ before 2017 has no hexadecimal ones."""
    text = f"{float(np.float32(value)):.9g}"
    return f"{text}f" if "." in text or "e" in text else f"{text}.0f"


def _meaning(info: TensorInfo) -> str:
    is_stored = isinstance(info.element, Uniform)
    return ": value = (stored - ZERO_POINT) * SCALE" if is_stored else ""


def element_type(info: TensorInfo) -> str:
    """The C type of an input's or output's elements."""
    found = c_type(TensorType(info.shape, info.element).storage)
    assert found is not None, "functions have no such inputs or outputs"
    return found


def _names(infos: Sequence[TensorInfo], others: Collection[str]) -> list[str]:
    """C identifiers that differ even when case is ignored, and that are neither C keywords nor in `others`."""
    words, names = {*_WORDS.split(), *others}, list[str]()
    for info in infos:
        word = re.sub(r"\W", "_", info.name, flags=re.ASCII)
        word = word if word[:1].isalpha() else f"t{word}"
        word = f"{word}_" if word in words else word
        taken = {name.upper() for name in names}
        names.append(free_name(word, lambda one, taken=taken: one.upper() in taken))
    return names


_WORDS = (
    "alignas alignof and and_eq asm auto bitand bitor bool break case catch char class compl const constexpr continue "
    "default delete do double else enum explicit export extern false float for friend goto if inline int long mutable "
    "namespace new not not_eq nullptr operator or or_eq private protected public register restrict return short signed "
    "sizeof static struct switch template this throw true try typedef typeid typename union unsigned using virtual "
    "void volatile while xor xor_eq context given taken NULL TVMContext TVMExecute"
)
"""Keywords of C and C++, and names used in the function."""


def _plain(text: str) -> str:
    """Replace characters that are not allowed inside a comment."""
    return re.sub(r"[^\w .:-]|\*/|/\*", "_", text, flags=re.ASCII)
