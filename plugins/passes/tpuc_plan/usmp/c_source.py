"""Write a planned program as C: sizes and structs in a header, calls with offsets in a source file."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence

from tpuc.api import MemoryPlan, PlannedPool, PoolInfo, free_name

from tpuc_plan.usmp.planner import DEFAULT_POOLS, PlacedProgram, Program, ProgramTensor
from tpuc_plan.usmp.pools import PARAMETER, WORKSPACE

RUNTIME_HEADER = """\
/* What generated models and applications share. */
#ifndef TVM_STATIC_RUNTIME_H
#define TVM_STATIC_RUNTIME_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define TVM_ALIGNED(bytes) __attribute__((aligned(bytes)))
#define TVM_SECTION(name) __attribute__((section(name)))
#else
#define TVM_ALIGNED(bytes)
#define TVM_SECTION(name)
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
  void* resource_handle;
  const void* workspaces;
  const void* parameters;
} TVMContext;

typedef struct {
  const char* name;
  int32_t (*entrypoint)(const void* inputs, const void* outputs, const TVMContext* context);
} TVMModel;

static inline void TVMSetWorkspaces(TVMContext* context, const void* workspaces) {
  context->workspaces = workspaces;
}

static inline void TVMSetParameters(TVMContext* context, const void* parameters) {
  context->parameters = parameters;
}

static inline int32_t TVMExecute(const TVMModel* model, const void* inputs, const void* outputs,
                                 const TVMContext* context) {
  return model->entrypoint(inputs, outputs, context);
}

#ifdef __cplusplus
}
#endif

#endif
"""


KEYWORDS = (
    "auto bool break case char const continue default do double else enum extern false float for goto if inline int "
    "long register restrict return short signed sizeof static struct switch true typedef union unsigned void volatile "
    "while "
    "alignas alignof and and_eq asm bitand bitor catch class compl constexpr delete explicit export friend mutable "
    "namespace new not not_eq nullptr operator or or_eq private protected public template this throw try typeid "
    "typename using virtual xor xor_eq"
)
"""Keywords of C, and of C++, which includes the headers too."""
LIBRARY = (
    "abort abs acos acosh asin asinh atan atan2 atanh atexit calloc cbrt ceil copysign cos cosh div erf erfc exit exp "
    "exp2 expm1 fabs fclose fdim fflush floor fma fmax fmin fmod fopen fputc fread free frexp fseek fwrite getc hypot "
    "index isalpha isdigit isfinite isinf isnan labs ldexp lgamma log log10 log1p log2 logb lrint lround main malloc "
    "memchr memcmp memcpy memmove memset modf nan nearbyint nextafter pow printf putc puts rand realloc remainder rint "
    "round scalbn signbit sin sinh sqrt srand stderr stdin stdout strcat strchr strcmp strcpy strlen strncmp strstr "
    "system tan tanh tgamma time trunc"
)
"""Function and variable names of the C library, or of the example program."""
MOST_LETTERS = 80
"""Maximum length of a model's name in C: file names contain it, and archives allow names of at most 100 letters."""


def identifier(text: str) -> str:
    """Return a C identifier for any name."""
    name = re.sub(r"\W", "_", text, flags=re.ASCII)
    if name in KEYWORDS.split():
        return f"{name}_"
    return name if name and not name[0].isdigit() else f"_{name}"


def tensor_identifiers(program: Program) -> dict[str, str]:
    """Return a unique C identifier for every tensor that the source names, also unique without regard to case."""
    dynamic = sorted(tensor.name for tensor in program.tensors.values() if tensor.size_bytes is None)
    names: dict[str, str] = {}
    taken = set[str]()
    for name in dict.fromkeys((*program.inputs, *program.outputs, *dynamic)):
        names[name] = free_name(identifier(name), taken.__contains__)
        taken |= {names[name], f"{names[name]}_size"}
    return names


def model_identifier(text: str) -> str:
    """Return a C identifier for a model's name, which is also a variable and part of file names."""
    name = identifier(text)
    if len(name) > MOST_LETTERS:
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
        return f"{name[: MOST_LETTERS - 9]}_{digest}"
    return f"{name}_" if name in LIBRARY.split() else name


def c_files(placed: PlacedProgram) -> dict[str, str]:
    """Return the files by name: the common header, `<model>_metadata.h`, and `<model>_lib0.c`."""
    model = model_identifier(placed.program.name)
    return {
        "tvm_static_runtime.h": RUNTIME_HEADER,
        f"{model}_metadata.h": "\n".join(_header(placed)) + "\n",
        f"{model}_lib0.c": "\n".join(_source(placed)) + "\n",
    }


def _pools(placed: PlacedProgram, kind: str) -> tuple[PoolInfo, ...]:
    return placed.pools.workspace if kind == WORKSPACE else placed.pools.parameter


