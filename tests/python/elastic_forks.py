"""Elastic jobs of real processes, for tests that kill, stop and add processes. The processes are forks of a process
that has imported torch, because this import takes longer than most tests.
"""
import contextlib
import itertools
import json
import os
import re
import runpy
import signal
import subprocess
import sys
import time

import elastic_jobs


def _until(condition, what):
    end = time.monotonic() + elastic_jobs.LONG
    while not condition():
        assert time.monotonic() < end, what()
        time.sleep(0.01)


class Nursery:
    """The process that forks the other processes. It has imported the given modules."""

    def __init__(self, *modules):
        self._popen = subprocess.Popen([sys.executable, "-B", __file__, *modules], text=True, bufsize=1,
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                       env={**os.environ, "OMP_NUM_THREADS": "1"})

    def ask(self, **question):
        print(json.dumps(question), file=self._popen.stdin)
        return json.loads(self._popen.stdout.readline())

    def end(self):
        self._popen.stdin.close()
        self._popen.wait()


def _answer(modules):
    """Forks processes until the input ends. Returns in each forked process, with its script."""
    for each in modules:
        __import__(each)
    for line in sys.stdin:
        question = json.loads(line)
        if "poll" in question:
            pid, status = os.waitpid(question["poll"], os.WNOHANG)
            print(json.dumps(os.WEXITSTATUS(status) - os.WTERMSIG(status) if pid else None), flush=True)
            continue
        pid = os.fork()
        if pid == 0:
            _redirect(question["out"])
            os.environ.update(question["environment"])
            return question["script"]
        print(pid, flush=True)
    return None


def _redirect(path):
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), 1)
    os.dup2(1, 2)


class Process:
    """A process that the nursery has forked."""

    def __init__(self, nursery, script, path, environment):
        self.path, self.code, self._nursery = path, None, nursery
        self.pid = nursery.ask(script=str(script), out=str(path), environment=environment)

    def out(self):
        with contextlib.suppress(FileNotFoundError), open(self.path, encoding="utf-8", errors="replace") as file:
            return file.read()
        return ""

    def has_ended(self):
        if self.code is None:
            self.code = self._nursery.ask(poll=self.pid)
        return self.code is not None

    def found(self, pattern):
        """Waits until the output matches."""
        _until(lambda: re.search(pattern, self.out()) or self.has_ended(), self.out)
        match = re.search(pattern, self.out())
        assert match, f"{pattern!r} is not in: {self.out()}"
        return match

    def ends(self):
        """Waits for the end of the process. Returns its exit code, which is negative if the process was killed."""
        _until(self.has_ended, self.out)
        return self.code

    def signal(self, number):
        if not self.has_ended():
            os.kill(self.pid, number)

    def end(self):
        self.signal(signal.SIGKILL)
        self.ends()


class Job(elastic_jobs.Job):
    """A rendezvous, and the processes of a script. The variable GO names a file that go() makes."""

    def __init__(self, nursery, folder, script, ranks, **options):
        super().__init__(folder, maximum=6, first=ranks, **options)
        self._environment.update(ANELLO_ELASTIC="1", GO=str(folder / "go"))
        self._nursery, self._numbers, self._script = nursery, itertools.count(), script
        self.add(ranks)

    def add(self, count=1, script=None):
        """Starts processes of the job's script, or of another script. Returns the last process."""
        for number in itertools.islice(self._numbers, count):
            path = self.folder / f"script{number}.py"
            path.write_text(script or self._script)
            self.processes.append(Process(self._nursery, path, path.with_suffix(".txt"), self._environment))
        return self.processes[-1]

    def found(self, pattern):
        """Waits until the output of all processes matches."""
        return [each.found(pattern) for each in self.processes]

    def at(self, rank):
        """The process whose script has printed this rank of the first world."""
        return next(each for each in self.processes if re.search(f"world 1: rank {rank} of", each.out()))

    def remove(self, process):
        self.processes.remove(process)
        return process

    def go(self):
        (self.folder / "go").touch()

    def outs(self):
        return "\n".join(each.out() for each in self.processes)


if __name__ == "__main__":
    _script = _answer(sys.argv[1:])
    if _script is not None:
        runpy.run_path(_script, run_name="__main__")
