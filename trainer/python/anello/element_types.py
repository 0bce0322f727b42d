"""The types of elements, and their names in Python's libraries, from element_types.def, which lies beside this file.

The tables give the engine's number of a type, for example C.F32.
"""
from __future__ import annotations

import re

from ._library import text_of

_ROW = re.compile(r'^ANELLO_ELEMENT_TYPE\(\w+, (\d+), [\w:]+, (\d+), "\w+", "(\w+)", \w+, (\d+), \w+\)$', re.M)
_SIGNED, _UNSIGNED, _FLOAT = 0, 1, 2  # type codes of DLPack
_LETTERS = {_SIGNED: "i", _UNSIGNED: "u", _FLOAT: "f", 6: "b"}  # of these codes in NumPy's typestr

_rows = [(int(value), int(item_bytes), name, int(code))
         for value, item_bytes, name, code in _ROW.findall(text_of("element_types.def"))]

ITEM_BYTES = {value: item_bytes for value, item_bytes, *_ in _rows}
BY_NAME = {name: value for value, _, name, *_ in _rows}  # of NumPy, and of PyTorch after "torch."
BY_TYPESTR = {f"{_LETTERS[code]}{item_bytes}": value for value, item_bytes, _, code in _rows if code in _LETTERS}
BY_DLPACK = {(code, 8 * item_bytes): value for value, item_bytes, _, code in _rows}
SIGNED = {item_bytes: value for value, item_bytes, _, code in _rows if code == _SIGNED}  # integers by their bytes
UNSIGNED = {item_bytes: value for value, item_bytes, _, code in _rows if code == _UNSIGNED}
