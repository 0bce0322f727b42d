"""Tests the wheel that trainer/python/wheel.sh makes: its requirements, and a training where there is no compiler."""
import os
import pathlib
import re
import subprocess
import sys
import zipfile

import pytest

SOURCE = pathlib.Path(os.environ["ANELLO_SOURCE"])
GLIBC, GLIBCXX = (2, 35), (3, 4, 30)  # the versions of Ubuntu 22.04; Debian 12 has 2.36
# The licences in the wheel, each with words from its text: Anello's licence, and those of code that is included or
# linked statically.
LICENCES = {"Apache-2.0": "Apache License", "LICENSE": "The Anello authors", "libasio-dev": "Kohlhoff",
            "libcli11-dev": "University of Cincinnati", "libhwy-dev": "Google", "libpmix-dev": "Open MPI",
            "libssl-dev": "The OpenSSL Project Authors", "libxxhash-dev": "Yann Collet",
            "nlohmann-json3-dev": "Niels Lohmann"}
LIBRARIES = {"libc.so.6", "libm.so.6", "libgcc_s.so.1", "libstdc++.so.6", "ld-linux-x86-64.so.2", "libanello.so"}


@pytest.fixture(scope="module")
def wheel():
    subprocess.run(["bash", SOURCE / "trainer" / "python" / "wheel.sh"], check=True)
    (made,) = (SOURCE / "build" / "wheel").glob("*.whl")
    return made


@pytest.fixture(scope="module")
def binaries(wheel, tmp_path_factory):
    folder = tmp_path_factory.mktemp("unpacked")
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(folder)
    return {path.name: path for path in folder.rglob("*")
            if path.is_file() and path.read_bytes()[:4] == b"\x7fELF"}


def readelf(option, path):
    return subprocess.run(["readelf", "--wide", option, path], check=True, capture_output=True, text=True).stdout


def newest(prefix, path):
    """The newest version of a library's symbols that a binary requires."""
    found = re.findall(rf"Name: {prefix}_([0-9.]+) ", readelf("--version-info", path))
    return max((tuple(map(int, each.split("."))) for each in found), default=(0,))


def test_its_tag_serves_the_systems_that_are_promised(wheel):
    name = re.fullmatch(r"anello-[0-9.]+-py3-none-manylinux_(\d+)_(\d+)_x86_64\.whl", wheel.name)
    assert name and tuple(map(int, name.groups())) <= GLIBC, wheel.name


def test_it_has_the_launcher_and_all_libraries_and_needs_what_every_system_has(binaries):
    assert {"anello", "libanello.so", "libanello_tensorflow.so"} <= set(binaries)
    for name, path in binaries.items():
        needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", readelf("--dynamic", path)))
        assert needed and needed <= LIBRARIES, (name, needed)
        assert newest("GLIBC", path) <= GLIBC and newest("GLIBCXX", path) <= GLIBCXX, name


def test_it_has_the_licences_of_the_libraries_that_it_contains(wheel, binaries):
    words = {**LICENCES, **({"cuda-runtime": "NVIDIA"} if "libanello_gpu.so" in binaries else {})}
    with zipfile.ZipFile(wheel) as packed:
        texts = {pathlib.PurePath(name).name: packed.read(name).decode() for name in packed.namelist()
                 if "dist-info/licenses/" in name and not name.endswith("/")}
    assert set(texts) == set(words)
    assert all(word in texts[name] for name, word in words.items())


def test_two_ranks_train_without_a_compiler(wheel, tmp_path):
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path], check=True)
    python = tmp_path / "bin" / "python"
    subprocess.run([sys.executable, "-m", "pip", "--python", python, "install", "--no-index", "--quiet", wheel],
                   check=True)
    clean = {"PATH": str(tmp_path / "bin"), "HOME": str(tmp_path)}
    done = subprocess.run([tmp_path / "bin" / "anello", "run", "-n", "2", "--", python, "-B", "-c", """
import anello
with anello.init() as world:
    parameter = 0.0
    for _ in range(50):
        parameter -= 0.1 * world.average(2 * (parameter - world.rank))
    print("rank", world.rank, round(parameter, 3), flush=True)
"""], env=clean, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0 and done.stdout.count(" 0.5\n") == 2, done.stdout + done.stderr
    assert "OpenSSL" not in done.stderr, done.stderr
