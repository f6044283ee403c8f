"""Compiled networks as programs for Cortex-M4, Cortex-M55 and Cortex-A15, and runs of them in QEMU.

Programs read and write the files of this machine by semihosting, through newlib's `rdimon`.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

COMPILER, SIZE, EMULATOR = "arm-none-eabi-gcc", "arm-none-eabi-size", "qemu-system-arm"
CORE = ("-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16")
FLAGS = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic")
QUIET = ("-display", "none", "-monitor", "none", "-serial", "none")

needs_board = pytest.mark.skipif(
    not all(map(shutil.which, (COMPILER, EMULATOR))), reason=f"needs {COMPILER} with newlib, and {EMULATOR}"
)

START_M = """\
#include <stdint.h>
extern uint32_t stack_top;
void _start(void);
void reset(void);
void reset(void) {
  *(volatile uint32_t*)0xE000ED88 |= 0xFu << 20; /* the floating-point unit on (CPACR, ARMv7-M B3.2.20) */
  _start();
}
__attribute__((section(".vectors"), used)) static const struct {
  void* stack;
  void (*entry)(void);
} vectors = {&stack_top, reset};
"""
START_A = """\
void reset(void);
__attribute__((naked, section(".vectors"))) void reset(void) {
  __asm__ volatile( /* the floating-point unit and Neon on (CPACR and FPEXC, ARMv7-A B4.1) */
      "mrc p15, 0, r0, c1, c0, 2\\n orr r0, r0, #0xF00000\\n mcr p15, 0, r0, c1, c0, 2\\n isb\\n"
      "mov r0, #0x40000000\\n vmsr fpexc, r0\\n ldr sp, =stack_top\\n b _start\\n");
}
"""
LAYOUT = """\
ENTRY(reset)
SECTIONS {
  .text : { KEEP(*(.vectors)) *(.text*) *(.rodata*) KEEP(*(.init)) KEEP(*(.fini)) } > FLASH
  .exidx : { *(.ARM.ex*) } > FLASH
  .arrays : {
    __preinit_array_start = .; KEEP(*(.preinit_array*)) __preinit_array_end = .;
    __init_array_start = .; KEEP(*(.init_array*)) __init_array_end = .;
    __fini_array_start = .; KEEP(*(.fini_array*)) __fini_array_end = .;
  } > FLASH
  .data : { *(.data*) } > RAM
  .bss (NOLOAD) : { __bss_start__ = .; *(.bss*) *(COMMON) __bss_end__ = .; end = .; __end__ = .; } > RAM
  stack_top = ORIGIN(RAM) + LENGTH(RAM);
}
"""


class Board(NamedTuple):
    """A board of QEMU's: the compiler's flags for its core, the machine, its start, and its memory."""

    core: tuple[str, ...]
    machine: tuple[str, ...]
    start: str
    memory: str

    @property
    def layout(self) -> str:
        """The linker's script."""
        return f"MEMORY {{ {self.memory} }}\n{LAYOUT}"


M4 = Board(
    CORE,
    ("-M", "mps2-an386", "-cpu", "cortex-m4"),
    START_M,
    "FLASH (rx) : ORIGIN = 0, LENGTH = 4M  RAM (rwx) : ORIGIN = 0x21000000, LENGTH = 16M",
)
M55 = Board(
    ("-mcpu=cortex-m55", "-mthumb", "-mfloat-abi=hard"),
    ("-M", "mps3-an547", "-cpu", "cortex-m55"),
    START_M,
    "FLASH (rx) : ORIGIN = 0, LENGTH = 512K  RAM (rwx) : ORIGIN = 0x21000000, LENGTH = 4M",
)
"""With Helium."""
A15 = Board(
    ("-mcpu=cortex-a15", "-marm", "-mfloat-abi=hard", "-mfpu=neon-vfpv4", "-mno-unaligned-access"),
    ("-M", "virt", "-cpu", "cortex-a15", "-m", "64M", "-nic", "none"),
    START_A,
    "FLASH (rx) : ORIGIN = 0x40200000, LENGTH = 8M  RAM (rwx) : ORIGIN = 0x40A00000, LENGTH = 32M",
)
"""With Neon."""


class Sizes(NamedTuple):
    """Bytes of a network's own objects: code and constants, and memory."""

    code: int
    constants: int
    memory: int


def sizes(folder: Path, *flags: str) -> Sizes:
    """Of the network in a folder, without the application around it."""
    found = []
    for source in (next(folder.glob("*_operators.c")), next(folder.glob("*_lib0.c"))):
        target = source.with_suffix(".o")
        subprocess.run([COMPILER, *CORE, *FLAGS, *flags, "-c", "-o", target, source], check=True)
        line = subprocess.run([SIZE, target], check=True, capture_output=True, text=True).stdout.splitlines()[1]
        found.append([int(field) for field in line.split()[:3]])
    operators, calls = found
    return Sizes(operators[0], calls[0], sum(row[1] + row[2] for row in found))


def build(folder: Path, *flags: str, board: Board = M4) -> Path:
    """The example application of a folder as a program for the board."""
    start, layout, program = folder / "start.c", folder / "board.ld", folder / "program.elf"
    start.write_text(board.start)
    layout.write_text(board.layout)
    parts = [_part(name, board) for name in ("crti.o", "rdimon-crt0.o", "crtn.o")]
    sources = sorted(path.name for path in folder.glob("*.c"))
    linking = ("--specs=rdimon.specs", "-nostartfiles", "-T", layout.name)
    command = [
        COMPILER,
        *board.core,
        *FLAGS,
        *flags,
        *linking,
        "-o",
        program.name,
        *parts[:2],
        *sources,
        parts[2],
        "-lm",
    ]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    return program


def _part(name: str, board: Board) -> str:
    done = subprocess.run(
        [COMPILER, *board.core, f"-print-file-name={name}"], check=True, capture_output=True, text=True, timeout=60
    )
    return done.stdout.strip()


def run(program: Path, data: bytes, board: Board = M4) -> bytes:
    """What the program writes on the board."""
    semihosting = ("-semihosting-config", "enable=on,target=native")
    command = [EMULATOR, *board.machine, *QUIET, *semihosting, "-kernel", str(program)]
    done = subprocess.run(command, input=data, capture_output=True, check=False, timeout=600)
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout
