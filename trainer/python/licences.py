"""Finds the licences of the libraries whose code a wheel contains. Debian's packages and CUDA's toolkit have their
texts."""
import os
import pathlib

DEBIAN = pathlib.Path("/usr/share")
PACKAGES = ("libasio-dev", "libcli11-dev", "libhwy-dev", "libpmix-dev", "libssl-dev", "libxxhash-dev", "nlohmann-json3-dev")


def of_libraries(build):
    """Licence files for a build in this folder, by name in a wheel. Raises FileNotFoundError if a file is missing."""
    files = {each: DEBIAN / "doc" / each / "copyright" for each in PACKAGES}
    files["Apache-2.0"] = DEBIAN / "common-licenses" / "Apache-2.0"  # Highway's and OpenSSL's refer to it
    for name, file in files.items():
        if not file.is_file():
            raise FileNotFoundError(f"the wheel contains code under the licence {file}, which is missing: install "
                                    f"{'base-files' if name == 'Apache-2.0' else name}")
    if (build / "gpu" / "libanello_gpu.so").exists():
        files["cuda-runtime"] = _of_cuda(pathlib.Path(os.environ.get("CUDAToolkit_ROOT", "/usr/local/cuda")))
    return files


def _of_cuda(toolkit):
    """Licences of CUDA's runtime, which the GPU plugin contains."""
    for pattern in "EULA.txt", "**/nvidia_cuda_runtime-*/**/License.txt":  # NVIDIA's archives; Python packages
        for file in toolkit.glob(pattern):
            return file
    raise FileNotFoundError(f"the GPU plugin contains CUDA's runtime, but there is no EULA.txt in {toolkit}: name the "
                            "toolkit's folder by CUDAToolkit_ROOT, or leave the plugin out by CMAKE_ARGS=-DANELLO_CUDA=OFF")
