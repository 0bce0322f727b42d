"""The examples run, and learn."""
import gzip
import os
import pathlib
import re
import subprocess
import sys

import elastic_jobs
import pytest

FOLDER = pathlib.Path(os.environ["ANELLO_SOURCE"]) / "trainer" / "examples"


def run(name, ranks, *arguments):
    done = subprocess.run([os.environ["ANELLO_PROGRAM"], "run", "-n", str(ranks), "--no-prefix", "--", sys.executable,
                           "-B", str(FOLDER / name), *arguments], capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", ["plain_sgd.py", "numpy_sgd.py", "torch_digits.py", "torch_ddp.py"])
def test_digits_are_learned(name):
    accuracy, ranks = re.search(r"accuracy ([\d.]+) on (\d) ranks", run(name, 2)).groups()
    assert float(accuracy) > 0.9 and ranks == "2"


def test_digits_are_learned_by_an_elastic_job(tmp_path):
    with elastic_jobs.job(tmp_path, first=2) as made:
        ranks = [made.start(FOLDER / "elastic_digits.py") for _ in range(2)]
        assert [each.wait() for each in ranks] == [0, 0], ranks[0].err()
        accuracy = re.search("accuracy (.*) on 2 ranks after 450 steps", ranks[0].out() + ranks[1].out())[1]
        assert float(accuracy) > 0.9


def write_digits_as_mnist(folder):
    """Writes the digits of the examples as MNIST's four files, in MNIST's size. One of the files is compressed."""
    sys.path.insert(0, str(FOLDER))
    import digits
    for part, rows in zip(("train", "t10k"), digits.split(digits.rows())):
        images = bytes([0, 0, 8, 3]) + b"".join(size.to_bytes(4, "big") for size in (len(rows), 28, 28))
        for row in rows:
            images += bytes(row[8 * (y // 4) + x // 4] * 15 for y in range(2, 30) for x in range(2, 30))
        (folder / f"{part}-images-idx3-ubyte.gz").write_bytes(gzip.compress(images, 1))
        labels = bytes([0, 0, 8, 1]) + len(rows).to_bytes(4, "big") + bytes(row[64] for row in rows)
        (folder / f"{part}-labels-idx1-ubyte").write_bytes(labels)


def test_mnist_is_learned(tmp_path):
    write_digits_as_mnist(tmp_path)
    model = tmp_path / "model.pt"
    out = run("torch_mnist.py", 2, str(tmp_path), "--batch", "16", "--checkpoint", str(model))
    assert float(re.findall(r"accuracy ([\d.]+) on 2 ranks", out)[-1]) > 0.85
    assert model.exists()


def test_mnist_says_where_to_get_its_files(tmp_path):
    load = f"import mnist; mnist.load({str(tmp_path)!r}, 'train')"
    done = subprocess.run([sys.executable, "-B", "-c", load], capture_output=True, text=True, cwd=FOLDER)
    assert done.returncode == 1 and "fetch_mnist.sh" in done.stderr


def test_one_call_makes_a_training_parallel_and_writes_a_checkpoint(tmp_path):
    assert "on 2 ranks" in run("parallelize.py", 2, str(tmp_path / "model.pt"))
    import torch
    assert torch.load(tmp_path / "model.pt")["epoch"] == 10


def test_process_sets_learn_their_own():
    assert run("process_sets.py", 4) == "factors 2.00 3.00 2.00 3.00\n"


def test_the_slurm_script_trains_as_sbatch_starts_it_on_one_host():
    path = os.path.dirname(os.environ["ANELLO_PROGRAM"]) + os.pathsep + os.environ["PATH"]
    done = subprocess.run(["bash", str(FOLDER / "slurm.sh")], capture_output=True, text=True, timeout=200,
                          env={**os.environ, "SLURM_NTASKS": "2", "SLURM_SUBMIT_DIR": str(FOLDER), "PATH": path,
                               "PYTHON": sys.executable})
    assert done.returncode == 0 and "on 2 ranks" in done.stdout, done.stderr


def test_the_table_names_every_example():
    listed = re.findall(r"\[(\w+\.(?:py|sh))\]", (FOLDER / "README.md").read_text())
    files = [file.name for file in FOLDER.iterdir() if file.suffix in (".py", ".sh")]
    assert sorted(listed + ["digits.py", "mnist.py"]) == sorted(files)
