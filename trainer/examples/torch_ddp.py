"""Digits with DistributedDataParallel: anello run -n 2 -- python3 torch_ddp.py"""
import torch
import torch.distributed as dist
import torch.nn.functional as F

import anello.torch.distributed  # noqa: F401, registers the backend "anello"
import digits


def main(epochs=10, batch=16):
    dist.init_process_group("anello")
    torch.manual_seed(42)
    train, test = (torch.tensor(part) for part in digits.split(digits.rows()))
    loader_set = torch.utils.data.TensorDataset(train[:, :64] / 16, train[:, 64])
    sampler = torch.utils.data.distributed.DistributedSampler(loader_set)
    loader = torch.utils.data.DataLoader(loader_set, batch_size=batch, sampler=sampler)

    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
    model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05 * dist.get_world_size(), momentum=0.9)
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for pixels, labels in loader:
            optimizer.zero_grad()
            F.cross_entropy(model(pixels), labels).backward()
            optimizer.step()

    accuracy = (model(test[:, :64] / 16).argmax(1) == test[:, 64]).float().mean()
    dist.all_reduce(accuracy)
    if dist.get_rank() == 0:
        print(f"accuracy {accuracy / dist.get_world_size():.3f} on {dist.get_world_size()} ranks")


if __name__ == "__main__":
    main()
