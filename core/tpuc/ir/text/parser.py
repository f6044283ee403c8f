"""Parse modules, functions and operations."""

from __future__ import annotations

import contextlib
import gc
import re
from collections.abc import Generator, Mapping, Sequence

from tpuc.ir.attributes import Attribute, StringAttr
from tpuc.ir.builtin import Call, Return
from tpuc.ir.dialect import OpResolver
from tpuc.ir.op import Op, UnregisteredOp
from tpuc.ir.operation import UNKNOWN_LOCATION, Block, Function, Location, Module, Operation, Region, Value
from tpuc.ir.slots import settle_absent
from tpuc.ir.text.attributes import AttributeParser, unquote_symbol
from tpuc.ir.text.fields import AttributeMismatch, op_from_attributes
from tpuc.ir.text.types import WHOLE_TYPE
from tpuc.ir.text.writing import type_text
from tpuc.ir.types import FunctionType, Type

_TYPES = rf"(?:{WHOLE_TYPE}(?:,\s*+{WHOLE_TYPE})*+)?+"

# An operation without regions, in one piece. Attributes, types and location are looked at only when their text is new.
_OPERATION = re.compile(
    rf"""\s*+(?:(%[\w$.-]++)(?::(\d++))?+\s*+=\s*+)?+
         "([^"\\]++)"
         \(([^()]*+)\)\s*+
         (\{{(?:[^{{}}"]++|"(?:[^"\\]++|\\.)*+")*+\}})?+
         \s*+:\s*+
         (\({_TYPES}\)\s*->\s*(?:{WHOLE_TYPE}|\({_TYPES}\)))
         (?:\s*+loc\((\#\w++|"[^"\\\n]*+"|unknown)\)|(?!\s*+loc))
         (?=\s)""",
    re.VERBOSE,
)
_VALUE = re.compile(r"(%[\w$.-]++)(?:#(\d++))?+")
_OPERANDS = re.compile(r"\s*,\s*")
_RESULT = re.compile(r"(%[\w$.-]++)(?::(\d++))?+")
_BLOCK = re.compile(r"\^[\w$.-]++")
_SYMBOL_NAME = re.compile(r'@(?:[\w$.-]+|"(?:[^"\\]|\\.)*")')
_BARE_OP = re.compile(r"[A-Za-z_]\w*+\.[\w$.]++")
_QUOTED_OP = re.compile(r'"[^"\\]++"')


def parse_module(text: str, resolve: OpResolver, source: str = "<text>") -> Module:
    """Parse a module. Ops unknown to `resolve` are kept unregistered. Raises ParseError."""
    parser = _ModuleParser(text, source, resolve)
    try:
        with collector_paused():
            module = parser.module_of_file()
            settle_absent(module, resolve)
            return module
    except RecursionError:
        return parser.fail("brackets are nested too deeply here; write fewer of them")


