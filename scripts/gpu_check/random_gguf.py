#!/usr/bin/env python3
"""Writes a GGUF file of a Llama with random weights, fast: a model's shape is all that its speed depends on.

    random_gguf.py SmolLM2-135M|Llama-3.2-1B|Llama-3.1-8B|tiny fp16|q4_k FILE

Weights repeat after some megabytes; each tensor begins elsewhere among them. q4_k: matrices of the blocks in Q4_K (Q4_0 where a row is
no multiple of 256), embedding and head in Q6_K (Q8_0).
"""
import math
import os
import struct
import sys

# layers, width, feed-forward width, heads, key/value heads, vocabulary, context, one matrix for embedding and head, theta of RoPE
SHAPES = {
    "SmolLM2-135M": (30, 576, 1536, 9, 3, 49152, 8192, True, 100000.0),
    "Llama-3.2-1B": (16, 2048, 8192, 32, 8, 128256, 8192, True, 500000.0),
    "Llama-3.1-8B": (32, 4096, 14336, 32, 8, 128256, 8192, False, 500000.0),
    "tiny": (2, 256, 512, 4, 2, 512, 512, True, 10000.0),
}
F32, F16, Q4_0, Q8_0, Q4_K, Q6_K = 0, 1, 2, 8, 12, 14
BLOCK = {F32: (1, 4), F16: (1, 2), Q4_0: (32, 18), Q8_0: (32, 34), Q4_K: (256, 144), Q6_K: (256, 210)}  # weights and bytes of a block
POOL_BYTES = 48 << 20
ALIGNMENT = 32


def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def pair(key, kind, value):
    return text(key) + struct.pack("<I", kind) + value


def number(key, value):
    return pair(key, 4, struct.pack("<I", value))


def real(key, value):
    return pair(key, 6, struct.pack("<f", value))


def strings(key, values):
    return pair(key, 9, struct.pack("<IQ", 8, len(values)) + b"".join(map(text, values)))


def byte_letters():
    """The letters that byte-level BPE writes for the 256 bytes (GPT-2's table)."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = {byte: chr(byte) for byte in plain}
    for i, byte in enumerate(byte for byte in range(256) if byte not in letters):
        letters[byte] = chr(256 + i)
    return [letters[byte] for byte in range(256)]


def header_pairs(name, shape):
    layers, width, feed_forward, heads, kv_heads, vocabulary, context, _, theta = shape
    tokens = byte_letters() + ["to"] + [f"token{i}" for i in range(vocabulary - 258)] + ["<|end|>"]
    return [pair("general.architecture", 8, text("llama")), pair("general.name", 8, text(name + " with random weights")),
            number("llama.block_count", layers), number("llama.context_length", context), number("llama.embedding_length", width),
            number("llama.feed_forward_length", feed_forward), number("llama.attention.head_count", heads), number("llama.attention.head_count_kv", kv_heads),
            number("llama.rope.dimension_count", width // heads), real("llama.rope.freq_base", theta),
            real("llama.attention.layer_norm_rms_epsilon", 1e-5), number("llama.vocab_size", vocabulary),
            pair("tokenizer.ggml.model", 8, text("gpt2")), pair("tokenizer.ggml.pre", 8, text("llama-bpe")), strings("tokenizer.ggml.tokens", tokens),
            pair("tokenizer.ggml.token_type", 9, struct.pack("<IQ", 5, vocabulary) + struct.pack("<i", 1) * (vocabulary - 1) + struct.pack("<i", 3)),
            strings("tokenizer.ggml.merges", ["t o"]), number("tokenizer.ggml.eos_token_id", vocabulary - 1)]


def tensors(shape, types):
    layers, width, feed_forward, heads, kv_heads, vocabulary, _, tied, _ = shape
    blocks, ends = types
    kv = width // heads * kv_heads

    def fitting(kind, cols):
        return kind if cols % BLOCK[kind][0] == 0 else {Q4_K: Q4_0, Q6_K: Q8_0}[kind]

    yield "token_embd.weight", fitting(ends, width), (width, vocabulary)
    yield "output_norm.weight", F32, (width,)
    if not tied:
        yield "output.weight", fitting(ends, width), (width, vocabulary)
    for i in range(layers):
        yield f"blk.{i}.attn_norm.weight", F32, (width,)
        yield f"blk.{i}.ffn_norm.weight", F32, (width,)
        for part, cols, rows in (("attn_q", width, width), ("attn_k", width, kv), ("attn_v", width, kv), ("attn_output", width, width),
                                 ("ffn_gate", width, feed_forward), ("ffn_up", width, feed_forward), ("ffn_down", feed_forward, width)):
            yield f"blk.{i}.{part}.weight", fitting(blocks, cols), (cols, rows)


def pool_of(kind):
    """Megabytes of valid weights of a type: random numbers of about 1/50, or random codes under scales that make them so."""
    weights, size = BLOCK[kind]
    count = POOL_BYTES // size
    if kind == F32:
        return struct.pack("<f", 1) * count
    pool = bytearray(os.urandom(count * size))
    if kind == F16:  # either sign, 2^-6 times 1 to 2
        pool[1::2] = pool[1::2].translate(bytes(byte & 0x83 | 0x24 for byte in range(256)))
    scale = struct.pack("<e", 2e-4)
    for at in {F16: [], Q4_0: [0], Q8_0: [0], Q4_K: [0, 2], Q6_K: [208]}[kind]:
        for i in range(2):
            pool[at + i::size] = scale[i:i + 1] * count
    return pool


def write(name, style, path):
    shape = SHAPES[name]
    listed = list(tensors(shape, {"fp16": (F16, F16), "q4_k": (Q4_K, Q6_K)}[style]))
    infos, at, sizes = b"", 0, []
    for tensor, kind, extents in listed:
        infos += text(tensor) + struct.pack(f"<I{len(extents)}QIQ", len(extents), *extents, kind, at)
        sizes.append(math.prod(extents) // BLOCK[kind][0] * BLOCK[kind][1])
        at += -(-sizes[-1] // ALIGNMENT) * ALIGNMENT
    pairs = header_pairs(name, shape)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(listed), len(pairs)) + b"".join(pairs) + infos
    pools = {}
    with open(path, "wb") as file:
        file.write(head + b"\0" * (-len(head) % ALIGNMENT))
        for i, ((_, kind, _), size) in enumerate(zip(listed, sizes)):
            if kind not in pools:
                pools[kind] = memoryview(pool_of(kind))
            pool = pools[kind]
            begin = i * 65536 * BLOCK[kind][1] % (len(pool) // 2)
            begin -= begin % BLOCK[kind][1]
            left = size
            while left > 0:
                piece = pool[begin:begin + left]
                file.write(piece)
                left -= len(piece)
                begin = 0
            file.write(b"\0" * (-size % ALIGNMENT))


if __name__ == "__main__":
    if len(sys.argv) != 4 or sys.argv[1] not in SHAPES or sys.argv[2] not in ("fp16", "q4_k"):
        sys.exit(__doc__)
    write(*sys.argv[1:])
