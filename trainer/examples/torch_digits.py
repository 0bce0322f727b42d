"""Digits with PyTorch in Horovod's style: anello run -n 2 -- python3 torch_digits.py"""
import torch
import torch.nn.functional as F

import anello.torch as hvd
import digits


def dataset(rows):
    data = torch.tensor(rows)
    return torch.utils.data.TensorDataset(data[:, :64] / 16, data[:, 64])


def main(epochs=10, batch=16):
    hvd.init()
    torch.manual_seed(42)
    train, test = (dataset(part) for part in digits.split(digits.rows()))
    sampler = torch.utils.data.distributed.DistributedSampler(train, num_replicas=hvd.size(), rank=hvd.rank())
    loader = torch.utils.data.DataLoader(train, batch_size=batch, sampler=sampler)

    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05 * hvd.size(), momentum=0.9)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)

    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for pixels, labels in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(pixels), labels)
            loss.backward()
            optimizer.step()

    pixels, labels = test[hvd.rank()::hvd.size()]  # each rank tests on its share
    correct = (model(pixels).argmax(1) == labels).float().sum()
    totals = hvd.allreduce(torch.stack([correct, torch.tensor(float(len(labels)))]), op=hvd.Sum)
    if hvd.rank() == 0:
        print(f"accuracy {totals[0] / totals[1]:.3f} on {hvd.size()} ranks")


if __name__ == "__main__":
    main()
