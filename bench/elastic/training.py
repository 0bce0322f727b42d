"""training.py LIBRARY FOLDER SIZE MOST [PLACE]: a rank of an elastic training, which bench/elastic/compare.py starts and disturbs.

The model, the data and the pace are the same for all libraries. Each library has one function: the loop that its own
documentation recommends. The diary is written to FOLDER/PID.
"""
import datetime
import itertools
import os
import sys
import time

import torch

from diaries import BATCH, SAMPLES, SEED, Diary

LIMIT = float(os.environ["ELASTIC_LIMIT"])  # see jobs.py

torch.set_num_threads(1)
data = torch.randn(SAMPLES, 20, generator=torch.Generator().manual_seed(SEED))
labels = (data[:, :5].argmax(1) + (data[:, 5] > 0)) % 5


def parts():
    torch.manual_seed(SEED)
    model = torch.nn.Sequential(torch.nn.Linear(20, 256), torch.nn.Tanh(), torch.nn.Linear(256, 5))
    return model, torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)


def backward(model, samples, size):
    loss = torch.nn.functional.cross_entropy(model(data[samples]), labels[samples], reduction="sum") / size
    loss.backward()


def anello(diary):
    import anello.elastic
    model, optimizer = parts()
    state = anello.elastic.State(model=model, optimizer=optimizer)
    for world in anello.elastic.worlds(state):
        with world:
            diary.world(state.change.generation, world.rank, world.size)
            for batch in anello.elastic.batches(SAMPLES, global_batch=BATCH, seed=SEED, epochs=10**6, state=state):
                diary.take(state.revision, batch.epoch, batch.samples)
                optimizer.zero_grad()
                backward(model, batch.samples, batch.size)
                world.allreduce([each.grad for each in model.parameters()])
                state.commit(optimizer.step, diary.step)


def horovod(diary, hvd, share, **exact):
    model, optimizer = parts()
    hvd.init()
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    sampler = hvd.elastic.ElasticSampler(range(SAMPLES), seed=SEED, **exact)
    loader = torch.utils.data.DataLoader(range(SAMPLES), batch_size=share, sampler=sampler)

    @hvd.elastic.run
    def train(state):
        diary.world(hvd.broadcast_object(time.monotonic_ns(), 0), hvd.rank(), hvd.size())
        while True:
            for number, samples in enumerate(loader):
                diary.take(state.steps, state.epoch, samples)
                optimizer.zero_grad()
                backward(model, samples, len(samples))
                optimizer.step()
                diary.step()
                state.steps += 1
                state.sampler.record_batch(number, share)
                state.commit()
            state.epoch += 1
            state.sampler.set_epoch(state.epoch)

    train(hvd.elastic.TorchState(model, optimizer, sampler=sampler, steps=0, epoch=0))


def torchrun(diary, share):
    import torch.distributed as dist
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=LIMIT))
    snapshot = os.path.join(diary.folder, "snapshot.pt")
    model, optimizer = parts()
    epochs = steps = 0
    if os.path.exists(snapshot):
        saved = torch.load(snapshot)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        epochs, steps = saved["epochs"], saved["steps"]
    sampler = torch.utils.data.DistributedSampler(range(SAMPLES), seed=SEED)
    loader = torch.utils.data.DataLoader(range(SAMPLES), batch_size=share, sampler=sampler)
    model = torch.nn.parallel.DistributedDataParallel(model)
    token = [time.monotonic_ns()]
    dist.broadcast_object_list(token)
    diary.world(token[0], dist.get_rank(), dist.get_world_size())
    for epoch in itertools.count(epochs):
        sampler.set_epoch(epoch)
        for samples in loader:
            diary.take(steps, epoch, samples)
            optimizer.zero_grad()
            backward(model, samples, len(samples))
            optimizer.step()
            steps += 1
            diary.step()
        if dist.get_rank() == 0:
            torch.save({"model": model.module.state_dict(), "optimizer": optimizer.state_dict(), "epochs": epoch + 1,
                        "steps": steps}, snapshot + ".part")
            os.replace(snapshot + ".part", snapshot)


def torchft(diary, share, place, places):
    import torch.distributed as dist
    import torchft as ft
    model, optimizer = parts()
    store = dist.TCPStore("localhost", 0, is_master=True, wait_for_workers=False)

    def load(saved):
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])

    manager = ft.Manager(pg=ft.ProcessGroupGloo(timeout=datetime.timedelta(seconds=LIMIT)), min_replica_size=1,
                         load_state_dict=load, replica_id=f"rank_{place}", rank=0, world_size=1,
                         state_dict=lambda: {"model": model.state_dict(), "optimizer": optimizer.state_dict()},
                         store_addr="localhost", store_port=store.port, timeout=datetime.timedelta(seconds=LIMIT))
    stepping = ft.Optimizer(manager, optimizer)
    sampler = ft.data.DistributedSampler(range(SAMPLES), replica_rank=place, num_replica_groups=places, group_rank=0,
                                         num_replicas=1, seed=SEED)
    steps, world = -(-len(sampler) // share), None
    while True:
        stepping.zero_grad()
        manager.wait_quorum()  # only for the diary: after this call the number of the step is certain
        step, now = manager.current_step(), (manager._quorum_id, manager.num_participants())
        if manager.is_participating() and now != world:
            diary.world(f"{now[0]}.{now[1]}", manager.participating_rank(), now[1])
            world = now
        epoch, number = divmod(step, steps)
        sampler.set_epoch(epoch)
        samples = list(sampler)[number * share:(number + 1) * share]
        if manager.is_participating():
            diary.take(step, epoch, samples)
        backward(model, samples, len(samples))
        # The library's DistributedDataParallel fails with an assertion in the survivors (0.2.0, Gloo).
        for work in [manager.allreduce(each.grad) for each in model.parameters()]:
            work.wait()
        stepping.step()
        if manager.current_step() > step and manager.is_participating():
            diary.step()


def main():
    library, folder, size, most = *sys.argv[1:3], *map(int, sys.argv[3:5])
    diary = Diary(folder)
    share = BATCH // size
    if library == "anello":
        anello(diary)
    elif library == "anello-horovod":
        import anello.torch as hvd
        horovod(diary, hvd, share, pad=False)
    elif library == "horovod":
        import horovod.torch as hvd
        horovod(diary, hvd, share)
    elif library == "torchrun":
        torchrun(diary, share)
    elif library == "torchft":
        torchft(diary, share, int(sys.argv[5]), most)


if __name__ == "__main__":
    main()
