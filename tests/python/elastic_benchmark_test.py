"""bench/elastic.sh: the conclusions that it draws from given diaries, and from a disturbed job that it runs."""
import argparse
import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(os.environ["ANELLO_SOURCE"]) / "bench" / "elastic"))
import compare
import diaries
import jobs
import report


class Written:
    """Diaries of ranks with pids 1, 2, ... whose steps take a second. An epoch has two steps."""

    def __init__(self, folder):
        self.folder, self.time = folder, 0
        self.lines = {}

    def world(self, token, *pids):
        for rank, pid in enumerate(pids):
            self._write(pid, "world", token, rank, len(pids))
        self.pids = pids

    def take(self, step, shares, committed=True):
        self.time += 1
        for pid, samples in zip(self.pids, shares):
            self._write(pid, "take", step, step // 2, *samples)
        for pid in self.pids if committed else ():
            self._write(pid, "step", 0)

    def _write(self, pid, *words):
        self.lines.setdefault(pid, []).append(" ".join(map(str, (self.time * 10**9, *words))))

    def read(self):
        for pid, lines in self.lines.items():
            (self.folder / str(pid)).write_text("\n".join(lines) + "\n")
        made = diaries.Diaries(str(self.folder))
        made.read()
        return made


@pytest.fixture
def written(tmp_path, monkeypatch):
    monkeypatch.setattr(diaries, "SAMPLES", 6)
    made = Written(tmp_path)
    made.world("a", 1, 2, 3)
    made.take(0, [[0], [1], [2]])
    made.take(1, [[3], [4], [5]])
    return made


def test_a_step_that_failed_counts_once(written):
    written.take(2, [[0], [1], [2]], committed=False)
    written.world("b", 1, 2)
    written.take(2, [[0, 1], [2]])
    written.take(3, [[3, 4], [5]])
    written.take(4, [[0], []])  # of an epoch that is not complete
    found = written.read()
    assert found.account(2, 9) == {"lost": 0, "repeated": 0, "batch": [3, 3], "epochs": 2, "redone": 0}
    assert found.next_world(2, {"a"}) == 4
    assert found.next_world(2, {"a"}, 3) is None
    assert found.longest_pause(2, 5) == 2


def test_lost_and_repeated_samples_and_another_batch_are_found(written):
    written.world("b", 1, 2)
    written.take(2, [[0], [2]])
    written.take(3, [[3, 4], [5, 5]])
    written.take(4, [[0], []])
    account = written.read().account(2, 9)
    assert (account["lost"], account["repeated"], account["batch"]) == (1, 1, [2, 3])


def test_steps_after_a_snapshot_are_undone(written):
    written.take(2, [[0], [1], [2]])
    written.world("b", 1, 2, 3)
    written.take(1, [[3], [4], [5]])
    written.take(2, [[0], [1], [2]])
    written.take(3, [[3], [4], [5]])
    written.take(4, [[0], [1], [2]])
    found = written.read()
    assert found.account(3, 9) == {"lost": 0, "repeated": 0, "batch": [3, 3], "epochs": 2, "redone": 2}


def test_a_world_has_begun_when_all_its_ranks_have_taken_a_step(written):
    written.world("b", 1, 2)
    written.lines[2].pop()  # its second rank has not come yet
    written.pids = (1,)
    written.take(2, [[0, 1]])
    assert written.read().next_world(2, {"a"}) is None


class Light(jobs.Anello):
    python = sys.executable

    def command(self):
        script = pathlib.Path(compare.__file__).with_name("light.py")
        return [self.python, "-S", script, "steps", self.folder, "100"]


def test_a_job_is_disturbed_and_goes_on(monkeypatch, capsys):
    monkeypatch.setitem(jobs.LIBRARIES, "light", Light)
    monkeypatch.setitem(report.NAMES, "light", "Light")
    results, options = {}, argparse.Namespace(limit=100, keep=None)
    compare.visit("light", ["kill", "kill rank 0"], 2, 2, options, results, 1)
    compare.visit("light", ["add"], 2, 3, options, results, 1)
    for event, (found,) in results["light"].items():
        assert "failed" not in found, (event, found)
        assert (found["lost"], found["repeated"], found["redone"], found["batch"]) == (0, 0, 0, [48, 48]), (event, found)
        assert found["pause"] > 0
        assert 0 < found["next"] <= found["full"]
    text = report.markdown({"machine": "a machine", "load": [[1], [2]], "versions": {"light": "1"}, "missing": ["x: no"],
                            "results": results})
    assert "- left out: x: no" in text
    assert text.count("| Light |") == 3
