"""Digits in a loop of TensorFlow 2, in Horovod's eight steps: anello run -n 2 -- python3 tensorflow_digits.py"""
import sys

import numpy as np
import tensorflow as tf

import anello
import anello.tensorflow as hvd
import digits


def main(checkpoint=None, epochs=5, batch=16, rate=0.05):
    # 1. Join the other ranks.
    hvd.init()

    # 2. Take one GPU of this host, if there are any.
    gpus = tf.config.list_physical_devices("GPU")
    if gpus:
        tf.config.set_visible_devices(gpus[hvd.local_rank()], "GPU")

    # 3. Shard the data before it is shuffled: all ranks have the same order, and take different items.
    train = np.array(digits.split(digits.rows())[0])
    dataset = tf.data.Dataset.from_tensor_slices((train[:, :64].astype("f4") / 16, train[:, 64]))
    mine = anello.shard(dataset, hvd.rank(), hvd.size(), uneven="drop")
    mine = mine.shuffle(len(mine)).batch(batch)

    # 4. Scale the learning rate: a step uses the batches of all ranks.
    optimizer = tf.keras.optimizers.SGD(rate * hvd.size(), momentum=0.9)
    model = tf.keras.Sequential([tf.keras.Input((64,)), tf.keras.layers.Dense(128, activation="relu"),
                                 tf.keras.layers.Dense(10)])
    loss_of = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    @tf.function
    def step(pixels, labels):
        with tf.GradientTape() as tape:
            loss = loss_of(labels, model(pixels, training=True))
        # 5. Average the gradients.
        gradients = hvd.DistributedGradientTape(tape).gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    for epoch in range(epochs):
        losses = []
        for pixels, labels in mine:
            losses.append(step(pixels, labels))
            # 6. Broadcast after the first step, which has made the optimizer's variables.
            if epoch == 0 and len(losses) == 1:
                hvd.broadcast_variables(model.variables, root_rank=0)
                hvd.broadcast_variables(optimizer.variables, root_rank=0)
        # 7. Average the metrics.
        loss = hvd.allreduce(tf.reduce_mean(losses))
        if hvd.rank() == 0:
            print(f"epoch {epoch + 1}: loss {loss:.3f} on {hvd.size()} ranks")

    # 8. Write the checkpoint on rank 0 alone.
    if checkpoint and hvd.rank() == 0:
        model.save(checkpoint)
    return model


if __name__ == "__main__":
    main(*sys.argv[1:])
