"""The table of bench/elastic.sh, in Markdown."""
import datetime
import os
import platform
import re
import statistics

import jobs

NAMES = {"anello": "Anello", "anello-horovod": "Anello, Horovod's names", "horovod": "Horovod", "torchrun": "torchrun",
         "torchft": "torchft"}
PACKAGES = {"anello": "torch", "anello-horovod": "torch", "horovod": "horovod", "torchrun": "torch", "torchft": "torchft"}


def machine():
    """Processor, cores and kernel. The model's name may be hidden, so family and model are given."""
    with open("/proc/cpuinfo") as file:
        fields = dict(re.findall(r"^(model name|cpu family|model)\s*: (.*)$", file.read(), re.M))
    return (f"{os.cpu_count()} cores, {fields.get('model name', 'unknown CPU')} (family {fields.get('cpu family')}, model "
            f"{fields.get('model')}), Linux {platform.release().split('-')[0]}, {datetime.date.today()}")


def versions(libraries):
    return {library: f"{PACKAGES[library]} {jobs.version_of(jobs.LIBRARIES[library], PACKAGES[library])}"
            for library in libraries}


def seconds(value):
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.1f} s"


def spread(trials, key):
    """The median of a time, and the largest in brackets if there are several."""
    values = [each[key] for each in trials if each.get(key) is not None]
    if not values:
        return "never"
    largest = f" ({seconds(max(values))})" if len(values) > 1 else ""
    return seconds(statistics.median(values)) + largest


def most(trials, key):
    """The largest number. If no trial came to its full size again, returns the number for an epoch instead."""
    whole = [each[key] for each in trials if key in each and "failed" not in each]
    rates = [each[key] / each["epochs"] for each in trials if each.get("epochs")]
    return str(max(whole)) if whole else f"{max(rates):.0f} an epoch" if rates else "-"


def batch(trials):
    sizes = [each["batch"] for each in trials if each.get("batch")]
    if not sizes:
        return "-"
    low, high = min(first for first, _ in sizes), max(last for _, last in sizes)
    return str(low) if low == high else f"{low} to {high}"


def failures(trials):
    reasons = sorted({each["failed"] for each in trials if "failed" in each})
    count = sum("failed" in each for each in trials)
    return f"{count} of {len(trials)}: {'; '.join(reasons)}" if count else f"0 of {len(trials)}"


def row(library, trials, adds):
    first = spread(trials, "pause" if adds else "next")
    loads = [each["load"] for each in trials]
    return (f"| {NAMES[library]} | {first} | {spread(trials, 'full')} | {most(trials, 'redone')} | {most(trials, 'lost')} | "
            f"{most(trials, 'repeated')} | {batch(trials)} | {failures(trials)} | {statistics.median(loads):.0f} |")


def markdown(made):
    lines = [f"{made['machine']}; load {made['load'][0][0]:.1f} before, {made['load'][1][0]:.1f} after; "
             + ", ".join(f"{NAMES[library]}: {version}" for library, version in made["versions"].items())]
    lines += [f"- left out: {each}" for each in made["missing"]]
    events = sorted({event for cells in made["results"].values() for event in cells}, key=lambda it: (it.split(",")[1], it))
    for event in events:
        adds = event.startswith("add")
        first = "longest time without a step" if adds else "next step"
        lines += ["", f"{event[0].upper()}{event[1:]}:", "",
                  f"| | {first} | full size | steps undone | samples lost | repeated | global batch | failed | load |",
                  "|---|---:|---:|---:|---:|---:|---|---|---:|"]
        lines += [row(library, cells[event], adds) for library, cells in made["results"].items() if event in cells]
    return "\n".join(lines)
