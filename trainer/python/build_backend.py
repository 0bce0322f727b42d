"""Builds the wheel: runs CMake for the library and the launcher, and packs them with the modules.

Uses only the standard library, so that `pip install ./trainer/python` needs no network. It needs CMake, a C++20
compiler and the libraries that Anello itself needs (ring/cmake/README.md). Variables: CMAKE_ARGS, further arguments for
CMake; ANELLO_BUILD_DIR, a build folder to reuse.
"""
import base64
import hashlib
import os
import pathlib
import re
import shlex
import subprocess
import sysconfig
import tempfile
import zipfile

import licences

HERE = pathlib.Path(__file__).parent.resolve()
SOURCE = HERE.parent.parent


def _version():
    text = (SOURCE / "ring/include/anello/version.hpp").read_text()
    return ".".join(re.findall(r"^#define ANELLO_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", text, re.M))


def _tag():
    """The wheel fits any Python 3 and any torch, because the library uses neither. So the tag depends only on the
    machine."""
    return "py3-none-" + sysconfig.get_platform().replace("-", "_").replace(".", "_")


def _metadata():
    return (f"Metadata-Version: 2.1\nName: anello\nVersion: {_version()}\nRequires-Python: >=3.9\nLicense: MIT\n"
            "Summary: Allreduce between processes and machines, without MPI; Horovod's interface for PyTorch and TensorFlow\n"
            "Provides-Extra: torch\nRequires-Dist: torch>=1.13; extra == 'torch'\n"
            "Requires-Dist: cloudpickle; extra == 'torch'\n"
            "Provides-Extra: tensorflow\nRequires-Dist: tensorflow>=2.13; extra == 'tensorflow'\n"
            "Requires-Dist: cloudpickle; extra == 'tensorflow'\n"
            "Description-Content-Type: text/markdown\n\n" + (HERE / "README.md").read_text())


def _wheel_file():
    return f"Wheel-Version: 1.0\nGenerator: anello\nRoot-Is-Purelib: false\nTag: {_tag()}\n"


def _run(*command):
    subprocess.run([str(word) for word in command], check=True)


def compile_in(build):
    """Compiles the library and the launcher in a build folder."""
    _run("cmake", "-S", SOURCE, "-B", build, "-DCMAKE_BUILD_TYPE=Release", "-DANELLO_BUILD_TESTS=OFF",
         "-DANELLO_PYTHON=ON", *shlex.split(os.environ.get("CMAKE_ARGS", "")))
    _run("cmake", "--build", build, "--target", "anello_python", "anello_tensorflow", "anello", "--parallel",
         os.cpu_count() or 1)


def _add(wheel, record, name, data, executable=False):
    info = zipfile.ZipInfo(name)
    info.external_attr = (0o100755 if executable else 0o100644) << 16
    info.compress_type = zipfile.ZIP_DEFLATED
    wheel.writestr(info, data)
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    record.append(f"{name},sha256={digest},{len(data)}")


def _pack(target, files, launcher, licence_files):
    folder = f"anello-{_version()}"
    record = []
    with zipfile.ZipFile(target, "w") as wheel:
        for name, path in sorted(files.items()):
            _add(wheel, record, name, path.read_bytes(), path.suffix == ".so")
        _add(wheel, record, f"{folder}.data/scripts/anello", launcher.read_bytes(), executable=True)
        for name, path in sorted(licence_files.items()):
            _add(wheel, record, f"{folder}.dist-info/licenses/{name}", path.read_bytes())
        _add(wheel, record, f"{folder}.dist-info/METADATA", _metadata().encode())
        _add(wheel, record, f"{folder}.dist-info/WHEEL", _wheel_file().encode())
        record.append(f"{folder}.dist-info/RECORD,,")
        wheel.writestr(f"{folder}.dist-info/RECORD", "\n".join(record) + "\n")


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """PEP 517: builds a wheel in a folder, and returns its name.

    With the setting {"licenses": "libraries"} the wheel also has the licences of the libraries that it contains.
    """
    name = f"anello-{_version()}-{_tag()}.whl"
    with tempfile.TemporaryDirectory() as scratch:
        build = pathlib.Path(os.environ.get("ANELLO_BUILD_DIR") or pathlib.Path(scratch) / "build")
        install = pathlib.Path(scratch) / "install"
        compile_in(build)
        for component in ("python", "launcher"):
            _run("cmake", "--install", build, "--component", component, "--prefix", install, "--strip")
        package = next(install.rglob("anello/anello.h")).parent
        files = {path.relative_to(package.parent).as_posix(): path for path in package.rglob("*") if path.is_file()}
        licence_files = {"LICENSE": SOURCE / "LICENSE"}
        if (config_settings or {}).get("licenses") == "libraries":
            licence_files.update(licences.of_libraries(build))
        _pack(pathlib.Path(wheel_directory) / name, files, install / "bin" / "anello", licence_files)
    return name
