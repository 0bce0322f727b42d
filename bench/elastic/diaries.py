"""The lines that ranks write about their worlds and steps, and conclusions from them."""
import collections
import itertools
import os
import signal
import time

SAMPLES, BATCH = 960, 48  # 20 steps an epoch
SEED = 1
PACE = float(os.environ.get("ELASTIC_PACE", 0.01))  # length in seconds of a step in which a rank computes nothing

World = collections.namedtuple("World", "token rank size")
Taken = collections.namedtuple("Taken", "step epoch samples")
Step = collections.namedtuple("Step", "time pid world taken result")


class Diary:
    """Writes a line for each world, each share of a batch and each step, with the time in ns."""

    def __init__(self, folder):
        self.folder = folder
        self._file = os.open(os.path.join(folder, str(os.getpid())), os.O_CREAT | os.O_WRONLY | os.O_APPEND)

    def write(self, *words):
        os.write(self._file, " ".join(map(str, (time.monotonic_ns(), *words, "\n"))).encode())

    def world(self, token, rank, size):
        self.write("world", token, rank, size)

    def take(self, step, epoch, samples):
        """Records this rank's share of a step, after a pause as long as the computing of a training."""
        time.sleep(PACE)
        self.write("take", step, epoch, *map(int, samples))

    def step(self, result=0):
        """Records that the rank has committed its share. `result` is equal on ranks that hold the same state."""
        self.write("step", result)


class Diaries:
    """The diaries in a folder. read() reads the new lines of all ranks, or only those of the rank `only`."""

    def __init__(self, folder):
        self.folder, self.only = folder, None
        self.steps = []  # ordered by time when all lines have been read
        self._files = {}              # by pid: an open file, and an unfinished line
        self._world, self._taken = {}, {}  # by pid: the newest world, and the newest share
        self.worlds = {}              # by token: by pid
        self.first_steps = {}         # by token: by pid, the time
        self._all_taken = {}          # by (token, step): by pid

    def read(self):
        for name in os.listdir(self.folder) if self.only is None else ():
            if name.isdigit() and int(name) not in self._files:
                self._files[int(name)] = [open(os.path.join(self.folder, name)), ""]
        for pid in self._files if self.only is None else (self.only,):
            file = self._files[pid]
            *lines, file[1] = (file[1] + file[0].read()).split("\n")
            for line in lines:
                self._line(pid, line.split())
        self.steps.sort(key=lambda step: step.time)

    def _line(self, pid, words):
        when, kind, numbers = int(words[0]) / 1e9, words[1], words[2:]
        if kind == "world":
            self._world[pid] = World(numbers[0], int(numbers[1]), int(numbers[2]))
            self.worlds.setdefault(numbers[0], {})[pid] = self._world[pid]
        elif kind == "take":
            taken = self._taken[pid] = Taken(int(numbers[0]), int(numbers[1]), [int(each) for each in numbers[2:]])
            self._all_taken.setdefault((self._world[pid].token, taken.step), {})[pid] = taken
        else:
            world = self._world[pid]
            self.steps.append(Step(when, pid, world, self._taken[pid], numbers[0]))
            self.first_steps.setdefault(world.token, {}).setdefault(pid, when)

    def pids(self):
        return list(self._files)

    def begun(self, token):
        """The time at which all ranks of a world had taken a step in it, or None."""
        ranks, first = self.worlds[token], self.first_steps.get(token, {})
        size = next(iter(ranks.values())).size
        return max(first.values()) if len(ranks) == len(first) == size else None

    def next_world(self, since, old, size=None):
        """The time at which the first world of this size that is not in `old` had begun, after `since`; or None."""
        times = [self.begun(token) for token, ranks in self.worlds.items()
                 if token not in old and size in (None, next(iter(ranks.values())).size)]
        return min((time for time in times if time is not None and time > since), default=None)

    def world_of(self, pid):
        """The newest world of a rank, or None."""
        return self._world.get(pid)

    def newest(self):
        """The token of the world in which the last step was taken."""
        return self.steps[-1].world.token

    def longest_pause(self, since, until):
        """The longest time between two moments in which no rank took a step."""
        times = [step.time for step in self.steps if since <= step.time <= until]
        return max((b - a for a, b in itertools.pairwise([since, *times])), default=None)

    def lineage(self):
        """The steps that made the final state, by number, with their worlds; and the steps that were undone, with their
        times."""
        final, undone = {}, []
        for step in self.steps:
            number, token = step.taken.step, step.world.token
            if final.get(number) == token:
                continue
            for later in [each for each in final if each >= number]:
                undone.append((step.time, final.pop(later)))
            final[number] = token
        return final, undone

    def samples(self, token, step):
        return [sample for taken in self._all_taken[token, step].values() for sample in taken.samples]

    def account(self, since, until):
        """Counts lost and repeated samples of the epochs between two moments, and the sizes of global batches.

        The newest epoch is left out, because it is not complete.
        """
        final, undone = self.lineage()
        epochs = collections.defaultdict(list)  # by number: the samples of each step
        for number, token in sorted(final.items()):
            epoch = next(iter(self._all_taken[token, number].values())).epoch
            epochs[epoch].append(self.samples(token, number))
        before = [step.taken.epoch for step in self.steps if step.time <= since]
        within = [step.taken.epoch for step in self.steps if since < step.time <= until]
        first = min(before[-1:] + within)
        unfinished = self.steps[-1].taken.epoch
        touched = [epoch for epoch in epochs if first <= epoch <= max(within, default=first) and epoch < unfinished]
        lost = repeated = 0
        sizes = set()
        for epoch in touched:
            counts = collections.Counter(itertools.chain(*epochs[epoch]))
            lost += SAMPLES - len(counts)
            repeated += sum(counts.values()) - len(counts)
            sizes.update(len(samples) for samples in epochs[epoch][:-1])
        return {"lost": lost, "repeated": repeated, "batch": [min(sizes), max(sizes)] if sizes else [],
                "epochs": len(touched),
                "redone": sum(1 for time, _ in undone if since < time <= until)}

    def alive(self, pid):
        return is_rank(pid, self.folder)

    def send(self, pid, number):
        """Sends a signal to a rank, and returns True, unless it has ended."""
        if not self.alive(pid):
            return False
        os.kill(pid, number)
        return True

    def end(self):
        for pid in self.pids():
            self.send(pid, signal.SIGKILL)


def is_rank(pid, folder):
    """Whether the process is a running rank that writes its diary in this folder."""
    try:
        with open(f"/proc/{pid}/cmdline") as file, open(f"/proc/{pid}/stat") as stat:
            return folder in file.read().split("\0") and stat.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False
