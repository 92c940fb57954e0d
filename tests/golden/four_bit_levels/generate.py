#!/usr/bin/env python3
"""Writes levels.json: what bitsandbytes makes of a matrix in NF4 and FP4, with scales in fp32 and doubly quantised.

    pip install torch bitsandbytes && python generate.py levels.json      (runs on a CPU)

Weight i of the matrix, row by row, is u |u| with u = (s_i >> 8) / 2^24 - 0.5, s_0 = 1 and s_i+1 = 1664525 s_i + 1013904223 mod 2^32: the same in any language.
A row is one block, so that bitsandbytes' blocks of scales, which it counts through the whole matrix, are patchbay's, which run down a column of blocks.
`codes`: hex of the packed bytes; `scales`: hex of fp32 (little-endian); `decoded`: hex of fp32, the first rows. Of the doubly quantised: `codes8` of the scales,
`second` (fp32 per 256 scales), `mean`, and the sum of squared
errors. `map`: hex of the 256 levels of the scales, fp32.
"""
import importlib.metadata
import json
import sys

import numpy
import torch
from bitsandbytes import functional

ROWS, BLOCK, DECODED_ROWS = 260, 32, 8


def weights():
    state, values = 1, numpy.empty(ROWS * BLOCK, numpy.float32)
    for i in range(values.size):
        u = numpy.float32((state >> 8) / 2**24 - 0.5)
        values[i] = u * abs(u)
        state = (1664525 * state + 1013904223) % 2**32
    return values.reshape(ROWS, BLOCK)


def hexed(tensor):
    return tensor.contiguous().numpy().tobytes().hex()


def plain(w, kind):
    codes, state = functional.quantize_4bit(w, blocksize=BLOCK, quant_type=kind)
    decoded = functional.dequantize_4bit(codes, state)
    return {"levels": state.code.tolist(), "codes": hexed(codes), "scales": hexed(state.absmax.float()), "decoded": hexed(decoded[:DECODED_ROWS].float())}


def double(w, kind):
    codes, state = functional.quantize_4bit(w, blocksize=BLOCK, quant_type=kind, compress_statistics=True)
    error = (functional.dequantize_4bit(codes, state) - w).double().square().sum().item()
    return {"codes8": hexed(state.absmax), "second": state.state2.absmax.tolist(), "mean": state.offset.item(), "squared_error": error}, hexed(state.state2.code.float())


def main(path):
    w = torch.from_numpy(weights())
    found = {}
    for kind in ("nf4", "fp4"):
        nested, scale_levels = double(w, kind)
        found[kind] = {"plain": plain(w, kind), "double": nested}
    versions = {package: importlib.metadata.version(package) for package in ("bitsandbytes", "torch")}
    with open(path, "w", encoding="ascii") as out:
        json.dump({"versions": versions, "rows": ROWS, "block": BLOCK, "map": scale_levels, "formats": found}, out, indent=1)
        out.write("\n")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "levels.json")
