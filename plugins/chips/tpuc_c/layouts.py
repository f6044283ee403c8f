"""Arrange the files of a network for the build tools of a firmware framework: Zephyr, Arduino or ESP-IDF.

`src/` holds the source, the framework's folder for examples an application, and `extras/` the program that `tpuc run`
builds, with its Makefile.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from tpuc.api import FunctionProgram

from tpuc_c.build_files import EXTRAS, MAIN, SOURCE, arduino_properties, build_files, makefile, sources
from tpuc_c.examples import arduino_example, esp_idf_example, zephyr_example
from tpuc_c.network_header import example_name

_ROUNDING = """\
/* Products and sums of floats round separately: Arduino takes no compiler flags from a library. */
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#elif defined(__GNUC__)
#pragma GCC optimize("fp-contract=off")
#endif
"""


def arranged(layout: str, program: FunctionProgram, code: Mapping[str, str]) -> dict[str, str]:
    """The files by path, arranged for the framework called `layout`; with an empty name, a project for make and
    CMake.
    """
    if not layout:
        return {**code, **build_files(program)}
    inside = {f"{SOURCE}{name}": text for name, text in code.items() if name != MAIN}
    extras = {f"{EXTRAS}{MAIN}": code[MAIN], f"{EXTRAS}Makefile": makefile(program.identifier, f"../{SOURCE}")}
    # An application with its own memory pools states their addresses, which no example can know.
    has_example = "TVMSet" not in code[MAIN]
    return {**inside, **extras, **LAYOUTS[layout](program, inside, has_example)}


def _zephyr(program: FunctionProgram, _: Mapping[str, str], has_example: bool) -> dict[str, str]:
    name = program.identifier
    option, title = f"TPUC_{name.upper()}", f"Neural network {name}"
    files = {
        "zephyr/module.yml": f"name: {name}\nbuild:\n  cmake: zephyr\n  kconfig: zephyr/Kconfig\n",
        "zephyr/Kconfig": f'config {option}\n\tbool "{title}"\n\tselect REQUIRES_FULL_LIBC\n\thelp\n'
        f"\t  Build the network {name}; include {name}_network.h to run it.\n",
        "zephyr/CMakeLists.txt": f"""\
if(CONFIG_{option})
  zephyr_library_named({name}_network)
  zephyr_library_sources({" ".join(f"../{SOURCE}{one}" for one in sources(name))})
  zephyr_library_compile_options(-ffp-contract=off)
  zephyr_include_directories(../{SOURCE.removesuffix("/")})
endif()
""",
    }
    if not has_example:
        return files
    sample = f"samples/{example_name(program)}"
    return files | {
        f"{sample}/CMakeLists.txt": f"""\
cmake_minimum_required(VERSION 3.20)
list(APPEND ZEPHYR_EXTRA_MODULES ${{CMAKE_CURRENT_SOURCE_DIR}}/../..)
find_package(Zephyr REQUIRED HINTS $ENV{{ZEPHYR_BASE}})
project({name}_sample C)
target_sources(app PRIVATE src/main.c)
""",
        f"{sample}/prj.conf": f"CONFIG_{option}=y\nCONFIG_MAIN_STACK_SIZE=8192\n",
        f"{sample}/src/main.c": zephyr_example(program),
    }


def _arduino(program: FunctionProgram, inside: Mapping[str, str], has_example: bool) -> dict[str, str]:
    operators = f"{SOURCE}{program.identifier}_operators.c"
    files = {"library.properties": arduino_properties(program), operators: _ROUNDING + inside[operators]}
    if has_example:
        name = example_name(program)
        files[f"examples/{name}/{name}.ino"] = arduino_example(program)
    return files


def _esp_idf(program: FunctionProgram, _: Mapping[str, str], has_example: bool) -> dict[str, str]:
    name = program.identifier
    files = {
        "CMakeLists.txt": f"""\
idf_component_register(SRCS {" ".join(f"{SOURCE}{one}" for one in sources(name))} INCLUDE_DIRS {SOURCE[:-1]})
target_compile_options(${{COMPONENT_LIB}} PRIVATE -ffp-contract=off)
""",
        "idf_component.yml": f'version: "1.0.0"\ndescription: Neural network {name}\n'
        'dependencies:\n  idf:\n    version: ">=4.4"\n',
    }
    if not has_example:
        return files
    example = f"examples/{example_name(program)}"
    return files | {
        f"{example}/CMakeLists.txt": f"""\
cmake_minimum_required(VERSION 3.16)
set(EXTRA_COMPONENT_DIRS ${{CMAKE_CURRENT_LIST_DIR}}/../..)
include($ENV{{IDF_PATH}}/tools/cmake/project.cmake)
project({name}_example)
""",
        f"{example}/main/CMakeLists.txt": "idf_component_register(SRCS main.c)\n",
        f"{example}/main/main.c": esp_idf_example(program),
        f"{example}/sdkconfig.defaults": "CONFIG_ESP_MAIN_TASK_STACK_SIZE=8192\n",
    }


LAYOUTS: Mapping[str, Callable[[FunctionProgram, Mapping[str, str], bool], dict[str, str]]] = MappingProxyType(
    {"arduino": _arduino, "esp-idf": _esp_idf, "zephyr": _zephyr}
)
