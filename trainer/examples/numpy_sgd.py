"""Softmax regression with numpy alone: anello run -n 2 -- python3 numpy_sgd.py"""
import numpy as np

import anello
import digits


def loss_and_gradient(weights, pixels, labels):
    scores = pixels @ weights
    scores -= scores.max(axis=1, keepdims=True)
    chances = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    loss = -np.log(chances[np.arange(len(labels)), labels]).mean()
    chances[np.arange(len(labels)), labels] -= 1
    return loss, pixels.T @ chances / len(labels)


def main(epochs=20, batch=16, rate=0.5):
    with anello.init() as world:
        train, test = (np.array(part) for part in digits.split(digits.rows()))
        weights = np.zeros((64, 10))
        world.broadcast(weights)
        order = np.random.default_rng(0)  # all ranks make the same order, and each rank takes a different part of it
        for _ in range(epochs):
            mine = train[anello.shard(order.permutation(len(train)), world.rank, world.size, uneven="drop")]
            for step in range(anello.steps_per_epoch(len(train), batch, world.size)):
                part = mine[step * batch:(step + 1) * batch]
                loss, gradient = loss_and_gradient(weights, part[:, :64] / 16, part[:, 64])
                world.allreduce(gradient, "average")
                weights -= rate * gradient
        accuracy = np.mean((test[:, :64] @ weights).argmax(axis=1) == test[:, 64])
        if world.rank == 0:
            print(f"loss {loss:.3f}, accuracy {accuracy:.3f} on {world.size} ranks")


if __name__ == "__main__":
    main()
