"""light.py KIND FOLDER: a rank of an elastic job that starts fast, because it imports neither numpy nor torch.

steps DOUBLES: takes steps for ever, with a state of that size, and writes its diary.
late DOUBLES FIRST SECONDS: takes steps, but the processes after the first FIRST wait SECONDS before they join.
worlds: takes steps for ever, and writes no more than its worlds.
cost elastic|fixed: prints what an allreduce and a step cost in an elastic world, or in one of a fixed size.
"""
import array
import contextlib
import os
import sys
import time

import anello
import anello.elastic
from diaries import BATCH, SAMPLES, SEED, Diary

MODULUS = 1099511627689.0


def steps(folder, doubles):
    diary = Diary(folder)
    weights = array.array("d", bytes(8 * int(doubles)))
    state = anello.elastic.State(weights=weights)
    for world in anello.elastic.worlds(state):
        with world:
            diary.world(state.change.generation, world.rank, world.size)
            for batch in anello.elastic.batches(SAMPLES, global_batch=BATCH, seed=SEED, epochs=10**6, state=state):
                diary.take(state.revision, batch.epoch, batch.samples)
                # Sums of integers below 2**53 do not depend on their order, so all ranks get the same bits.
                gradient = array.array("d", [sum(sample * 7919 % 65521 for sample in batch.samples)])
                world.allreduce(gradient)

                def update(gradient=gradient):
                    weights[0] = (3 * weights[0] + gradient[0]) % MODULUS
                    diary.step(weights[0])

                state.commit(update)


def late(folder, doubles, first, seconds):
    if int(os.environ["ANELLO_PLACE"]) >= int(first):
        time.sleep(float(seconds))
    steps(folder, doubles)


def worlds(folder):
    diary = Diary(folder)
    state = anello.elastic.State(steps=0)
    for world in anello.elastic.worlds(state):
        with world:
            diary.world(state.change.generation, world.rank, world.size)
            while True:
                time.sleep(0.005)
                world.barrier()
                state.steps += 1
                state.commit()


def cost(folder, kind):
    memory = {4: 4000, 4096: 2000, 1 << 20: 150}
    weights = array.array("d", bytes(1 << 20))
    state = anello.elastic.State(weights=weights)
    elastic = kind == "elastic"
    # No turn of the loop follows, so no `with` block is needed.
    world = next(iter(anello.elastic.worlds(state))) if elastic else anello.init()

    def write():
        weights[0] += 1

    def step(gradient):
        world.allreduce(gradient)
        if elastic:
            state.commit(write)
        else:
            write()

    for size, count in memory.items():
        buffer = array.array("f", bytes(size))
        for name, call in (("allreduce", world.allreduce), ("step", step)):
            for _ in range(count // 5):
                call(buffer)
            world.barrier()
            start = time.perf_counter()
            for _ in range(count):
                call(buffer)
            if world.rank == 0:
                print(f"{name} of {size} B: {(time.perf_counter() - start) / count * 1e6}", flush=True)
    with contextlib.suppress(anello.Error):
        world.barrier()
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    {"steps": steps, "late": late, "worlds": worlds, "cost": cost}[sys.argv[1]](*sys.argv[2:])
