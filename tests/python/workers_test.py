"""A DataLoader's workers are children of fork(): they must not keep a dead rank's connections open."""
import contextlib
import os
import signal
import subprocess
import sys

RANK = """
import os, pathlib, sys, time, anello, torch

def get(key, seconds):
    end = time.monotonic() + seconds
    while not (folder / key).exists():
        if time.monotonic() > end: raise TimeoutError(key)
        time.sleep(0.01)
    return (folder / key).read_text()

def put(key, value):
    (folder / f"{key}.{rank}").write_text(value)
    (folder / f"{key}.{rank}").rename(folder / key)

class Slow(torch.utils.data.Dataset):
    def __len__(self):
        return 4
    def __getitem__(self, index):
        if index > 0: time.sleep(600)  # longer than the test, also for the worker that looks for its parent
        return index

rank, folder = int(sys.argv[1]), pathlib.Path(sys.argv[2])
world = anello.init_through(rank, 2, put, get, settings=["ANELLO_SILENCE_LIMIT=0"])
batches = iter(torch.utils.data.DataLoader(Slow(), num_workers=2))
next(batches)
world.barrier()
if rank == 1:
    os.kill(os.getpid(), 9)
begun = time.monotonic()
try: world.barrier()
except anello.RankFailed as error:
    (folder / "told").write_text(f"rank {error.rank} {error.code}")
    (folder / "seconds").write_text(str(time.monotonic() - begun))
os._exit(0)
"""


def test_a_rank_that_dies_with_living_workers_is_told_at_once(tmp_path):
    # The ranks run without a launcher, which would also report the death, and without a limit of silence. So only the
    # connections show the death.
    ranks = [subprocess.Popen([sys.executable, "-c", RANK, str(rank), str(tmp_path)], start_new_session=True)
             for rank in range(2)]
    try:
        ranks[0].wait(timeout=120)
        assert (tmp_path / "told").read_text() == "rank 1 rank_dead"
        assert float((tmp_path / "seconds").read_text()) < 20  # the workers sleep for 600
    finally:
        for each in ranks:
            with contextlib.suppress(ProcessLookupError):  # the rank ended before it had workers
                os.killpg(each.pid, signal.SIGKILL)  # with its workers
            each.wait()
