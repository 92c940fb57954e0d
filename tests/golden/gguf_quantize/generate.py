#!/usr/bin/env python3
"""Writes quantized.json: rows of weights and the bytes that the PyPI package `gguf` quantises them to, for each block format it can
write. An independent reading of the rounding rules, to be matched byte for byte.

    pip install gguf numpy && python generate.py quantized.json

`weights` is the hex of the fp32 rows (little-endian), `columns` their length; `blocks` per type the hex of the packed bytes.
"""
import importlib.metadata
import json
import sys

import numpy
from gguf import GGMLQuantizationType
from gguf.quants import quantize

SEED = 20250102
COLUMNS = 64


def rows(rng):
    """Ordinary rows, then those where rules matter: ties of rounding, of the extreme, one sign, constants, zeros, small and large."""
    ordinary = rng.normal(0, 0.05, (16, COLUMNS))
    integers = rng.integers(-8, 9, (8, COLUMNS)) / 2.0  # many exact halves
    tied = numpy.where(rng.random((4, COLUMNS)) < 0.5, 0.25, -0.25) * rng.integers(0, 3, (4, COLUMNS))
    one_sign = numpy.abs(rng.normal(1, 0.1, (4, COLUMNS))) * numpy.array([[1], [-1], [1000], [-1e-3]])
    constants = numpy.repeat([[0.0], [1.0], [-0.37], [1e-7], [3e4]], COLUMNS, axis=1)
    outlier = rng.normal(0, 0.01, (4, COLUMNS))
    outlier[:, 5] = [3, -3, 0.5, -0.5]
    scales = rng.normal(0, 1, (4, COLUMNS)) * numpy.array([[1e-6], [1e-4], [1e3], [2e4]])
    return numpy.concatenate([ordinary, integers, tied, one_sign, constants, outlier, scales]).astype("<f4")


def main(path):
    weights = rows(numpy.random.default_rng(SEED))
    types = {name.lower(): quantize(weights, GGMLQuantizationType[name]).tobytes().hex()
             for name in ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"]}
    versions = {package: importlib.metadata.version(package) for package in ["gguf", "numpy"]}
    with open(path, "w", encoding="ascii") as out:
        json.dump({"seed": SEED, "versions": versions, "columns": COLUMNS, "weights": weights.tobytes().hex(), "blocks": types},
                  out, indent=1)
        out.write("\n")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "quantized.json")
