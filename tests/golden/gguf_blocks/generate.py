#!/usr/bin/env python3
"""Writes blocks.json: packed blocks of each computed GGUF tensor type and the floats they stand for, as the PyPI package
`gguf` decodes them. An independent reading of the formats, to be matched bit for bit.

    pip install gguf numpy llama-cpp-python && python generate.py blocks.json

Per type: values_per_block, bytes_per_block, `blocks` (hex of the packed bytes, block after block) and `values` (hex of the
decoded fp32 values, little-endian). No value is a NaN: a scale is finite. Infinities occur in F16 and BF16 only.
Integers and F64, which `gguf` hands out as numpy arrays, are converted by numpy.
Q8_K, which `gguf` does not decode, is decoded by ggml itself, as llama-cpp-python brings it.
"""
import ctypes
import importlib.metadata
import json
import pathlib
import sys

import numpy
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import dequantize

SEED = 20250101
RANDOM_BLOCKS = 12
# Bytes of fp16 fields (scale, minimum) at the head of a block; the rest of a block is codes, where any bits are legal.
SCALES = {"Q4_0": 1, "Q4_1": 2, "Q5_0": 1, "Q5_1": 2, "Q8_0": 1}
# The same of the larger blocks: where their fp16 fields begin, and how many there are.
SUPER_SCALES = {"Q4_K": (0, 2), "Q6_K": (208, 1), "Q5_K": (0, 2), "Q2_K": (80, 2), "Q3_K": (108, 1), "IQ4_NL": (0, 1), "IQ4_XS": (0, 1)}
# Integers and 64-bit floats that fp32 does not hold exactly: numpy rounds them to nearest, ties to even.
PLAIN_EXTREMES = {
    "I": lambda dtype: numpy.array([numpy.iinfo(dtype).min, numpy.iinfo(dtype).max, 0, -1], dtype),
    "F": lambda dtype: numpy.array([0.0, -0.0, 1 / 3, 1 + 2.0**-24, 1 + 3 * 2.0**-24, 16777217, 1e300, -1e300, 1e-300, 1e-42], dtype),
}
# zero, minus zero, smallest and largest subnormal, smallest normal, one, largest, and their negatives
EXTREME_HALVES = [0x0000, 0x8000, 0x0001, 0x8001, 0x03FF, 0x83FF, 0x0400, 0x3C00, 0xBC00, 0x7BFF, 0xFBFF]


def finite_halves(rng, count):
    """Random binary16 bits over the whole range of exponents, infinities and NaNs left out."""
    sign, exponent, mantissa = rng.integers(0, 2, count), rng.integers(0, 31, count), rng.integers(0, 1024, count)
    return (sign << 15 | exponent << 10 | mantissa).astype("<u2")


def quantised_blocks(rng, name, block_bytes):
    fields = SCALES[name]
    code_bytes = block_bytes - 2 * fields
    blocks = []
    for _ in range(RANDOM_BLOCKS):
        blocks.append(finite_halves(rng, fields).tobytes() + rng.bytes(code_bytes))
    for i, half in enumerate(EXTREME_HALVES):
        others = [EXTREME_HALVES[(i * 3 + 1) % len(EXTREME_HALVES)]] * (fields - 1)
        head = numpy.array([half] + others, "<u2").tobytes()
        codes = [b"\x00" * code_bytes, b"\xff" * code_bytes, b"\x80" * code_bytes, rng.bytes(code_bytes)][i % 4]
        blocks.append(head + codes)
    return b"".join(blocks)


def super_blocks(rng, name, block_bytes):
    at, fields = SUPER_SCALES[name]
    blocks = []
    for i in range(8):  # four of any scale, then extreme ones; any bits are legal elsewhere
        halves = finite_halves(rng, fields) if i < 4 else numpy.array([EXTREME_HALVES[(3 * i + k) % 11] for k in range(fields)], "<u2")
        block = bytearray([rng.bytes(block_bytes), b"\xff" * block_bytes][i == 7])
        block[at:at + 2 * fields] = halves.tobytes()
        blocks.append(bytes(block))
    return b"".join(blocks)


