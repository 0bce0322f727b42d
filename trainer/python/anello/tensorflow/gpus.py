"""One GPU for each rank of a host."""
from __future__ import annotations

import tensorflow as tf


def keep_own(local_rank: int) -> None:
    """If TensorFlow sees several GPUs, hides all but one: the GPU whose number is the rank's number on its host.

    Otherwise each rank would take memory on all GPUs. Raises ValueError if there are too few GPUs, and RuntimeError if
    TensorFlow uses all of them already.
    """
    gpus = tf.config.get_visible_devices("GPU")
    if len(gpus) < 2:
        return
    if local_rank >= len(gpus):
        raise ValueError(f"this rank is number {local_rank} on its host, which has {len(gpus)} GPUs: start at most "
                         f"{len(gpus)} ranks there, or hide the GPUs with CUDA_VISIBLE_DEVICES=''")
    try:
        tf.config.set_visible_devices(gpus[local_rank], "GPU")
    except RuntimeError as error:
        raise RuntimeError(f"TensorFlow uses all {len(gpus)} GPUs of this host already ({error}): give parallelize() a "
                           "function that makes the model, or show each rank one GPU before") from None
