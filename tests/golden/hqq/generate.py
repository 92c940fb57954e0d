#!/usr/bin/env python3
"""Writes errors.json: rows of weights, and the errors with which the authors' own package stores them, before and after its solver has moved the zero points.

    pip install hqq torch numpy && python generate.py errors.json

`weights` is the hex of fp16 rows (little-endian). `norm` is the mean of |error|^0.7, what the solver makes small; `mean` that of |error|.
"""
import importlib.metadata
import json
import sys

import numpy
import torch
from hqq.core.quantize import Quantizer

SEED, COLUMNS, GROUP = 20261130, 256, 32


def errors(weights, bits, optimize):
    codes, meta = Quantizer.quantize(weights, nbits=bits, group_size=GROUP, axis=1, optimize=optimize, round_zero=False, device="cpu", compute_dtype=torch.float32)
    error = (Quantizer.dequantize(codes, meta) - weights).abs().double()
    return {"norm": float((error**0.7).mean()), "mean": float(error.mean())}


def main():
    rng = numpy.random.default_rng(SEED)
    # Around 1, so that beta means something: normal, heavy tails, one-sided.
    weights = numpy.concatenate([rng.normal(0, 1, (4, COLUMNS)), rng.standard_t(3, (4, COLUMNS)), rng.normal(1.5, 0.5, (2, COLUMNS))]).astype("<f2")
    floats = torch.from_numpy(weights.astype(numpy.float32))
    cases = {str(bits): {"plain": errors(floats, bits, False), "solved": errors(floats, bits, True)} for bits in (4, 5)}
    golden = {"made_by": f"tests/golden/hqq/generate.py with hqq {importlib.metadata.version('hqq')}, torch {torch.__version__}", "columns": COLUMNS, "group_size": GROUP,
              "weights": weights.tobytes().hex(), "errors_by_bits": cases}
    with open(sys.argv[1], "w") as out:
        json.dump(golden, out, indent=1)
        out.write("\n")


if __name__ == "__main__":
    main()
