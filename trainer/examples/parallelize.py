"""Turns a training of one process into one of many processes by one call: anello run -n 2 -- python3 parallelize.py"""
import sys

import torch
import torch.nn.functional as F

import anello
import anello.torch
import digits


def main(checkpoint=None, epochs=10, batch=16):
    torch.manual_seed(42)
    data = torch.tensor(digits.split(digits.rows())[0])
    dataset = torch.utils.data.TensorDataset(data[:, :64] / 16, data[:, 64])
    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

    job = anello.torch.parallelize(model, optimizer)
    sampler = job.sampler(dataset)
    loader = torch.utils.data.DataLoader(dataset, batch_size=batch, sampler=sampler)
    warm_up = torch.optim.lr_scheduler.LambdaLR(job.optimizer, anello.warm_up(len(loader), start=1 / job.size))
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for pixels, labels in loader:
            job.optimizer.zero_grad()
            loss = F.cross_entropy(job.model(pixels), labels)
            loss.backward()
            job.optimizer.step()
            warm_up.step()
    if checkpoint:
        job.save(checkpoint, epoch=epochs)
    if job.rank == 0:
        print(f"loss {loss:.3f} on {job.size} ranks")


if __name__ == "__main__":
    main(*sys.argv[1:])
