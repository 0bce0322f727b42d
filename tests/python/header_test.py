"""The declarations that Python parses from anello.h and gpu.h match the library."""
import ctypes
import os
import pathlib
import re
import subprocess
import sys

import pytest

from anello import _header, _library, element_types

HEADER = "".join(pathlib.Path(_library.__file__).with_name(name).read_text() for name in ("anello.h", "gpu.h"))


def exported():
    listed = subprocess.run(["nm", "-D", "--defined-only", _library.lib._dll._name], check=True, capture_output=True,
                            text=True)
    return {line.split()[-1] for line in listed.stdout.splitlines()}


def test_the_library_shows_the_c_api_and_nothing_else():
    assert exported() == set(_library.header.functions)


def test_every_declared_function_is_read():
    code = re.sub(r"/\*.*?\*/", "", HEADER, flags=re.S)
    assert set(re.findall(r"\b(anello_\w+)\(", code)) == set(_library.header.functions)


def test_sizes_and_numbers_are_those_of_the_compiler(tmp_path):
    structs = _library.header.structs
    lines = [f'printf("{name} %zu\\n", sizeof({name}));' for name in structs]
    for name, struct in structs.items():
        lines += [f'printf("{name}.{m} %zu\\n", offsetof({name}, {m}));' for m, _ in struct._fields_]
    lines += [f'printf("{name} %d\\n", (int){name});' for name in _library.header.constants]
    (tmp_path / "a.c").write_text("#include <anello/gpu.h>\n#include <stdio.h>\n"
                                  f"int main(void) {{ {''.join(lines)} }}")
    include = pathlib.Path(os.environ["ANELLO_SOURCE"]) / "ring" / "include"
    subprocess.run(["cc", f"-I{include}", tmp_path / "a.c", "-o", tmp_path / "a"], check=True)
    compiled = subprocess.run([tmp_path / "a"], check=True, capture_output=True, text=True).stdout
    ours = {name: ctypes.sizeof(struct) for name, struct in structs.items()}
    for name, struct in structs.items():
        ours.update({f"{name}.{m}": getattr(struct, m).offset for m, _ in struct._fields_})
    ours.update(_library.header.constants)
    assert dict(line.split() for line in compiled.splitlines()) == {name: str(number) for name, number in ours.items()}


def test_defaults_are_those_of_the_init_macros():
    options = _library.default("anello_options")
    assert (options.slab_bytes, options.prescale, options.struct_size) == (-1, 1.0, ctypes.sizeof(options))
    call = _library.default("anello_call")  # has structs in it
    assert (call.op, call.to, call.struct_size) == (_library.C.SUM, -1, ctypes.sizeof(call))
    assert call.input.dtype == call.output.dtype == _library.C.U8 and call.list is None and call.arrays_size == 0


@pytest.mark.parametrize("text", ["int anello_f(mystery x);", "int anello_f(int);"])
def test_a_declaration_that_is_not_understood_is_refused(text):
    with pytest.raises(ValueError, match="anello.h has a"):
        _header.read(text)


def test_importing_from_the_sources_says_what_to_install():
    environment = {**os.environ, "PYTHONPATH": os.path.join(os.environ["ANELLO_SOURCE"], "trainer", "python")}
    tried = subprocess.run([sys.executable, "-B", "-c", "import anello"], env=environment, capture_output=True, text=True)
    last = tried.stderr.splitlines()[-1]
    assert last.startswith("ImportError: ") and "anello.h" in last and "pip install ./trainer/python" in last


def test_importing_needs_neither_numpy_nor_torch():
    check = "import anello, sys; sys.exit(bool({'numpy', 'torch'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", check]).returncode == 0


def test_the_table_of_element_types_has_the_numbers_of_the_header():
    rows = re.findall(r'^ANELLO_ELEMENT_TYPE\(\w+, (\d+), [\w:]+, \d+, "(\w+)", "(\w+)"',
                      _library.text_of("element_types.def"), re.M)
    assert len(rows) == len(element_types.BY_NAME) == 15
    for value, text, name in rows:
        assert getattr(_library.C, text.upper()) == element_types.BY_NAME[name] == int(value)
