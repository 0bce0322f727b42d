"""The examples run, and learn."""
import os
import pathlib
import re
import subprocess
import sys

import pytest

FOLDER = pathlib.Path(os.environ["ANELLO_SOURCE"]) / "trainer" / "examples"


def run(name, ranks, *arguments):
    done = subprocess.run([os.environ["ANELLO_PROGRAM"], "run", "-n", str(ranks), "--no-prefix", "--", sys.executable,
                           "-B", str(FOLDER / name), *arguments], capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", ["numpy_sgd.py", "torch_digits.py", "torch_ddp.py"])
def test_digits_are_learned(name):
    accuracy, ranks = re.search(r"accuracy ([\d.]+) on (\d) ranks", run(name, 2)).groups()
    assert float(accuracy) > 0.9 and ranks == "2"


def test_one_call_makes_a_training_parallel_and_writes_a_checkpoint(tmp_path):
    assert "on 2 ranks" in run("parallelize.py", 2, str(tmp_path / "model.pt"))
    import torch
    assert torch.load(tmp_path / "model.pt")["epoch"] == 10


def test_process_sets_learn_their_own():
    assert run("process_sets.py", 4) == "factors 2.00 3.00 2.00 3.00\n"


def test_the_table_names_every_example():
    listed = re.findall(r"\[(\w+\.(?:py|sh))\]", (FOLDER / "README.md").read_text())
    assert sorted(listed + ["digits.py"]) == sorted(p.name for p in FOLDER.iterdir() if p.suffix in (".py", ".sh"))
