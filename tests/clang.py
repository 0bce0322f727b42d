"""clang.py BUILD [JOBS]: compiles the product with clang, with the flags of BUILD, and makes no files. Warnings are
errors. This includes warnings about locks: a member whose declaration names its mutex (ring/base/mutex.hpp) may only be
used with that mutex locked. No class may be larger than class_sizes.py allows. Ends with 77 where clang is missing, or
if BUILD has no compile_commands.json.
"""
import concurrent.futures
import json
import os
import pathlib
import shlex
import shutil
import subprocess
import sys

import class_sizes

ROOT = pathlib.Path(__file__).resolve().parent.parent
ROOMS = ("ring", "gpu", "rendezvous", "trainer", "bench")
# Asio tests for coroutines by macros that only later versions of clang define.
FLAGS = ["-fsyntax-only", "-Wthread-safety", "-Werror", "-Wno-unknown-warning-option",
         "-Wno-unused-command-line-argument", "-DASIO_HAS_CO_AWAIT=1", "-DASIO_HAS_STD_COROUTINE=1"]


def is_product(file, build):
    """True for files of the product that clang can check. Excludes CUDA files, which have another compiler.

    Excludes the benchmarks of other libraries, which are built from the same sources.
    """
    for folder in (build, ROOT):
        if file.is_relative_to(folder):
            inner = file.relative_to(folder)
            return file.suffix != ".cu" and inner.parts[0] in ROOMS and "anello-bench-" not in str(inner)
    return False


def command_of(entry):
    words = shlex.split(entry["command"])
    del words[words.index("-o") : words.index("-o") + 2]
    compiler = "clang" if entry["file"].endswith(".c") else "clang++"
    return [compiler, *words[1:], *FLAGS, *class_sizes.FLAGS]


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    jobs = int(sys.argv[2]) if len(sys.argv) > 2 else os.cpu_count()
    commands = build / "compile_commands.json"
    if not shutil.which("clang++"):
        sys.exit(print("skipped: clang is not there (Debian: apt-get install clang)") or 77)
    if not commands.exists():
        sys.exit(print(f"skipped: {commands} is not there; CMake's presets make it") or 77)
    entries = [entry for entry in json.loads(commands.read_text()) if is_product(pathlib.Path(entry["file"]), build)]
    if len(entries) < len(ROOMS):
        sys.exit(f"{commands} has only {len(entries)} sources of the product")
    sizes = {}

    def compile_one(entry):
        with subprocess.Popen(command_of(entry), cwd=entry["directory"], stdout=subprocess.PIPE, text=True) as clang:
            sizes.update(class_sizes.sizes_in(clang.stdout))
        return clang.returncode

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        failed = sum(code != 0 for code in pool.map(compile_one, entries))
    complaints = class_sizes.complaints(sizes)
    print(f"{len(entries)} compiled, {failed} failed; {len(sizes)} classes", *complaints, sep="\n")
    sys.exit(failed > 0 or bool(complaints))


main()
