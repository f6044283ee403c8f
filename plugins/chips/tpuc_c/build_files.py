"""Write the build files of a network: for make, CMake, Zephyr, ESP-IDF, and Arduino."""

from __future__ import annotations

from collections.abc import Mapping

from tpuc.api import FunctionProgram

SOURCE, EXTRAS, MAIN = "src/", "extras/", "main.c"
"""Folders in the layouts of frameworks, and the program that runs a network on the machine that compiled it."""


def sources(identifier: str) -> tuple[str, ...]:
    """The C files of a network."""
    return (f"{identifier}_lib0.c", f"{identifier}_operators.c")


def build_files(program: FunctionProgram) -> Mapping[str, str]:
    """Build files by name. The folder is both a project and a library for other projects."""
    return {
        "Makefile": makefile(program.identifier),
        "CMakeLists.txt": _cmake(program.identifier),
        "library.properties": arduino_properties(program),
        "zephyr/module.yml": f"name: {program.identifier}\nbuild:\n  cmake: .\n",
    }


def makefile(name: str, source: str = "") -> str:
    """The Makefile of the example program; `source` is the folder of the library if it differs from the Makefile's."""
    objects = " ".join(file.replace(".c", ".o") for file in (*sources(name), MAIN))
    path = f"CPPFLAGS += -I{source.removesuffix('/')}\nVPATH = {source.removesuffix('/')}\n" if source else ""
    return f"""\
CFLAGS ?= -O3
DIALECT = -std=c99 -Wall -Wextra -pedantic
{path}LDLIBS += -lm

{name}: {objects}
\t$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)

%.o: %.c
\t$(CC) $(DIALECT) $(CPPFLAGS) $(CFLAGS) -c -o $@ $<

clean:
\trm -f {name} {objects}

.PHONY: clean
"""


def _cmake(name: str) -> str:
    """The CMake file. It disables fused multiply-add, so that every processor rounds products and sums as tested."""
    files = " ".join(sources(name))
    return f"""\
# The library tpuc::{name}, and an example program where this is the whole project. Also a component of ESP-IDF and a
# module of Zephyr.
cmake_minimum_required(VERSION 3.10)
if(ESP_PLATFORM)
  idf_component_register(SRCS {files} INCLUDE_DIRS .)
  target_compile_options(${{COMPONENT_LIB}} PRIVATE -ffp-contract=off)
  return()
endif()
if(ZEPHYR_BASE)
  zephyr_library_named({name}_network)
  zephyr_library_sources({files})
  zephyr_library_compile_options(-ffp-contract=off)
  zephyr_include_directories(.)
  return()
endif()
project({name} C)
if(CMAKE_SOURCE_DIR STREQUAL CMAKE_CURRENT_SOURCE_DIR AND NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
add_library({name}_network STATIC {files})
add_library(tpuc::{name} ALIAS {name}_network)
set_target_properties({name}_network PROPERTIES C_STANDARD 99 C_STANDARD_REQUIRED ON C_EXTENSIONS OFF)
target_include_directories({name}_network PUBLIC ${{CMAKE_CURRENT_SOURCE_DIR}})
if(CMAKE_C_COMPILER_ID MATCHES "GNU|Clang")
  target_compile_options({name}_network PRIVATE -ffp-contract=off)
endif()
if(NOT MSVC)
  target_link_libraries({name}_network PUBLIC m)
endif()
if(CMAKE_SOURCE_DIR STREQUAL CMAKE_CURRENT_SOURCE_DIR)
  add_executable({name} main.c)
  set_target_properties({name} PROPERTIES C_STANDARD 99 C_STANDARD_REQUIRED ON C_EXTENSIONS OFF)
  target_link_libraries({name} PRIVATE tpuc::{name})
endif()
"""


def arduino_properties(program: FunctionProgram) -> str:
    """`library.properties` for Arduino, where the names of libraries must begin with a letter."""
    name = program.identifier
    return f"""\
name={name if name[0].isalpha() else f"tpuc{name}"}
version=1.0.0
author=tpuc
maintainer=tpuc
sentence=A neural network.
paragraph=Include {name}_network.h.
category=Data Processing
url=
architectures=*
includes={name}_network.h
"""
