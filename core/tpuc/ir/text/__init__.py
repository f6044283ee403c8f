"""MLIR text of modules: reading and writing."""

from __future__ import annotations

from tpuc.ir.text.fields import attributes_of
from tpuc.ir.text.files import read_module, write_module
from tpuc.ir.text.parser import parse_attribute, parse_module, parse_type
from tpuc.ir.text.printer import print_module, print_type
from tpuc.ir.text.writing import attribute_text as print_attribute

__all__ = [
    "attributes_of",
    "parse_attribute",
    "parse_module",
    "parse_type",
    "print_attribute",
    "print_module",
    "print_type",
    "read_module",
    "write_module",
]