def _holds(placed: PlacedProgram, kind: str, pool: str) -> bool:
    """True if the generated source contains the memory: the user named no pools of this kind, or a section for
    this one.
    """
    named = _pools(placed, kind)
    if named in (DEFAULT_POOLS.workspace, DEFAULT_POOLS.parameter):
        return True
    return any(one.section is not None for one in named if one.name == pool)


def given_pools(placed: PlacedProgram, kind: str) -> list[PlannedPool]:
    """Return the pools of a kind whose memory the application provides."""
    plan = placed.workspace if kind == WORKSPACE else placed.parameter
    return [pool for pool in plan.pools if not _holds(placed, kind, pool.name)]


def alignment_of(placed: PlacedProgram, kind: str, pool: str) -> int:
    """Return the alignment in bytes that the memory of a pool needs."""
    return max([placed.program.alignment, *(one.alignment for one in _pools(placed, kind) if one.name == pool)])


def _plans(placed: PlacedProgram) -> tuple[tuple[str, MemoryPlan], ...]:
    return (WORKSPACE, placed.workspace), (PARAMETER, placed.parameter)


def size_macro(model: str, pool: str, kind: str) -> str:
    """Return the name of the macro for the size of a pool in bytes."""
    return f"TVM_{identifier(model).upper()}_{identifier(pool).upper()}_{kind.upper()}_BUFFER_SIZE"


def _header(placed: PlacedProgram) -> Iterator[str]:
    program = placed.program
    model = model_identifier(program.name)
    guard = f"TVM_{model.upper()}_METADATA_H"
    yield f"/* Memory of model '{_plain(program.name)}'. */"
    yield f"#ifndef {guard}"
    yield f"#define {guard}"
    yield ""
    yield '#include "tvm_static_runtime.h"'
    yield ""
    yield from ("#ifdef __cplusplus", 'extern "C" {', "#endif")
    for kind, plan in _plans(placed):
        yield ""
        for pool in plan.pools:
            yield f"#define {size_macro(program.name, pool.name, kind)} {pool.peak_bytes}"
    for kind, plan in _plans(placed):
        given = given_pools(placed, kind)
        if given or not plan.pools:
            constant = "const " if kind == PARAMETER else ""
            members = [f"{constant}uint8_t* {identifier(pool.name)};" for pool in given]
            yield from _struct(f"TVM{kind.capitalize()}s_{model}", members)
    names = tensor_identifiers(program)
    dynamic = [tensor for tensor in program.tensors.values() if tensor.size_bytes is None]
    sizes = [f"size_t {names[tensor.name]}_size;" for tensor in dynamic]
    yield from _struct(f"TVMInputs_{model}", [*(f"uint8_t* {names[name]};" for name in program.inputs), *sizes])
    yield from _struct(f"TVMOutputs_{model}", [f"uint8_t* {names[name]};" for name in program.outputs])
    yield ""
    for pool in given_pools(placed, PARAMETER):
        yield f"extern const uint8_t {initial_data(model, pool.name)}[{max(1, pool.peak_bytes)}];"
    yield f"extern const TVMModel {model};"
    yield ""
    yield from ("#ifdef __cplusplus", "}", "#endif")
    yield ""
    yield "#endif"


def _struct(name: str, members: Sequence[str]) -> Iterator[str]:
    yield ""
    yield "typedef struct {"
    for member in members or ["char unused;"]:
        yield f"  {member}"
    yield f"}} {name};"


def initial_data(model: str, pool: str) -> str:
    """Return the name of a parameter pool's constant data, to be copied or linked to where the user wants it."""
    return f"{model}_{identifier(pool)}_parameter_data"


def _source(placed: PlacedProgram) -> Iterator[str]:
    program = placed.program
    model = model_identifier(program.name)
    yield f"/* Model '{_plain(program.name)}': calls with the places of their buffers. */"
    yield f'#include "{model}_metadata.h"'
    dynamic = {tensor.name for tensor in program.tensors.values() if tensor.size_bytes is None}
    if dynamic:
        yield ""
        yield "/* Only for buffers whose size is known at run time. */"
        yield "extern void* TVMBackendAllocWorkspace(void* resource_handle, size_t size);"
        yield "extern void TVMBackendFreeWorkspace(void* resource_handle, void* memory);"
    yield ""
    yield from _memory(placed)
    yield ""
    for function, call in zip(functions(placed), program.calls, strict=True):
        pointers = ", ".join("void*" for _ in (*call.tensors, "resource_handle"))
        yield f"extern int32_t {function}({pointers});  /* {_plain(call.name)} on {_plain(call.target)} */"
    yield from _main(placed, dynamic)
    yield ""
    yield "static int32_t entrypoint(const void* inputs, const void* outputs, const TVMContext* context) {"
    yield "  static const TVMContext nothing = {NULL, NULL, NULL};"
    yield f"  return {model}_main(inputs, outputs, context ? context : &nothing);"
    yield "}"
    yield ""
    yield f"const TVMModel {model} = {{"
    yield f'  .name = "{_plain(program.name)}",'
    yield "  .entrypoint = &entrypoint,"
    yield "};"


