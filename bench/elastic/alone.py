"""alone.py: measures what Anello alone promises to elastic jobs of `anello run`. See bench/elastic.sh --alone."""
import argparse
import itertools
import json
import os
import pathlib
import random
import re
import signal
import statistics
import subprocess
import sys
import time

import compare
import jobs
import report

LIGHT = str(pathlib.Path(__file__).with_name("light.py"))


class Light(jobs.Anello):
    """A job of light.py."""

    library = "light"
    kind = ("steps", "100")

    def command(self):
        return [self.python, "-S", LIGHT, self.kind[0], self.folder, *self.kind[1:]]


class Stream(Light):
    """A job of ranks whose state takes a while to send."""

    kind = ("steps", str(1 << 22))


class Late(Light):
    seconds = 10
    kind = ("late", "100", "2", str(seconds))


class Worlds(Light):
    kind = ("worlds",)


class ShortLimit(Light):
    limit = 2
    settings = {**Light.settings, "ANELLO_SILENCE_LIMIT": str(limit * 1000)}


for each in (Light, Stream, Late, Worlds, ShortLimit):
    jobs.LIBRARIES[each.__name__] = each


def visit(kind, size, seed=1, most=None):
    return compare.Visit(kind.__name__, size, most or size, 60, seed, None)


def timed(kind, size, trials, signal_of, limit=60):
    """Disturbs one job again and again. Returns how many seconds it takes each time until the next world has begun."""
    times = []
    with visit(kind, size) as here:
        for _ in range(trials):
            here.limit = limit
            found = here.event(signal_of)
            times.append(found.get("next"))
    return times


