"""The benchmark of training with torch runs, and checks the averages that it measures."""
import os
import pathlib
import subprocess
import sys

SCRIPT = pathlib.Path(os.environ["ANELLO_SOURCE"]) / "bench" / "torch_training.py"


def test_it_measures_a_step_of_each_kind():
    done = subprocess.run([os.environ["ANELLO_PROGRAM"], "run", "-n", "2", "--no-prefix", "--", sys.executable, "-B",
                           str(SCRIPT), "--backward", "1", "-r", "1"], capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    header, *rows = done.stdout.splitlines()
    assert header.split()[0] == "step"
    assert [row.split("  ")[0] for row in rows] == ["alone", "DistributedDataParallel, gloo",
                                                    "DistributedDataParallel, anello", "the same, shared_memory_hook",
                                                    "the same, nothing is sent", "DistributedOptimizer, anello"]
    assert all(float(row.split()[-3]) > 0 for row in rows)
