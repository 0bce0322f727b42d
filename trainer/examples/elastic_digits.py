"""Digits with PyTorch on ranks that may end and join: docs/elastic.md says how to start it."""
import torch
import torch.nn.functional as F

import anello.elastic
import digits


def dataset(rows):
    data = torch.tensor(rows)
    return torch.utils.data.TensorDataset(data[:, :64] / 16, data[:, 64])


def main(epochs=10, batch=32):
    torch.manual_seed(42)
    train, test = (dataset(part) for part in digits.split(digits.rows()))
    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    state = anello.elastic.State(model=model, optimizer=optimizer)

    for world in anello.elastic.worlds(state):
        with world:
            for part in anello.elastic.batches(train, global_batch=batch, seed=1, epochs=epochs, state=state):
                pixels, labels = train[part.samples]
                optimizer.zero_grad()
                loss = F.cross_entropy(model(pixels), labels, reduction="sum") / part.size
                loss.backward()
                world.allreduce([each.grad for each in model.parameters()])
                state.commit(optimizer.step)
            if world.rank == 0:
                pixels, labels = test[:]
                accuracy = (model(pixels).argmax(1) == labels).float().mean()
                print(f"accuracy {accuracy:.3f} on {world.size} ranks after {state.revision} steps")


if __name__ == "__main__":
    main()
