"""The digits of trainer/data, for the examples."""
import gzip
import pathlib

FILE = pathlib.Path(__file__).resolve().parent.parent / "data" / "digits" / "digits.csv.gz"


def rows(path=FILE):
    """Lists of 65 numbers: 64 pixels from 0 to 16, and the digit."""
    with gzip.open(path, "rt") as lines:
        return [[int(number) for number in line.split(",")] for line in lines]


def split(all_rows):
    """The rows to train on, and every fifth to test on."""
    train = [row for index, row in enumerate(all_rows) if index % 5 != 4]
    return train, [row for index, row in enumerate(all_rows) if index % 5 == 4]
