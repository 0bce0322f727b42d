"""Starts a training with each library, and adds ranks: the tasks that the library's own launcher does not do."""
import os
import pathlib
import signal
import socket
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
TRAINING = str(pathlib.Path(__file__).with_name("training.py"))
# Seconds after which a silent rank is given up. PATIENT is for libraries in which this limit also limits the start of a
# replacement.
LIMIT, PATIENT = 5, 30


def free_port():
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        return made.getsockname()[1]


class Job:
    """A training in a folder. Its ranks write their diaries there, its launchers their output to *.log."""

    python = ROOT / "build/torch/bin/python"
    settings = {}

    def __init__(self, folder, size, most):
        self.folder, self.size, self.most = str(folder), size, most
        self.processes = []
        self.environment = {"PYTHONPATH": str(ROOT / "build/release/python"), **os.environ, "OMP_NUM_THREADS": "1",
                            "ELASTIC_LIMIT": str(LIMIT), "PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1",
                            **self.settings}

    def run(self, *command, **environment):
        """Starts a program in a process group of its own."""
        log = open(f"{self.folder}/{len(self.processes)}.log", "w")
        made = subprocess.Popen([str(word) for word in command], cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log,
                                stderr=log, env={**self.environment, **environment}, process_group=0)
        self.processes.append(made)
        return made

    def training(self, *more):
        return [self.python, TRAINING, self.library, self.folder, str(self.size), str(self.most), *more]

    def tend(self):
        """Called again and again: does the work of a cluster manager."""

    def running(self):
        """True if the library has not given up the training."""
        return self.processes[0].poll() is None

    def end(self):
        for each in self.processes:
            if each.poll() is None:
                os.killpg(each.pid, signal.SIGKILL)
            each.wait()


class Anello(Job):
    library = "anello"
    program = os.environ.get("ANELLO_PROGRAM", ROOT / "build/release/rendezvous/anello")
    settings = {"ANELLO_SILENCE_LIMIT": str(LIMIT * 1000), "ANELLO_FLIGHT_DIR": "none"}

    def command(self):
        return self.training()

    def start(self):
        self.run(self.program, "run", "-n", self.size, "--min-np", 1, "--max-np", self.most, "--max-restarts", 1000, "--",
                 *self.command())

    def name(self):
        """The name of the job, which its ranks have in their environment."""
        children = f"/proc/{self.processes[0].pid}/task/{self.processes[0].pid}/children"
        keeper = pathlib.Path(children).read_text().split()[0]
        rank = pathlib.Path(f"/proc/{keeper}/task/{keeper}/children").read_text().split()[0]
        variables = pathlib.Path(f"/proc/{rank}/environ").read_text().split("\0")
        return next(each.removeprefix("ANELLO_JOB=") for each in variables if each.startswith("ANELLO_JOB="))

    def resize(self, size):
        return self.run(self.program, "resize", "--job", self.name(), size)

    def grow(self):
        self.resize(self.most)


class AnelloHorovod(Anello):
    library = "anello-horovod"


class Horovod(Job):
    library = "horovod"
    python = ROOT / "build/elastic/horovod/bin/python"
    settings = {"HOROVOD_GLOO_TIMEOUT_SECONDS": str(PATIENT)}
    hosts = ["localhost", "127.0.0.1", socket.gethostname(), "LOCALHOST"]  # a failure costs a job the whole host

    def _list(self, count):
        pathlib.Path(self.folder, "hosts.part").write_text("".join(f"{host}:1\n" for host in self.hosts[:count]))
        os.replace(f"{self.folder}/hosts.part", f"{self.folder}/hosts")

    def start(self):
        self._list(self.size)
        script = pathlib.Path(self.folder, "discover.sh")
        script.write_text(f"#!/bin/sh\ncat {self.folder}/hosts\n")
        script.chmod(0o755)
        self.run(self.python, "-m", "horovod.runner.launch", "--gloo", "-np", self.size, "--min-np", 1, "--max-np",
                 self.most, "--host-discovery-script", script, "--blacklist-cooldown-range", 1, 2, *self.training())

    def grow(self):
        self._list(self.most)


class Torchrun(Job):
    library = "torchrun"
    # Without the second variable, a rank that joins waits for an address that nobody writes (PyTorch 2.15).
    settings = {"ELASTIC_LIMIT": str(PATIENT), "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}

    # A job with one agent for all ranks restarts them soonest. But a rank that joins needs an agent of its own, and
    # then each other rank needs its own agent too.
    def _agent(self, nodes, ranks):
        self.run(self.python, "-m", "torch.distributed.run", f"--nnodes={nodes}", f"--nproc-per-node={ranks}",
                 "--max-restarts=100", "--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{self.port}", "--rdzv-id=bench",
                 "--rdzv-conf=last_call_timeout=1", TRAINING, *self.training()[2:])

    def start(self):
        self.port = free_port()
        if self.most == self.size:
            return self._agent(1, self.size)
        for _ in range(self.size):
            self._agent(f"{self.size}:{self.most}", 1)

    def grow(self):
        self._agent(f"{self.size}:{self.most}", 1)

    def running(self):
        return all(each.poll() is None for each in self.processes)


class Torchft(Job):
    library = "torchft"
    python = ROOT / "build/elastic/torchft/bin/python"

    def start(self):
        port = free_port()
        self.environment["TORCHFT_LIGHTHOUSE"] = f"http://127.0.0.1:{port}"
        self.run(ROOT / "build/elastic/torchft/bin/torchft_lighthouse", "--min_replicas", 1, "--quorum_tick_ms", 100,
                 "--join_timeout_ms", 10000, "--bind", f"127.0.0.1:{port}")
        self.ranks = [self._rank(place) for place in range(self.size)]

    def _rank(self, place):
        return self.run(*self.training(place))

    def tend(self):
        for place, rank in enumerate(self.ranks):
            if rank.poll() is not None:
                self.ranks[place] = self._rank(place)

    def grow(self):
        self.ranks.append(self._rank(len(self.ranks)))


LIBRARIES = {each.library: each for each in (Anello, AnelloHorovod, Horovod, Torchrun, Torchft)}


def version_of(job, package):
    """The version of a package in the environment of a library, or None."""
    found = subprocess.run([job.python, "-c", f"import importlib.metadata as it; print(it.version('{package}'))"],
                           capture_output=True, text=True, check=False)
    return found.stdout.strip() or None


if __name__ == "__main__":
    sys.exit("this is a part of bench/elastic.sh")
