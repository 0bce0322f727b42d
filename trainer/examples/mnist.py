"""MNIST's four files in a folder, for the example: bash trainer/fetch_mnist.sh FOLDER"""
import gzip
import pathlib

import torch


def load(folder, part):
    """Images of 28x28 from 0 to 1, and their digits; `part` is "train" or "t10k"."""
    images = _read(pathlib.Path(folder), f"{part}-images-idx3-ubyte")
    labels = _read(pathlib.Path(folder), f"{part}-labels-idx1-ubyte")
    return torch.utils.data.TensorDataset(images[:, None] / 255, labels.long())


def _read(folder, name):
    """An IDX file, plain or compressed: two zero bytes, the type 8, the dimensions, their sizes, and the bytes."""
    plain, packed = folder / name, folder / (name + ".gz")
    if not plain.exists() and not packed.exists():
        raise SystemExit(f"{plain} does not exist; fetch it: bash trainer/fetch_mnist.sh {folder}")
    data = plain.read_bytes() if plain.exists() else gzip.decompress(packed.read_bytes())
    dimensions = data[3]
    sizes = [int.from_bytes(data[4 * k:4 * k + 4], "big") for k in range(1, dimensions + 1)]
    return torch.frombuffer(bytearray(data[4 * dimensions + 4:]), dtype=torch.uint8).view(sizes)
