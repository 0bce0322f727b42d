"""Elastic jobs of real processes: a rendezvous, and scripts that join it."""
import contextlib
import os
import pathlib
import subprocess
import sys
import time

PROGRAM = os.environ["ANELLO_PROGRAM"]
LONG = 120


class Process:
    """A script of a job; its output is in files."""

    def __init__(self, path, command, environment):
        self.path = path
        self._files = [open(f"{path}.{name}", "w+") for name in ("out", "err")]
        self.popen = subprocess.Popen(command, stdout=self._files[0], stderr=self._files[1],
                                      env={**os.environ, **environment})

    def out(self):
        return pathlib.Path(f"{self.path}.out").read_text()

    def err(self):
        return pathlib.Path(f"{self.path}.err").read_text()

    def says(self, text, limit=LONG):
        """Waits until the process has printed this text."""
        end = time.monotonic() + limit
        while text not in self.out():
            assert time.monotonic() < end, self.err()
            assert self.popen.poll() is None or text in self.out(), self.err()
            time.sleep(0.005)

    def signal(self, number):
        self.popen.send_signal(number)

    def wait(self, limit=LONG):
        return self.popen.wait(limit)

    def end(self):
        if self.popen.poll() is None:
            self.popen.kill()
        self.popen.wait()
        for file in self._files:
            file.close()


class Job:
    """A rendezvous for an elastic job, and its processes."""

    def __init__(self, folder, minimum=1, maximum=4, first=1, silence_ms=10000):
        self.folder = folder
        self.processes = []
        self._environment = {"ANELLO_FLIGHT_DIR": "none", "ANELLO_SILENCE_LIMIT": str(silence_ms),
                             "PYTHONDONTWRITEBYTECODE": "1"}
        self._server = Process(folder / "server", [PROGRAM, "rendezvous", "--min-np", str(minimum), "--max-np",
                                                   str(maximum), "--np", str(first)], self._environment)
        self._server.says("ANELLO_RENDEZVOUS=")
        self._server.says("\n")
        self._environment["ANELLO_RENDEZVOUS"] = self._server.out().split("=")[1].split()[0]

    def start(self, *command):
        """Starts `python3 command...`."""
        path = self.folder / f"process{len(self.processes)}"
        made = Process(path, [sys.executable, "-u", *map(str, command)], self._environment)
        self.processes.append(made)
        return made

    def script(self, text):
        """Starts a script that is given as text."""
        return self.start("-c", text)

    def trainee(self, kind, fast_from):
        """Starts elastic_trainee.py. An undisturbed training takes about 40 s, even if processes start slowly."""
        path = self.folder / f"process{len(self.processes)}.steps"
        return self.start(pathlib.Path(__file__).with_name("elastic_trainee.py"), kind, path, 0.05 if kind == "integers" else 0.3, fast_from)

    def end(self):
        for each in [*self.processes, self._server]:
            each.end()


@contextlib.contextmanager
def job(folder, **options):
    """A job whose processes end with the block."""
    made = Job(folder, **options)
    try:
        yield made
    finally:
        made.end()