@contextlib.contextmanager
def collector_paused() -> Generator[None]:
    """Pause garbage collection while a graph is built: nothing in it is garbage, and collecting doubles the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def parse_type(text: str) -> Type:
    """The type of a text such as `tensor<1x3xf32>`. Raises ParseError."""
    parser = AttributeParser(text, "<type>")
    result = parser.type()
    if parser.skip() != len(text):
        parser.fail(f"expected the end of the type, found {parser.shown()}")
    return result


def parse_attribute(text: str) -> Attribute:
    """The attribute of a text such as `1 : i64`. Raises ParseError."""
    parser = AttributeParser(text, "<attribute>")
    result = parser.attribute()
    if parser.skip() != len(text):
        parser.fail(f"expected the end of the attribute, found {parser.shown()}")
    return result


class _ModuleParser(AttributeParser):
    """Parses operations into blocks; `_values` maps the names in scope, and `_waiting` those used before definition."""

    def __init__(self, text: str, source: str, resolve: OpResolver) -> None:
        super().__init__(text, source)
        self._resolve = resolve
        self._scope: dict[str, Value] = {}
        self._waiting: dict[str, tuple[Value, int]] = {}
        self._ops: dict[tuple[str, str | None], tuple[Op, dict[str, Attribute]]] = {}
        self._classes: dict[str, type[Op] | None] = {}
        self._signatures: dict[str, FunctionType] = {}
        self._current = Block()

    def module_of_file(self) -> Module:
        """The only module of the text; top-level functions are put into a module without a name."""
        module: Module | None = None
        alone = Module("")
        while self.skip() < len(self.text):
            start = self.pos
            if self.alias_definition():
                continue
            if self._accept_function():
                alone.functions.append(self._function())
            elif self.accept_word("module") or self.accept_word("builtin.module"):
                if module is not None:
                    self.fail("a file holds one module, this is a second one; split the file", start)
                module = self._module()
            else:
                self.fail(f"expected 'module' or 'func.func', found {self.shown()}")
        if module is None:
            return alone
        if alone.functions:
            self.fail("functions stand outside the module; move them into it", 0)
        return module

    def _accept_function(self) -> bool:
        return self.accept_word("func.func") or self.accept_word("func")

    def _symbol_name(self, what: str) -> str:
        match = self.take(_SYMBOL_NAME)
        return unquote_symbol(match.group()) if match else self.fail(f"expected {what}, found {self.shown()}")

    def _module(self) -> Module:
        module = Module(self._symbol_name("the name of the module") if self.sees("@") else "")
        if self.accept_word("attributes"):
            module.attributes = self.dictionary()
        self.expect("{", " before the body of the module")
        while not self.accept("}"):
            if self._accept_function():
                module.functions.append(self._function())
            elif self.accept_word("module") or self.accept_word("builtin.module"):
                module.modules.append(self._module())
            else:
                self.fail(f"expected 'func.func', 'module' or '}}', found {self.shown()}")
        module.location = self.location()
        return module

    def _function(self) -> Function:
        visibility = next((word for word in ("private", "public", "nested") if self.accept_word(word)), None)
        name = self._symbol_name("the name of the function")
        self._scope = {}
        body = Block()
        self.expect("(", " before the arguments")
        if not self.accept(")"):
            self._argument(body)
            while self.accept(","):
                self._argument(body)
            self.expect(")", " after the arguments")
        results = self.type_list() if self.accept("->") else ()
        attributes = self.dictionary() if self.accept_word("attributes") else {}
        if visibility is not None:
            attributes["sym_visibility"] = StringAttr(visibility)
        start = self.skip()
        self.expect("{", f" before the body of function '{name}'")
        self._operations(body)
        self.expect("}", f" after the body of function '{name}'")
        self._check_waiting()
        if not body.operations:
            self.fail(f"function '{name}' is empty; it needs at least a return", start)
        location = self.location()
        type = FunctionType(tuple(argument.type for argument in body.arguments), results)
        return Function(name, type, body, attributes, location)

    def _argument(self, block: Block) -> None:
        """`%name: type loc(...)`."""
        start = self.skip()
        match = self.take(_VALUE)
        if match is None:
            return self.fail(f"expected an argument such as %arg0, found {self.shown()}")
        self.expect(":", " before the type of the argument")
        argument = Value(self.type(), block, len(block.arguments))
        if self.sees("{"):
            self.fail("attributes of arguments are not supported; put them on the function")
        argument.location = self.location()
        block.arguments.append(argument)
        self._define(match.group(1), [argument], start, single=True)
        return None

    def _check_waiting(self) -> None:
        for name, (_, pos) in self._waiting.items():
            self.fail(f"value '{name}' is not defined", pos)

    def _operations(self, block: Block) -> None:
        """Operations up to a `}` or a block label."""
        match_operation = _OPERATION.match
        text = self.text
        while True:
            match = match_operation(text, self.pos)
            if match is not None:
                self._plain_operation(match, block)
                continue
            if self.skip() >= len(text) or text[self.pos] in "}^":
                return
            if not self.alias_definition():
                self._operation(block)

    def _plain_operation(self, match: re.Match[str], block: Block) -> None:
        result, count, name, operands_text, attributes_text, signature_text, location_text = match.groups()
        key = (name, attributes_text)
        known = self._ops.get(key)
        start = match.start(1) if result is not None else match.start(3) - 1
        if location_text is None or location_text == "unknown":
            location = UNKNOWN_LOCATION
        elif location_text[0] == "#":
            location = self.location_alias(location_text, match.start(7))
        else:
            location = Location((location_text[1:-1],))
        if known is None:
            attributes: dict[str, Attribute] = {}
            if attributes_text is not None:
                self.pos = match.start(5)
                attributes = self.dictionary()
            known = self._ops[key] = self._make_op(name, attributes, location, start)
        signature = self._signatures.get(signature_text)
        if signature is None:
            self.pos = match.start(6)
            signature = self.function_type()
            if self.pos != match.end(6):
                self.fail(f"expected the end of the operation, found {self.shown()}")
            self._signatures[signature_text] = signature
        inputs = signature.inputs
        names = _OPERANDS.split(operands_text.strip()) if operands_text else []
        if len(names) != len(inputs):
            self._wrong_count(len(names), len(inputs), start)
        scope = self._scope
        operands: list[Value] = []
        for operand, type in zip(names, inputs, strict=True):
            value = scope.get(operand)
            if value is None or not (value.type is type or value.type == type):
                value = self._use(operand, type, match.start(4))
            operands.append(value)
        op, extra = known
        operation = Operation(op, operands, signature.results, location, dict(extra) if extra else {})
        block.append(operation)
        self.pos = match.end()
        if result is not None:
            self._define_results(result, count, operation, start)

    def _operation(self, block: Block) -> None:
        """Parse any operation: several result names, regions, properties, custom forms."""
        start = self.skip()
        outer, self._current = self._current, block
        results = self._result_names()
        place = self.skip()
        quoted = self.take(_QUOTED_OP)
        if quoted is not None:
            operation = self._generic(quoted.group()[1:-1], start)
        elif self.accept_word("return") or self.accept_word("func.return"):
            operation = self._return(start)
        elif self.accept_word("call") or self.accept_word("func.call"):
            operation = self._call(start)
        elif (formed := self._formed(sum(int(count or 1) for _, count in results))) is not None:
            operation = formed
        else:
            self.fail(f"expected an operation such as \"top.Relu\"(%0), 'return', 'call' or '}}', found {self.shown()}")
        if isinstance(operation.op, Return) and results:
            self.fail("a return has no results", place)
        block.append(operation)
        self._current = outer
        if len(results) == 1:
            self._define_results(*results[0], operation, start)
        elif results:
            if len(results) != len(operation.results) or any(count for _, count in results):
                self._wrong_results(len(results), len(operation.results), start)
            for (name, _), value in zip(results, operation.results, strict=True):
                self._define(name, [value], start, single=True)

    def _result_names(self) -> list[tuple[str, str | None]]:
        """Names before the `=`, each with its number of results, if stated."""
        results: list[tuple[str, str | None]] = []
        if self.sees("%"):
            while (match := self.take(_RESULT)) is not None:
                results.append((match.group(1), match.group(2)))
                if not self.accept(","):
                    break
            self.expect("=", " after the results")
        return results

    def _generic(self, name: str, start: int) -> Operation:
        places = self._operand_places()
        if self.sees("["):
            self.fail(f"op {name}: successor blocks are not supported; only structured regions are")
        attributes: dict[str, Attribute] = {}
        if self.accept("<"):
            attributes = self.dictionary()
            self.expect(">", " after the properties")
        regions: list[Region] = []
        if self.accept("("):
            regions.append(self.region())
            while self.accept(","):
                regions.append(self.region())
            self.expect(")", " after the regions")
        if self.sees("{"):
            attributes |= self.dictionary()
        self.expect(":", f" before the types of op {name}")
        signature = self.function_type()
        location = self.location()
        op, extra = self._make_op(name, attributes, location, start)
        return Operation(op, self._uses(places, signature.inputs, start), signature.results, location, extra, regions)

    def _formed(self, results: int) -> Operation | None:
        """Parse an operation in its custom form; None where no op has one here."""
        start = self.skip()
        match = self.take(_BARE_OP)
        form = None if match is None else getattr(self._class_of(match.group()), "form", None)
        if match is None or form is None:
            self.pos = start
            return None
        return form.read(match.group(), results, self)

    # What forms read with

    def operation(self, block: Block) -> None:
        """One operation at the end of a block."""
        self._operation(block)

    def put_before(self, operation: Operation) -> None:
        """Insert an operation into the block before the operation that is being parsed."""
        self._current.append(operation)

    def defined_value(self) -> Value:
        """A value that is already defined."""
        match = self.take(_VALUE)
        if match is None:
            self.fail(f"expected a value such as %0, found {self.shown()}")
        value = self._find(match.group())
        return value if value is not None else self.fail(f"value '{match.group()}' is not defined", match.start())

    def make(
        self,
        name: str,
        operands: Sequence[Value],
        results: Sequence[Type],
        attributes: Mapping[str, Attribute],
        regions: Sequence[Region] = (),
    ) -> Operation:
        """Create an operation by op name; the location that follows is its own."""
        start, location = self.pos, self.location()
        op, extra = self._make_op(name, attributes, location, start)
        return Operation(op, operands, results, location, extra, regions)

    def _return(self, start: int) -> Operation:
        attributes = self.dictionary() if self.sees("{") else {}
        places: list[tuple[str, int]] = []
        types: list[Type] = []
        if self.sees("%"):
            places = self._value_places()
            self.expect(":", " before the types of the returned values")
            types.append(self.type())
            while self.accept(","):
                types.append(self.type())
        return Operation(Return(), self._uses(places, types, start), (), self.location(), attributes)

    def _call(self, start: int) -> Operation:
        callee = self._symbol_name("the function to call")
        places = self._operand_places()
        attributes = self.dictionary() if self.sees("{") else {}
        self.expect(":", " before the types of the call")
        signature = self.function_type()
        location = self.location()
        return Operation(
            Call(callee), self._uses(places, signature.inputs, start), signature.results, location, attributes
        )

    def _operand_places(self) -> list[tuple[str, int]]:
        self.expect("(", " before the operands")
        if self.accept(")"):
            return []
        places = self._value_places()
        self.expect(")", " after the operands")
        return places

    def _value_places(self) -> list[tuple[str, int]]:
        places: list[tuple[str, int]] = []
        while True:
            match = self.take(_VALUE)
            if match is None:
                self.fail(f"expected a value such as %0, found {self.shown()}")
            places.append((match.group(), match.start()))
            if not self.accept(","):
                return places

    def _uses(self, places: Sequence[tuple[str, int]], types: Sequence[Type], start: int) -> list[Value]:
        if len(places) != len(types):
            self._wrong_count(len(places), len(types), start)
        return [self._use(name, type, pos) for (name, pos), type in zip(places, types, strict=True)]

    def _use(self, name: str, type: Type, pos: int) -> Value:
        """The value of a name, or a placeholder if it is defined later."""
        value = self._scope.get(name)
        if value is None:
            if not _VALUE.fullmatch(name):
                self.fail(f"expected a value such as %0, found '{name}'", pos)
            value = self._find(name)
        if value is None:
            name = name.removesuffix("#0")
            if name not in self._waiting:
                self._waiting[name] = (Value(type, Block(), 0), pos)
            value = self._waiting[name][0]
        if value.type != type:
            self.fail(f"value '{name}' has type {type_text(value.type)}, not {type_text(type)}", pos)
        return value

    def _find(self, name: str) -> Value | None:
        """The value of a defined name; the first result may be referred to with or without its number."""
        return self._scope.get(name) or self._scope.get(name.removesuffix("#0")) or self._scope.get(f"{name}#0")

    def _define_results(self, name: str, count: str | None, operation: Operation, start: int) -> None:
        results = operation.results
        if count is None and len(results) == 1:
            scope = self._scope
            if name not in scope and not self._waiting:
                scope[name] = results[0]
                return
        if (1 if count is None else int(count)) != len(results):
            self._wrong_results(1 if count is None else int(count), len(results), start)
        self._define(name, results, start, single=count is None)

    def _define(self, name: str, values: Sequence[Value], start: int, *, single: bool) -> None:
        for index, value in enumerate(values):
            key = name if single else f"{name}#{index}"
            if key in self._scope:
                self.fail(f"value '{key}' is defined twice; give one of them another name", start)
            self._scope[key] = value
            waiting = self._waiting.pop(key, None) or (self._waiting.pop(name, None) if index == 0 else None)
            if waiting is not None:
                stand_in, pos = waiting
                if stand_in.type != value.type:
                    self.fail(f"value '{key}' has type {type_text(value.type)}, not {type_text(stand_in.type)}", pos)
                stand_in.replace_with(value)

    def region(self) -> Region:
        """Parse `{ blocks }` with a scope of its own, nested in the surrounding one."""
        outer = self._scope
        self._scope = dict(outer)
        self.expect("{", " before a region")
        blocks: list[Block] = []
        if not self.sees("^"):
            blocks.append(Block())
            self._operations(blocks[0])
        while (label := self.take(_BLOCK)) is not None:
            block = Block()
            if self.accept("("):
                self._argument(block)
                while self.accept(","):
                    self._argument(block)
                self.expect(")", f" after the arguments of block {label.group()}")
            self.expect(":", f" after the block label {label.group()}")
            self._operations(block)
            blocks.append(block)
        self.expect("}", " after a region")
        self._scope = outer
        return Region(blocks)

    def _make_op(
        self, name: str, attributes: Mapping[str, Attribute], location: Location, start: int
    ) -> tuple[Op, dict[str, Attribute]]:
        op = self._class_of(name)
        if op is None:
            return UnregisteredOp(name), dict(attributes)
        try:
            return op_from_attributes(op, attributes)
        except AttributeMismatch as error:
            return self.fail(f"op '{location.name}' ({name}): {error}", start)

    def _class_of(self, name: str) -> type[Op] | None:
        if name not in self._classes:
            self._classes[name] = _BUILTIN.get(name) or self._resolve(name)
        return self._classes[name]

    def _wrong_count(self, names: int, types: int, start: int) -> None:
        self.fail(f"the operation has {names} operands but {types} operand types", start)

    def _wrong_results(self, names: int, types: int, start: int) -> None:
        self.fail(f"the operation names {names} results but has {types} result types", start)


_BUILTIN: dict[str, type[Op]] = {Return.name: Return, Call.name: Call}
