"""MNIST with PyTorch in Horovod's style, a convolutional network, gradients in 16 bits:
anello run -n 2 -- python3 torch_mnist.py FOLDER"""
import argparse

import torch
import torch.nn.functional as F

import anello
import anello.torch as hvd
import mnist


class Network(torch.nn.Sequential):
    def __init__(self):
        super().__init__(torch.nn.Conv2d(1, 16, 5, stride=2), torch.nn.ReLU(), torch.nn.Conv2d(16, 32, 5, stride=2),
                         torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(512, 128), torch.nn.ReLU(),
                         torch.nn.Linear(128, 10))


def options():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", help="the folder with MNIST's four files (trainer/fetch_mnist.sh)")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch", type=int, default=64, help="images of each rank in a step")
    parser.add_argument("--rate", type=float, default=0.02, help="the learning rate of one rank")
    parser.add_argument("--checkpoint", help="rank 0 writes the model here after each epoch")
    return parser.parse_args()


def accuracy(model, part):
    """Each rank tests its share."""
    images, labels = part[hvd.rank()::hvd.size()]
    with torch.no_grad():
        correct = (model(images).argmax(1) == labels).float().sum()
    totals = hvd.allreduce(torch.stack([correct, torch.tensor(float(len(labels)))]), op=hvd.Sum)
    return (totals[0] / totals[1]).item()


def main():
    given = options()
    hvd.init()
    torch.manual_seed(42)
    train, test = mnist.load(given.data, "train"), mnist.load(given.data, "t10k")
    sampler = torch.utils.data.distributed.DistributedSampler(train, num_replicas=hvd.size(), rank=hvd.rank())
    loader = torch.utils.data.DataLoader(train, batch_size=given.batch, sampler=sampler)

    model = Network()
    optimizer = torch.optim.SGD(model.parameters(), lr=given.rate * hvd.size(), momentum=0.9)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters(),
                                         compression=hvd.Compression.fp16, error_feedback=True)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    warm_up = torch.optim.lr_scheduler.LambdaLR(optimizer, anello.warm_up(len(loader), start=1 / hvd.size()))

    for epoch in range(given.epochs):
        sampler.set_epoch(epoch)
        for images, labels in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
            warm_up.step()
        loss, right = hvd.allreduce(loss.detach()).item(), accuracy(model, test)
        if hvd.rank() == 0:
            print(f"epoch {epoch + 1}, loss {loss:.3f}, accuracy {right:.3f} on {hvd.size()} ranks", flush=True)
            if given.checkpoint:
                with anello.replacing(given.checkpoint) as file:
                    torch.save(model.state_dict(), file)


if __name__ == "__main__":
    main()
