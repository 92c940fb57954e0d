#!/usr/bin/env python3
"""Writes errors.json: a matrix of weights, an importance of its columns, and the relative error with which ggml's quantisers (llama.cpp)
store it in each block format, without and with that importance. A search for scales must do as well.

    pip install gguf numpy llama-cpp-python && python generate.py errors.json

`weights` is the hex of fp16 rows (little-endian), `importance` of fp32; errors as ggml_quantize.py's relative_rmse.
"""
import importlib.metadata
import json
import pathlib
import sys

import numpy

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "scripts"))
import ggml_quantize  # noqa: E402

SEED, COLUMNS = 20261130, 512


def rows(rng):
    """Normal, heavy-tailed, one-sided, and normal with a scale of its own for each run of 32 columns."""
    normal = rng.normal(0, 0.05, (6, COLUMNS))
    heavy = rng.standard_t(3, (6, COLUMNS)) * 0.02
    one_sided = rng.normal(0.03, 0.02, (2, COLUMNS))
    uneven = rng.normal(0, 0.05, (2, COLUMNS)) * numpy.repeat(rng.lognormal(0, 1, (2, COLUMNS // 32)), 32, axis=1)
    return numpy.concatenate([normal, heavy, one_sided, uneven]).astype("<f2")


def main(path):
    rng = numpy.random.default_rng(SEED)
    weights = rows(rng)
    importance = (rng.chisquare(1, COLUMNS) * rng.lognormal(0, 1, COLUMNS)).astype("<f4")
    w = weights.astype(numpy.float32)
    errors = {}
    for name in ggml_quantize.TYPES:
        plain, weighted = (ggml_quantize.decode(ggml_quantize.quantize(w, name, i), name) for i in (None, importance))
        errors[name.lower()] = {"plain": ggml_quantize.relative_rmse(w, plain), "weighted": ggml_quantize.relative_rmse(w, weighted, importance)}
    versions = {package: importlib.metadata.version(package) for package in ["gguf", "numpy", "llama-cpp-python"]}
    with open(path, "w", encoding="ascii") as out:
        json.dump({"seed": SEED, "versions": versions, "columns": COLUMNS, "weights": weights.tobytes().hex(), "importance": importance.tobytes().hex(),
                   "errors": errors}, out, indent=1)
        out.write("\n")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "errors.json")
