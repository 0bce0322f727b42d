"""The library with TensorFlow's ops, in a process without TensorFlow."""
import subprocess
import sys


def printed(script):
    done = subprocess.run([sys.executable, "-B", "-c", script], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")


def test_it_is_not_loaded_with_the_package():
    script = "import anello, anello.horovod.basics; print('libanello_tensorflow' in open('/proc/self/maps').read())"
    assert printed(script)[0] == "False"


def test_it_says_why_there_are_no_ops():
    script = """
import anello, ctypes, pathlib, re
library = ctypes.CDLL(str(pathlib.Path(anello.__file__).parent / "libanello_tensorflow.so"))
library.anello_tensorflow_failure.restype = ctypes.c_char_p
print(library.anello_tensorflow_failure().decode())
print(len(set(re.findall("/.*/libanello[.]so", open("/proc/self/maps").read()))))
"""
    said, engines, *_ = printed(script)
    assert said == "libtensorflow_framework.so.2 is not loaded: import tensorflow first"
    assert engines == "1"  # the library that Python has loaded