def decoded_by_ggml(packed, count):
    import llama_cpp
    library = ctypes.CDLL(str(next((pathlib.Path(llama_cpp.__file__).parent / "lib").glob("libggml-base.so*"))))
    values = numpy.empty(count, "<f4")
    library.dequantize_row_q8_K(packed, values.ctypes.data_as(ctypes.c_void_p), ctypes.c_int64(count))
    return values


def sixteen_bit_values(rng, name):
    infinity = 0x7C00 if name == "F16" else 0x7F80
    if name == "F16":
        drawn, extremes = finite_halves(rng, 512), EXTREME_HALVES
    else:
        drawn = rng.integers(0, 1 << 16, 512).astype("<u2")
        drawn = drawn[(drawn & 0x7F80) != 0x7F80]
        extremes = [0x0000, 0x8000, 0x0001, 0x8001, 0x007F, 0x807F, 0x0080, 0x3F80, 0xBF80, 0x7F7F, 0xFF7F]
    return drawn.tobytes() + numpy.array(extremes + [infinity, infinity | 0x8000], "<u2").tobytes()


def main(path):
    rng = numpy.random.default_rng(SEED)
    numpy.seterr(over="ignore")
    types = {}
    for name in ["F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"]:
        kind = GGMLQuantizationType[name]
        values_per_block, bytes_per_block = GGML_QUANT_SIZES[kind]
        packed = quantised_blocks(rng, name, bytes_per_block) if name in SCALES else sixteen_bit_values(rng, name)
        stored = numpy.frombuffer(packed, {"F16": numpy.float16}.get(name, numpy.uint8))
        values = dequantize(stored, kind).astype("<f4").ravel()
        assert len(values) == len(packed) // bytes_per_block * values_per_block and not numpy.isnan(values).any(), name
        types[name] = {"values_per_block": values_per_block, "bytes_per_block": bytes_per_block,
                       "blocks": packed.hex(), "values": values.tobytes().hex()}
    for name in SUPER_SCALES:
        kind = GGMLQuantizationType[name]
        values_per_block, bytes_per_block = GGML_QUANT_SIZES[kind]
        packed = super_blocks(rng, name, bytes_per_block)
        values = dequantize(numpy.frombuffer(packed, numpy.uint8), kind).astype("<f4").ravel()
        assert len(values) == len(packed) // bytes_per_block * values_per_block and not numpy.isnan(values).any(), name
        types[name] = {"values_per_block": values_per_block, "bytes_per_block": bytes_per_block,
                       "blocks": packed.hex(), "values": values.tobytes().hex()}
    packed = b"".join(numpy.float32(scale).tobytes() + rng.bytes(288) for scale in [1.0, -0.37, 1e-30, 0.0])
    types["Q8_K"] = {"values_per_block": 256, "bytes_per_block": 292, "blocks": packed.hex(),
                     "values": decoded_by_ggml(packed, 4 * 256).tobytes().hex()}
    for name, dtype in {"I8": "<i1", "I16": "<i2", "I32": "<i4", "I64": "<i8", "F64": "<f8"}.items():
        numbers = numpy.concatenate([numpy.frombuffer(rng.bytes(64 * numpy.dtype(dtype).itemsize), dtype), PLAIN_EXTREMES[name[0]](dtype)])
        numbers = numbers[numbers == numbers]
        types[name] = {"values_per_block": 1, "bytes_per_block": numbers.itemsize, "blocks": numbers.tobytes().hex(),
                       "values": numbers.astype("<f4").tobytes().hex()}
    versions = {package: importlib.metadata.version(package) for package in ["gguf", "numpy", "llama-cpp-python"]}
    with open(path, "w", encoding="ascii") as out:
        json.dump({"seed": SEED, "versions": versions, "types": types}, out, indent=1)
        out.write("\n")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "blocks.json")
