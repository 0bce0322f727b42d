"""The benchmark of TensorFlow runs, with Anello."""
import os
import pathlib
import subprocess
import sys

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "bench" / "tensorflow_training.py"


def test_it_measures_each_kind_of_case():
    done = subprocess.run([os.environ["ANELLO_PROGRAM"], "run", "-n", "2", "--no-prefix", "--", sys.executable, "-B",
                           str(SCRIPT), "anello", "--only", "eager-1K,function-64x1K,step-122,fit", "--seconds", "0"],
                          capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    rows = [row.split() for row in done.stdout.splitlines()]
    assert [name for name, _ in rows] == ["eager-1K", "function-64x1K", "step-122", "step-122-alone", "fit",
                                          "fit-alone"]
    assert all(float(microseconds) > 0 for _, microseconds in rows)
