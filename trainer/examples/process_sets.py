"""Two models trained beside each other, each on half of the ranks: anello run -n 4 -- python3 process_sets.py"""
import torch

import anello.torch as hvd


def main(steps=50):
    even, odd = hvd.ProcessSet(range(0, 4, 2)), hvd.ProcessSet(range(1, 4, 2))
    hvd.init(process_sets=[even, odd])
    mine = even if even.included() else odd
    torch.manual_seed(hvd.rank())
    target = 2.0 if mine is even else 3.0  # each half learns a different factor

    model = torch.nn.Linear(1, 1, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters(), process_set=mine)
    hvd.broadcast_parameters(model.state_dict(), root_rank=mine.ranks[0], process_set=mine)
    for _ in range(steps):
        x = torch.randn(16, 1)
        optimizer.zero_grad()
        ((model(x) - target * x) ** 2).mean().backward()
        optimizer.step()

    learned = hvd.allgather(model.weight.detach())
    if hvd.rank() == 0:
        print("factors", " ".join(f"{each:.2f}" for each in learned.flatten().tolist()))


if __name__ == "__main__":
    main()
