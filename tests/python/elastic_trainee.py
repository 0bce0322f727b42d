"""elastic_trainee.py KIND FILE SECONDS WORLD: a process of an elastic job, which elastic_native_test.py starts.

A step takes some seconds until that world has begun, and then as little as possible. Writes to FILE which samples it
takes in which world, and which steps it commits; prints a line for each world, and its result.
"""
import sys
import time

import anello.elastic

SAMPLES, BATCH, EPOCHS, SEED = 1000, 48, 40, 7
MODULUS = 1099511627689.0


class Pace:
    """Records what is done, and waits."""

    def __init__(self, path, seconds, fast_from):
        self.file = open(path, "a")
        self.seconds, self.fast_from = seconds, fast_from

    def world(self, change):
        print(f"world {change.generation}: rank {change.rank} of {change.size} at {change.revision}", flush=True)

    def take(self, state, samples):
        self.note("take", state, *samples)
        if state.change.generation < self.fast_from:
            time.sleep(self.seconds)

    def note(self, what, state, *numbers):
        self.file.write(" ".join(map(str, (what, state.change.generation, state.revision, *numbers))) + "\n")
        self.file.flush()


def integers(pace):
    """Sums of integers below 2**53 do not depend on their order, so the result is the same bit by bit."""
    import numpy
    weights, columns = numpy.zeros(50), numpy.arange(50)
    state = anello.elastic.State(weights=weights, steps=0, last={"epoch": None})
    for world in anello.elastic.worlds(state):
        with world:
            pace.world(state.change)
            for batch in anello.elastic.batches(SAMPLES, global_batch=BATCH, seed=SEED, epochs=EPOCHS, state=state):
                pace.take(state, batch.samples)
                state.steps += 1  # before the sum, which may fail
                state.last["epoch"] = batch.epoch
                gradient = numpy.zeros(50)
                for sample in batch.samples:
                    gradient += (sample * 7919 + columns * 31 + state.revision * 1000003) % 65521
                world.allreduce(gradient)

                def update(gradient=gradient):
                    weights[:] = numpy.fmod(3 * weights + gradient, MODULUS)
                    pace.note("commit", state)

                state.commit(update)
    print("result", *map(int, weights[:3]), int(weights.sum()), state.steps, state.last, flush=True)


def direct(samples, **options):
    import torch
    for batch in anello.elastic.batches(samples, **options):
        yield batch, torch.utils.data.default_collate([samples[k] for k in batch.samples])


def loaded(samples, **options):
    return anello.elastic.loader(samples, num_workers=2, **options)


def torch_model(pace, optimizer_of, steps, shares=direct):
    import torch
    torch.set_num_threads(1)
    data = torch.randn(SAMPLES, 20, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    labels = (data[:, :5].argmax(1) + (data[:, 5] > 0)) % 5
    samples = torch.utils.data.TensorDataset(data, labels)
    torch.manual_seed(time.time_ns() % 2**31)  # so that only the first rank's model can be the result
    model = torch.nn.Sequential(torch.nn.Linear(20, 30), torch.nn.BatchNorm1d(30), torch.nn.Tanh(),
                                torch.nn.Linear(30, 5)).double()
    model[1].eval()  # its output must not depend on the number of ranks
    with torch.no_grad():
        for number, parameter in enumerate(model.parameters()):
            parameter.copy_(torch.linspace(-1, 1, parameter.numel(), dtype=torch.float64).reshape(parameter.shape)
                            * (number + 1) / 10)
    optimizer = optimizer_of(model.parameters())
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 7, 0.95)
    state = anello.elastic.State(model=model, optimizer=optimizer, schedule=schedule, loss=0.0)

    @anello.elastic.run
    def train(world, state):
        pace.world(state.change)
        for batch, (inputs, targets) in shares(samples, global_batch=BATCH, seed=SEED, epochs=steps, state=state):
            pace.take(state, batch.samples)
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(inputs), targets, reduction="sum") / batch.size
            loss.backward()
            world.allreduce([parameter.grad for parameter in model.parameters()])
            state.loss += world.allreduce(loss.item())
            state.commit(optimizer.step, schedule.step, lambda: pace.note("commit", state))
        return world.rank

    train(state)
    print("result", *(float(each.detach().double().abs().sum()).hex() for each in model.parameters()),
          state.loss.hex(), optimizer.param_groups[0]["lr"].hex(), flush=True)


def main():
    kind, path, seconds, fast_from = sys.argv[1:]
    pace = Pace(path, float(seconds), int(fast_from))
    if kind == "integers":
        return integers(pace)
    import torch
    optimizers = {"sgd": lambda its: torch.optim.SGD(its, lr=0.05, momentum=0.9),
                  "adam": lambda its: torch.optim.Adam(its, lr=0.01)}
    if kind == "loaded":
        return torch_model(pace, optimizers["sgd"], 6, loaded)
    return torch_model(pace, optimizers[kind], 6)


if __name__ == "__main__":
    main()
