"""Softmax regression with the standard library alone: anello run -n 2 -- python3 plain_sgd.py"""
import array
import math

import anello
import digits

CLASSES, PIXELS = 10, 64


def chances(weights, row):
    scores = [sum(w * x for w, x in zip(weights[PIXELS * c:PIXELS * (c + 1)], row)) / 16 for c in range(CLASSES)]
    exponentials = [math.exp(score - max(scores)) for score in scores]
    return [each / sum(exponentials) for each in exponentials]


def gradient(weights, rows):
    made = array.array("d", [0.0] * (CLASSES * PIXELS))
    for row in rows:
        for c, chance in enumerate(chances(weights, row)):
            error = (chance - (row[PIXELS] == c)) / 16 / len(rows)
            for k in range(PIXELS):
                made[PIXELS * c + k] += error * row[k]
    return made


def main(epochs=2, batch=16, rate=0.5):
    with anello.init() as world:
        train, test = digits.split(digits.rows())
        weights = array.array("d", [0.0] * (CLASSES * PIXELS))
        mine = anello.shard(train, world.rank, world.size, uneven="drop")
        for _ in range(epochs):
            for step in range(anello.steps_per_epoch(len(train), batch, world.size)):
                average = world.allreduce(gradient(weights, mine[step * batch:(step + 1) * batch]), "average")
                weights = array.array("d", [w - rate * g for w, g in zip(weights, average)])
        right = 0
        for row in test[world.rank::world.size]:
            found = chances(weights, row)
            right += found.index(max(found)) == row[PIXELS]
        right = world.sum(right)
        if world.rank == 0:
            print(f"accuracy {right / len(test):.3f} on {world.size} ranks")


if __name__ == "__main__":
    main()
