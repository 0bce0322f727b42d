"""The types of elements and their names in Python's libraries. They are read from element_types.def beside this file.

The values in the BY_ tables are the engine's numbers of types, for example C.F32.
"""
from __future__ import annotations

import re

from ._library import text_of

_ROW = re.compile(r'^ANELLO_ELEMENT_TYPE\(\w+, (\d+), [\w:]+, (\d+), "\w+", "(\w+)", \w+, (\d+), \w+\)$', re.M)
_SIGNED, _UNSIGNED, _FLOAT = 0, 1, 2  # type codes of DLPack
_LETTERS = {_SIGNED: "i", _UNSIGNED: "u", _FLOAT: "f", 6: "b"}  # the letters of these codes in NumPy's typestr

_rows = [(int(value), int(item_bytes), name, int(code))
         for value, item_bytes, name, code in _ROW.findall(text_of("element_types.def"))]

ITEM_BYTES = {value: item_bytes for value, item_bytes, *_ in _rows}
BY_NAME = {name: value for value, _, name, *_ in _rows}  # names of NumPy; PyTorch's are the same after "torch."
BY_TYPESTR = {f"{_LETTERS[code]}{item_bytes}": value for value, item_bytes, _, code in _rows if code in _LETTERS}
BY_DLPACK = {(code, 8 * item_bytes): value for value, item_bytes, _, code in _rows}
SIGNED = {item_bytes: value for value, item_bytes, _, code in _rows if code == _SIGNED}  # by the bytes of an element
UNSIGNED = {item_bytes: value for value, item_bytes, _, code in _rows if code == _UNSIGNED}