def summary(times, least=0):
    good = [each - least for each in times if each is not None]
    if not good:
        return f"0 of {len(times)} went on"
    p99 = sorted(good)[min(len(good) - 1, len(good) * 99 // 100)]
    found = ", ".join(f"{name} {report.seconds(value)}" for name, value in
                      [("p50", statistics.median(good)), ("p99", p99), ("max", max(good))])
    return f"{found} ({len(good)} of {len(times)})"


def kills(options):
    """P1: one rank is killed. Measures the time until all others have taken a step.

    A job ends after two kills, because the launcher waits longer and longer before it uses a place again.
    """
    times = {2: [], 4: [], 8: []}
    for _ in range((options.trials + 1) // 2):
        for size, all_times in times.items():
            all_times += timed(Light, size, 2, "kill")
    return {f"{size} ranks": summary(all_times) for size, all_times in times.items()}


def random_kills(options):
    """P2: kills ranks, sometimes two at once, at random moments while the others regroup or receive the state."""
    outcomes = [point(seed) for seed in range(options.points)]
    return {"kills": sum(each["kills"] for each in outcomes),
            "hung": [each for each in outcomes if "hung" in each], "wrong": [each for each in outcomes if each.get("wrong")],
            "until the next step": summary([each.get("next") for each in outcomes])}


def point(seed):
    """Kills one or two of four ranks at once. In half of the cases, kills another rank a moment later."""
    chance, found = random.Random(seed), {"seed": seed, "kills": 0}
    with visit(Stream, 4, seed) as here:
        here.steady(4)
        here.diaries.read()
        old, ranks = set(here.diaries.worlds), list(here.diaries.worlds[here.diaries.newest()])
        spared = chance.choice(ranks)  # this rank holds the state, so the job can go on

        def kill(pids, count=1):
            for victim in chance.sample([pid for pid in pids if pid != spared], count):
                found["kills"] += here.diaries.send(victim, signal.SIGKILL)
            return time.monotonic()

        since = kill(ranks, chance.choice((1, 1, 2)))
        if chance.random() < 0.5:
            time.sleep(chance.uniform(0, 0.1) if chance.random() < 0.5 else chance.uniform(0.1, 1))
            here.diaries.read()
            since = kill([pid for pid in here.diaries.pids() if here.diaries.alive(pid)][-3:])
        try:
            found["next"] = here.wait(lambda: here.diaries.next_world(since, old), 60) - since
            here.wait(lambda: here.diaries.next_world(since, old, 4), 60)
        except compare.Ended as ended:
            found["hung"] = str(ended)
        results = {}
        for step in here.diaries.steps:
            results.setdefault(step.taken.step, set()).add(step.result)
        account = here.diaries.account(0, time.monotonic())
        if any(len(each) > 1 for each in results.values()) or account["repeated"] or account["lost"]:
            found["wrong"] = account
    return found


def newcomers(options):
    """P10: a newcomer takes 10 s before it joins. Measures by which factor a step of 2 ranks gets longer meanwhile."""
    ratios = []
    for _ in range(max(options.trials // 4, 3)):
        with visit(Late, 2, most=3) as here:
            here.steady(2)
            here.diaries.read()
            old, marks = set(here.diaries.worlds), [time.monotonic()]
            for grow, seconds in ((False, Late.seconds / 2), (True, Late.seconds * 0.8)):
                if grow:
                    here.job.grow()
                time.sleep(seconds)
                marks.append(time.monotonic())
            joined = here.wait(lambda: here.diaries.next_world(marks[0], old, 3), 60)  # noqa: B023
            counts = [sum(a <= step.time < b for step in here.diaries.steps) for a, b in itertools.pairwise(marks)]
            before, meanwhile = (count / (b - a) for count, (a, b) in zip(counts, itertools.pairwise(marks)))
            ratios.append(before / meanwhile if joined > marks[-1] else None)
    return {"time of a step, meanwhile over before": ratios}


def stops(options):
    """P3: a rank is stopped. Measures the time beyond the silence limit until all others have taken a step."""
    return summary(timed(ShortLimit, 3, options.trials, "stop"), ShortLimit.limit)


def costs(options):
    """P12: measures allreduces, and steps of only a sum and a write, in elastic and fixed jobs of 2 ranks in turn."""
    found = {}
    for number in range(options.pairs):
        for kind in ("elastic", "fixed") if number % 2 else ("fixed", "elastic"):
            job = Light("/tmp", 2, 2)
            elastic = ["--min-np", "2"] if kind == "elastic" else []
            done = subprocess.run([str(job.program), "run", "--no-prefix", "-n", "2", *elastic, "--", str(job.python), "-S",
                                   LIGHT, "cost", "/tmp", kind], env=job.environment, capture_output=True, text=True, check=False)
            for name, value in re.findall(r"^(.* B): ([0-9.]+)$", done.stdout, re.M):
                found.setdefault(name, {}).setdefault(kind, []).append(float(value))
    rows = {}
    for name, cells in found.items():
        ratios = sorted(a / b for a, b in zip(cells["elastic"], cells["fixed"]))
        middle = ratios[len(ratios) // 4], statistics.median(ratios), ratios[3 * len(ratios) // 4]
        more = statistics.median(a - b for a, b in zip(cells["elastic"], cells["fixed"]))
        rows[name] = (f"{statistics.median(cells['fixed']):.1f} us, elastic {more:+.1f} us; ratio {middle[1]:.3f} ({middle[0]:.3f}-{middle[2]:.3f}), "
                      f"{len(ratios)} pairs")
    return rows


def launchers(options):
    """P15: the launcher is killed. Measures the time until all ranks have ended."""
    times = []
    for _ in range(options.trials):
        with visit(Light, 4) as here:
            here.steady(4)
            since = time.monotonic()
            here.job.processes[0].kill()
            while any(here.diaries.alive(pid) for pid in here.diaries.pids()):
                if time.monotonic() - since > 60:
                    break
                time.sleep(0.01)
            times.append(time.monotonic() - since)
    return summary(times)


def used_by(pid):
    """Descriptors, threads and KiB of memory of a process."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    number = {name: int(value) for name, value in re.findall(r"^(Threads|RssAnon|RssShmem):\s+(\d+)", status, re.M)}
    return {"descriptors": len(os.listdir(f"/proc/{pid}/fd")), "threads": number["Threads"],
            "KiB": number["RssAnon"], "shared KiB": number["RssShmem"]}


def generations(options):
    """P16: a job grows and shrinks again and again. Measures what its launcher and a rank of all worlds use."""
    marks, used = {options.generations * part // 6 for part in range(1, 7)}, {}
    with visit(Worlds, 2, most=3) as here:
        here.wait(lambda: len(here.diaries.worlds.get("1", ())) == 2, 120)
        rank, name = next(iter(here.diaries.worlds["1"])), here.job.name()
        here.diaries.only, generation = rank, 1
        while generation < options.generations:
            for size in (3, 2):
                subprocess.run([here.job.program, "resize", "--job", name, str(size)], check=True, capture_output=True,
                               env=here.job.environment)
                here.wait(lambda: here.diaries.world_of(rank).size == size, 120)  # noqa: B023
            generation = int(here.diaries.world_of(rank).token)
            for mark in {each for each in marks if each <= generation}:
                marks.remove(mark)
                used[generation] = {"rank": used_by(rank), "launcher": used_by(here.job.processes[0].pid),
                                    "shared memories": sum("anello" in each for each in os.listdir("/dev/shm"))}
    return used


def many(options):
    """P18: one of 64 ranks is killed. Measures the time until all others have taken a step."""
    return summary(timed(Light, 64, 1 if options.quick else 3, "kill", 120))


PROPERTIES = {"P1": kills, "P2": random_kills, "P3": stops, "P10": newcomers, "P12": costs, "P15": launchers, "P16": generations, "P18": many}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default=",".join(PROPERTIES))
    parser.add_argument("--json")
    parser.add_argument("--keep")
    parser.add_argument("--trials", type=int)
    options = parser.parse_args()
    trials, options.points, options.pairs, options.generations = (5, 10, 10, 100) if options.quick else (20, 200, 40, 3000)
    options.trials = options.trials or trials
    results = {}
    print(report.machine(), flush=True)
    print("\n| property | result | load |\n|---|---|---:|")
    for name in options.only.split(","):
        before = os.getloadavg()[0]
        try:
            results[name] = PROPERTIES[name](options)
        except compare.Ended as ended:
            results[name] = f"failed: {ended}"
        what = PROPERTIES[name].__doc__.partition("\n")[0].rstrip(".")
        print(f"| {what} | {json.dumps(results[name])} | {before:.0f} to {os.getloadavg()[0]:.0f} |", flush=True)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
