"""Reads anello.h and gpu.h, which lie beside this file, so that no declaration is written twice.

`read(text)` returns a `Header`: the constants by name, the structs as ctypes classes, and the types of each function's
result and arguments. It parses only the part of C that anello.h uses, and refuses anything else.
"""
from __future__ import annotations

import ctypes
import re
from typing import Any, Callable, Dict, FrozenSet, List, NamedTuple, Tuple, Type

_NUMBERS = {
    "int": ctypes.c_int,
    "double": ctypes.c_double,
    "size_t": ctypes.c_size_t,
    "int64_t": ctypes.c_int64,
    "uint64_t": ctypes.c_uint64,
    "uint32_t": ctypes.c_uint32,
    "uint8_t": ctypes.c_uint8,
}
_COMMENT = re.compile(r"/\*.*?\*/", re.S)
_DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*$", re.M)
_NUMBER_MACRO = re.compile(r"^#define (ANELLO_\w+) \(?(-?\d+)\)?$", re.M)
_INIT_MACRO = re.compile(r"^#define ANELLO_(\w+)_INIT\s(.*?)\}$", re.M | re.S)
_ENUM = re.compile(r"(?:typedef )?enum \{(.*?)\}\s*(\w*);", re.S)
_STRUCT = re.compile(r"typedef struct (?:\w+ )?\{(.*?)\}\s*(\w+);", re.S)
_OPAQUE = re.compile(r"typedef struct (\w+) \1;")
_CALLBACK = re.compile(r"typedef ([\w ]+?) \(\*(\w+)\)\((.*?)\);", re.S)
_COMMA = re.compile(r",(?![^{]*\})")  # not inside the braces of a struct in a struct
_FUNCTION = re.compile(r"^((?:const )?\w+\s?\**)\s*(anello_\w+)\((.*?)\);", re.M | re.S)


class Header(NamedTuple):
    """The declarations of anello.h."""

    constants: Dict[str, int]
    structs: Dict[str, Type[ctypes.Structure]]
    callbacks: Dict[str, Any]
    functions: Dict[str, Tuple[Any, List[Any]]]  # result and arguments
    fallible: FrozenSet[str]  # the functions that return an anello_status
    defaults: Dict[str, List[str]]  # by struct: its members' values in its ..._INIT macro, as text


class _Reader:
    def __init__(self) -> None:
        self.types: Dict[str, Any] = dict(_NUMBERS)
        self.constants: Dict[str, int] = {}
        self.structs: Dict[str, Type[ctypes.Structure]] = {}
        self.callbacks: Dict[str, Any] = {}

    def type_of(self, text: str) -> Any:
        """The ctypes type of a C type; None for void."""
        words = text.replace("*", " * ").split()
        if words == ["const", "char", "*"]:
            return ctypes.c_char_p
        words = [word for word in words if word not in ("const", "struct")]
        if "*" in words:
            return ctypes.c_void_p
        if words == ["void"]:
            return None
        if len(words) != 1 or words[0] not in self.types:
            raise ValueError(f"anello.h has a type that this package does not support: {text!r}")
        return self.types[words[0]]

    def declarators(self, text: str) -> List[Tuple[str, Any]]:
        """The names and types of "int a, b" or "int (*f)(int x)"."""
        pointer = re.fullmatch(r"(.*?)\(\*(\w+)\)\((.*)\)", text.strip(), re.S)
        if pointer:
            return [(pointer[2], ctypes.CFUNCTYPE(self.type_of(pointer[1]), *self.arguments(pointer[3])))]
        first, *more = text.split(",")
        name, kind = self.declarator(first)
        return [(name, kind)] + [(each.strip(), kind) for each in more]

    def declarator(self, text: str) -> Tuple[str, Any]:
        """The name and the type of "const char* name"."""
        match = re.fullmatch(r"(.*?[\s*])(\w+)", text.strip(), re.S)
        if not match:
            raise ValueError(f"anello.h has a declaration that this package does not understand: {text!r}")
        return match[2], self.type_of(match[1])

    def arguments(self, text: str) -> List[Any]:
        if text.strip() == "void":
            return []
        return [self.declarator(each)[1] for each in text.split(",")]

    def enum(self, body: str, name: str) -> None:
        value = -1
        for entry in filter(None, (each.strip() for each in body.split(","))):
            constant, _, given = (part.strip() for part in entry.partition("="))
            value = int(given, 0) if given else value + 1
            self.constants[constant] = value
        if name:
            self.types[name] = ctypes.c_int

    def struct(self, body: str, name: str) -> None:
        members = [found for each in body.split(";") if each.strip() for found in self.declarators(each)]
        made = type(name, (ctypes.Structure,), {"_fields_": members})
        self.types[name] = self.structs[name] = made

    def callback(self, result: str, name: str, arguments: str) -> None:
        made = ctypes.CFUNCTYPE(self.type_of(result), *self.arguments(arguments))
        self.types[name] = self.callbacks[name] = made


def _defaults(text: str) -> Dict[str, List[str]]:
    found = {}
    for name, body in _INIT_MACRO.findall(text):
        values = _COMMA.split(body.replace("\\\n", " ").strip().lstrip("{"))
        found["anello_" + name.lower()] = [value.strip() for value in values]
    return found


def read(text: str) -> Header:
    """The declarations of a header's text. Raises ValueError, which shows the text, if it cannot parse a part."""
    reader = _Reader()
    text = _COMMENT.sub("", text)
    text = re.sub(r"[ \t]+$", "", text, flags=re.M)
    for name, number in _NUMBER_MACRO.findall(text):
        reader.constants[name] = int(number)
    defaults = _defaults(text)
    text = _DIRECTIVE.sub("", text)
    for body, name in _ENUM.findall(text):
        reader.enum(body, name)
    # In the order of the text, because a struct may have members of an earlier struct, or callbacks.
    types: List[Tuple[int, Callable[..., None], Tuple[Any, ...]]] = []
    types += [(m.start(), reader.struct, m.groups()) for m in _STRUCT.finditer(text)]
    types += [(m.start(), reader.callback, m.groups()) for m in _CALLBACK.finditer(text)]
    for _, take, groups in sorted(types, key=lambda each: each[0]):
        take(*groups)
    calls = _FUNCTION.findall(text)
    functions = {name: (reader.type_of(result), reader.arguments(given)) for result, name, given in calls}
    fallible = frozenset(name for result, name, _ in calls if result.strip() == "anello_status")
    return Header(reader.constants, reader.structs, reader.callbacks, functions, fallible, defaults)


def default(header: Header, struct: str) -> ctypes.Structure:
    """A struct as its ..._INIT macro makes it."""
    return _filled(header, header.structs[struct](), header.defaults[struct])


def _filled(header: Header, made: ctypes.Structure, values: List[str]) -> ctypes.Structure:
    for field, text in zip(made._fields_, values):
        if text.startswith("{"):
            _filled(header, getattr(made, field[0]), text.strip("{} ").split(", "))
        elif text != "NULL":  # members are NULL already
            setattr(made, field[0], _value(header, text, field[1]))
    return made


def _value(header: Header, text: str, kind: Any) -> Any:
    size = re.fullmatch(r"sizeof\((\w+)\)", text)
    if size:
        return ctypes.sizeof(header.structs[size[1]])
    if text in header.constants:
        return header.constants[text]
    return float(text) if kind is ctypes.c_double else int(text)
