"""ggml's own quantisers, through the library that llama-cpp-python brings. Used by compare_quantize.py and tests/golden/gguf_search."""
import ctypes
import pathlib

import gguf
import llama_cpp
import numpy

TYPES = ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS"]


def _library():
    ggml = ctypes.CDLL(str(pathlib.Path(llama_cpp.__file__).parent / "lib" / "libggml-base.so"))
    ggml.ggml_quantize_chunk.restype = ctypes.c_size_t
    ggml.ggml_quantize_chunk.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p]
    return ggml


_GGML = _library()


def quantize(weights, name, importance=None):
    """Rows of blocks of the type `name`. importance: one number per column (a row of an importance matrix), or None."""
    kind = gguf.GGMLQuantizationType[name]
    weights = numpy.ascontiguousarray(weights, numpy.float32)
    rows, columns = weights.shape
    block_columns, block_bytes = gguf.GGML_QUANT_SIZES[kind]
    blocks = numpy.zeros((rows, columns // block_columns * block_bytes), numpy.uint8)
    if importance is not None:
        importance = numpy.ascontiguousarray(importance, numpy.float32)
    written = _GGML.ggml_quantize_chunk(int(kind), weights.ctypes.data, blocks.ctypes.data, 0, rows, columns,
                                        None if importance is None else importance.ctypes.data)
    assert written == blocks.size
    return blocks


def decode(blocks, name):
    return gguf.quants.dequantize(blocks, gguf.GGMLQuantizationType[name])


def relative_rmse(weights, decoded, importance=1.0):
    """sqrt(sum of importance (w - w')^2 / sum of importance w^2)"""
    weights = weights.astype(numpy.float64)
    return float(numpy.sqrt(((weights - decoded) ** 2 * importance).sum() / (weights ** 2 * importance).sum()))
