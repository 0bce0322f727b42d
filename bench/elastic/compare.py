"""compare.py: disturbs trainings of several libraries in turn, and measures how they go on. See bench/elastic.sh."""
import argparse
import json
import os
import pathlib
import random
import shutil
import signal
import sys
import tempfile
import time

import diaries
import jobs
import report

POLL = 0.02


class Ended(Exception):
    """The job has ended, or has not come to a state in time."""


class Visit:
    """A job of one library, and the events that disturb it."""

    def __init__(self, library, size, most, limit, seed, out):
        self.folder = tempfile.mkdtemp(prefix="anello-elastic-")
        self.job = jobs.LIBRARIES[library](self.folder, size, most)
        self.diaries = diaries.Diaries(self.folder)
        self.size, self.most, self.limit, self.random, self.out = size, most, limit, random.Random(seed), out

    def wait(self, condition, limit):
        """Calls the condition until it returns a true value, and returns this value."""
        end = time.monotonic() + limit
        while True:
            self.job.tend()
            self.diaries.read()
            result = condition()
            if result:
                return result
            if time.monotonic() > end:
                raise Ended(f"not within {limit:.0f} s")
            if not self.job.running():
                raise Ended("the job ended")
            time.sleep(POLL)

    def steady(self, size):
        """Waits until a world of this size has taken some steps, and is the newest one."""

        def holds():
            if not self.diaries.steps:
                return False
            token = self.diaries.newest()
            ranks = self.diaries.worlds[token]
            counts = {pid: 0 for pid in ranks}
            for step in self.diaries.steps[-60 * size:]:
                if step.world.token == token:
                    counts[step.pid] = counts.get(step.pid, 0) + 1
            return len(ranks) == size and min(counts.values()) >= 25

        self.wait(holds, 300)

    def event(self, name):
        """Makes one disturbance. Returns the measured values; times are in seconds."""
        self.steady(self.size)
        time.sleep(self.random.uniform(0, 0.1))
        self.diaries.read()
        old = set(self.diaries.worlds)
        by_rank = {each.rank: pid for pid, each in self.diaries.worlds[self.diaries.newest()].items()}
        victim = by_rank[0 if name == "kill rank 0" else self.random.randrange(1, self.size)]
        found = {"load": os.getloadavg()[0]}
        size = self.most if name == "add" else self.size
        since = time.monotonic()
        try:
            if name == "add":
                self.job.grow()
            else:
                self.diaries.send(victim, signal.SIGSTOP if name == "stop" else signal.SIGKILL)
            begun = self.wait(lambda: self.diaries.next_world(since, old), self.limit)
            found["next"] = begun - since
            full = self.wait(lambda: self.diaries.next_world(since, old, size), self.limit)
            found["full"] = full - since
            found["pause"] = self.diaries.longest_pause(since, full)
            last = max(step.taken.epoch for step in self.diaries.steps if step.time <= full)
            self.wait(lambda: self.diaries.steps[-1].taken.epoch > last + 1, self.limit)
            found.update(self.diaries.account(since, full))
        except Ended as ended:
            found["failed"] = str(ended)
        finally:
            if name == "stop":
                self.diaries.send(victim, signal.SIGCONT)
        if "failed" in found and "next" in found:  # it went on, but was not complete again
            found.update(self.diaries.account(since, self.diaries.steps[-1].time))
        return found

    def __enter__(self):
        self.job.start()
        return self

    def __exit__(self, kind, error, _):
        self.job.end()
        self.diaries.only = None
        self.diaries.read()
        self.diaries.end()
        if self.out:
            pathlib.Path(self.out).mkdir(parents=True, exist_ok=True)
            shutil.copytree(self.folder, pathlib.Path(self.out, f"{self.job.library}-{time.monotonic_ns()}"))
        shutil.rmtree(self.folder, ignore_errors=True)
        return kind is Ended


def visit(library, events, size, most, options, results, seed):
    """Starts a job, and disturbs it by these events.

    If it does not go on, disturbs another job by the remaining events.
    """
    events = list(events)
    while events:
        with Visit(library, size, most, options.limit, seed, options.keep) as here:
            while events:
                cell = results.setdefault(library, {}).setdefault(f"{events[0]}, {size} ranks", [])
                try:
                    found = here.event(events[0])
                except Ended as ended:  # before the event
                    found = {"failed": f"did not start: {ended}", "load": os.getloadavg()[0]}
                cell.append(found)
                print(f"{library}, {events[0]}, {size} ranks: {json.dumps(found)}", file=sys.stderr, flush=True)
                events.pop(0)
                if "failed" in found:
                    break
        seed += 1


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--libraries", required=True)
    parser.add_argument("--missing", action="append", default=[], metavar="NAME: WHY")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--limit", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--events", default="kill,kill rank 0,stop,add")
    parser.add_argument("--sizes", default="3")
    parser.add_argument("--own-sizes", default="2,4,8", help="further numbers of ranks for Anello, by kills alone")
    parser.add_argument("--keep", help="folder to which diaries and logs are copied")
    parser.add_argument("--json")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # and end the job
    libraries, events = options.libraries.split(","), options.events.split(",")
    sizes = [int(size) for size in options.sizes.split(",")]
    own = [int(size) for size in options.own_sizes.split(",") if size]
    results, began = {}, os.getloadavg()
    for number in range(options.rounds):
        for size in sizes:
            for library in libraries:
                seed = options.seed + 1000 * number
                visit(library, [each for each in events if each != "add"], size, size, options, results, seed)
                if "add" in events:
                    visit(library, ["add"], size, size + 1, options, results, seed)
        for size in own if "anello" in libraries else []:
            visit("anello", ["kill"], size, size, options, results, options.seed + 1000 * number)
    made = {"machine": report.machine(), "load": [began, os.getloadavg()], "versions": report.versions(libraries),
            "missing": options.missing, "results": results}
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(made, indent=1) + "\n")
    print(report.markdown(made))


if __name__ == "__main__":
    main()