def _memory(placed: PlacedProgram) -> Iterator[str]:
    """Write the constants, and the workspaces that the generated source contains."""
    model = model_identifier(placed.program.name)
    for pool in placed.parameter.pools:
        holds = _holds(placed, PARAMETER, pool.name)
        storage, name = (
            ("static const", f"{_held(pool)}s_buffer") if holds else ("const", initial_data(model, pool.name))
        )
        yield f"{_where(placed, PARAMETER, pool.name)}"
        yield f"{storage} uint8_t {name}[{max(1, pool.peak_bytes)}] = {{"
        yield from _bytes(placed, pool)
        yield "};"
    for pool in placed.workspace.pools:
        if _holds(placed, WORKSPACE, pool.name):
            macro = size_macro(placed.program.name, pool.name, WORKSPACE)
            yield f"{_where(placed, WORKSPACE, pool.name)}"
            yield f"static uint8_t {_held(pool)}_buffer[{macro} > 0 ? {macro} : 1];"


def _held(pool: PlannedPool) -> str:
    """Return the variable name of memory that the generated source contains."""
    return identifier(pool.name).removesuffix("s")


def _where(placed: PlacedProgram, kind: str, pool: str) -> str:
    """Return the C attributes of a pool's memory."""
    section = next((one.section for one in _pools(placed, kind) if one.name == pool), None)
    aligned = f"TVM_ALIGNED({alignment_of(placed, kind, pool)})"
    return aligned if section is None else f'{aligned} TVM_SECTION("{_plain(section)}")'


def functions(placed: PlacedProgram) -> list[str]:
    """Return a C function name for every call."""
    names: list[str] = []
    for number, call in enumerate(placed.program.calls):
        name = f"{identifier(placed.program.name)}_{identifier(call.name)}"
        names.append(free_name(f"{name}_{number}", names.__contains__) if name in names else name)
    return names


def _main(placed: PlacedProgram, dynamic: set[str]) -> Iterator[str]:
    program, names = placed.program, tensor_identifiers(placed.program)
    model = model_identifier(program.name)
    yield ""
    yield f"static int32_t {model}_main(const TVMInputs_{model}* inputs, const TVMOutputs_{model}* outputs,"
    yield "                             const TVMContext* context) {"
    for kind, plan in _plans(placed):
        constant = "const " if kind == PARAMETER else ""
        for pool in plan.pools:
            name = identifier(pool.name)
            if _holds(placed, kind, pool.name):
                value = f"{_held(pool)}_buffer" if kind == WORKSPACE else f"{_held(pool)}s_buffer"
            else:
                value = f"((const TVM{kind.capitalize()}s_{model}*)context->{kind}s)->{name}"
            yield f"  {constant}uint8_t* const {name}_pool = {value};"
            yield f"  (void){name}_pool;"
    yield "  void* const resource_handle = context->resource_handle;"
    yield "  int32_t status = 0;"
    yield "  (void)inputs, (void)outputs;"
    for name in sorted(dynamic - {*program.inputs, *program.outputs}):
        call = f"TVMBackendAllocWorkspace(resource_handle, inputs->{names[name]}_size)"
        yield f"  void* const {names[name]}_dynamic = {call};"
    for function, call in zip(functions(placed), program.calls, strict=True):
        arguments = ",\n        ".join([*(_pointer(placed, name, names) for name in call.tensors), "resource_handle"])
        yield f"  if (status == 0) {{\n    status = {function}(\n        {arguments});\n  }}"
    for name in sorted(dynamic - {*program.inputs, *program.outputs}):
        yield f"  TVMBackendFreeWorkspace(resource_handle, {names[name]}_dynamic);"
    yield "  return status;"
    yield "}"


def _pointer(placed: PlacedProgram, name: str, names: Mapping[str, str]) -> str:
    program = placed.program
    if name in program.inputs:
        return f"inputs->{names[name]}"
    if name in program.outputs:
        return f"outputs->{names[name]}"
    if program.tensor(name).size_bytes is None:
        return f"{names[name]}_dynamic"
    place = placed.places[name]
    return f"(void*)({identifier(place.pool)}_pool + {place.offset}) /* {_plain(name)} */"


def _bytes(placed: PlacedProgram, pool: PlannedPool) -> Iterator[str]:
    image = bytearray(max(1, pool.peak_bytes))
    for name, place in placed.places.items():
        tensor: ProgramTensor = placed.program.tensor(name)
        if place.pool == pool.name and tensor.data is not None:
            image[place.offset : place.offset + len(tensor.data)] = tensor.data
    for start in range(0, len(image), 20):
        yield "  " + ", ".join(f"{byte}" for byte in image[start : start + 20]) + ","


def _plain(text: str) -> str:
    """Return a name that is safe in a C comment or string."""
    return re.sub(r"[^\w .:/-]|\*/|/\*", "_", text, flags=re.ASCII)
