"""The hooks of DistributedOptimizer, in the threads of autograd."""
import threading
import time

import pytest
import torch

import anello.torch as hvd
from anello.torch import buckets


@pytest.fixture(autouse=True)
def initialised(horovod):
    horovod.init()


def test_hooks_of_two_devices_at_once_start_a_bucket_once(monkeypatch):
    """Autograd has a thread for each device. Each of these threads may see the last gradient of a bucket."""
    torch.manual_seed(0)
    model, data = torch.nn.Linear(3, 2), torch.ones(4, 3)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
    model(data).pow(2).mean().backward()
    optimizer.step()  # the ranks agree on buckets
    started, start, note = [], buckets.Bucket.start, buckets.gpus.Streams.note

    def note_slowly(self, tensor):
        time.sleep(0.05)
        note(self, tensor)

    def count(self, reduction):
        started.append(self.name)
        start(self, reduction)

    monkeypatch.setattr(buckets.gpus.Streams, "note", note_slowly)
    monkeypatch.setattr(buckets.Bucket, "start", count)
    optimizer.zero_grad()
    threads = [threading.Thread(target=optimizer._on_gradient, args=(each,)) for each in model.parameters()]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(started) == 1
    optimizer.step()
