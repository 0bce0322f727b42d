"""The wheel and the installed folder work without the sources. By default nothing is compiled, because the tests use
the existing build. With ANELLO_PIP_COMPILES=1 pip compiles, which takes minutes.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import zipfile

import pytest

SOURCE = pathlib.Path(os.environ["ANELLO_SOURCE"])
BUILD = pathlib.Path(os.environ["ANELLO_BUILD"])
EXAMPLES = SOURCE / "trainer" / "examples"


@pytest.fixture(scope="module")
def backend():
    sys.path.insert(0, str(SOURCE / "trainer" / "python"))
    import build_backend
    build_backend.compile_in = lambda build: None
    os.environ["ANELLO_BUILD_DIR"] = str(BUILD)
    return build_backend


@pytest.fixture(scope="module")
def wheel(backend, tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    return folder / backend.build_wheel(folder)


def train(program, python, example="numpy_sgd.py", **environment):
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run([program, "run", "-n", "2", "--", python, "-B", EXAMPLES / example],
                          env={**clean, **environment}, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0 and "on 2 ranks" in done.stdout, done.stderr


def test_the_wheel_has_what_it_lists(wheel):
    with zipfile.ZipFile(wheel) as packed:
        names = packed.namelist()
        record = next(name for name in names if name.endswith("RECORD"))
        listed = [line.split(",")[0] for line in packed.read(record).decode().splitlines()]
    assert sorted(listed) == sorted(names)
    assert {"anello/__init__.py", "anello/libanello.so", "anello/libanello_tensorflow.so", "anello/anello.h",
            "anello/py.typed"} <= set(names)


def test_none_of_its_binaries_looks_for_libraries_where_it_is_started(wheel, tmp_path):
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(tmp_path)
    binaries = [path for path in tmp_path.rglob("*") if path.is_file() and path.read_bytes()[:4] == b"\x7fELF"]
    assert {"anello", "libanello.so"} <= {path.name for path in binaries}
    for path in binaries:
        dynamic = subprocess.run(["readelf", "--dynamic", path], check=True, capture_output=True, text=True).stdout
        for folders in re.findall(r"\((?:RPATH|RUNPATH)\).*\[(.*)\]", dynamic):
            assert all(each.startswith("$ORIGIN") for each in folders.split(":")), (path.name, folders)


def test_a_wheel_for_others_has_the_licences_of_its_libraries(backend, tmp_path, monkeypatch):
    """The build uses the setting of wheel.sh. A missing licence is an error that names the library's package."""
    debian, cuda, settings = tmp_path / "share", tmp_path / "cuda", {"licenses": "libraries"}
    monkeypatch.setattr(backend.licences, "DEBIAN", debian)
    monkeypatch.setenv("CUDAToolkit_ROOT", str(cuda))
    packages = backend.licences.PACKAGES
    for file in [f"doc/{each}/copyright" for each in packages] + ["common-licenses/Apache-2.0"]:
        (debian / file).parent.mkdir(parents=True, exist_ok=True)
        (debian / file).write_text(file)
    if (BUILD / "gpu" / "libanello_gpu.so").exists():
        with pytest.raises(FileNotFoundError, match="CUDAToolkit_ROOT"):
            backend.build_wheel(tmp_path, settings)
    cuda.mkdir()
    (cuda / "EULA.txt").write_text("of CUDA")
    with zipfile.ZipFile(tmp_path / backend.build_wheel(tmp_path, settings)) as packed:
        texts = {name.split("dist-info/licenses/")[1]: packed.read(name).decode() for name in packed.namelist()
                 if "dist-info/licenses/" in name}
    assert {each: texts[each] for each in packages} == {each: f"doc/{each}/copyright" for each in packages}
    assert {"Apache-2.0", "LICENSE"} <= set(texts)
    (debian / "doc" / "libssl-dev" / "copyright").unlink()
    with pytest.raises(FileNotFoundError, match="install libssl-dev"):
        backend.build_wheel(tmp_path, settings)


def test_pip_installs_it_without_a_network(wheel, tmp_path):
    subprocess.run([sys.executable, "-m", "venv", "--system-site-packages", "--without-pip", tmp_path], check=True)
    python = tmp_path / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--no-index", "--quiet", wheel], check=True)
    train(tmp_path / "bin" / "anello", python)


def stand_in_for_cmake(folder):
    """Environment variables with which the build finds a fake CMake, which uses the library that is already built."""
    folder.mkdir()
    (folder / "cmake").write_text(f'#!/bin/sh\n[ "$1" != --install ] || exec "{shutil.which("cmake")}" "$@"\n')
    (folder / "cmake").chmod(0o755)
    return {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}", "ANELLO_BUILD_DIR": str(BUILD)}


def test_pip_installs_the_folder_where_there_is_nothing_else(tmp_path):
    """The environment has no network, no numpy and no torch."""
    venv = tmp_path / "venv"
    cmake = {} if os.environ.get("ANELLO_PIP_COMPILES") == "1" else stand_in_for_cmake(tmp_path / "tools")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    subprocess.run([sys.executable, "-m", "pip", "--python", venv / "bin" / "python", "install", "--quiet",
                    SOURCE / "trainer" / "python"], check=True,
                   env={**clean, **cmake, "PYTHONDONTWRITEBYTECODE": "1", "PIP_INDEX_URL": "http://127.0.0.1:9"})
    train(venv / "bin" / "anello", venv / "bin" / "python", "plain_sgd.py")


def test_make_compiles_what_it_links(tmp_path):
    """pip uses make if Ninja is not requested. The compiler is a fake that writes empty files, to be quick."""
    compiler = tmp_path / "compiler"
    compiler.write_text('#!/bin/sh\nuntil [ "$1" = -o ]; do shift; done\n: >"$2"\nchmod +x "$2"\n')
    compiler.chmod(0o755)
    launchers = " ".join(f"-DCMAKE_CXX_{step}_LAUNCHER={compiler}" for step in ("COMPILER", "LINKER"))
    compiling = "import sys, build_backend; build_backend.compile_in(sys.argv[1])"
    variables = {"CMAKE_GENERATOR": "Unix Makefiles", "CMAKE_ARGS": f"-DANELLO_CUDA=OFF {launchers}"}
    done = subprocess.run([sys.executable, "-B", "-c", compiling, tmp_path / "build"], env={**os.environ, **variables},
                          cwd=SOURCE / "trainer" / "python", capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_cmake_installs_it(tmp_path):
    subprocess.run(["cmake", "--install", BUILD, "--component", "python", "--prefix", tmp_path], check=True,
                   stdout=subprocess.DEVNULL)
    train(os.environ["ANELLO_PROGRAM"], sys.executable, PYTHONPATH=str(next(tmp_path.rglob("dist-packages"))))
