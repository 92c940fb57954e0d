#!/usr/bin/env python3
"""Writes types.json: the type that llama.cpp's quantiser gives every matrix of models of many shapes, for each of its file types.

    pip install gguf numpy llama-cpp-python && python generate.py types.json

Each shape becomes a small GGUF file (zeros, few rows), and llama_model_quantize says in a dry run what it would do. `columns` are those
of each matrix; a string of `types` holds one letter of `letters` for each layer.
"""
import ctypes
import importlib.metadata
import json
import pathlib
import re
import sys
import tempfile

import gguf
import llama_cpp
import numpy

MIXES = ["q2_K", "q2_K_S", "q3_K_S", "q3_K_M", "q3_K_L", "q4_K_S", "q4_K_M", "q5_K_S", "q5_K_M", "q6_K", "q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "iq4_nl", "iq4_xs"]
LETTERS = {"q2_k": "2", "q3_k": "3", "q4_k": "4", "q5_k": "5", "q6_k": "6", "q4_0": "a", "q4_1": "b", "q5_0": "c", "q5_1": "d", "q8_0": "e",
           "iq4_nl": "n", "iq4_xs": "x", "f16": "h"}
SHAPES = {  # columns as in the models named; rows hardly matter
    "smollm2-135m": dict(arch="llama", layers=30, hidden=576, ffn=1536, heads=9, kv_heads=3),
    "gemma-3-270m": dict(arch="gemma3", layers=18, hidden=640, ffn=2048, heads=4, kv_heads=1, head=256),
    "tiny-shakespeare": dict(arch="llama", layers=4, hidden=256, ffn=768, heads=8, kv_heads=2),
    "qwen2": dict(arch="qwen2", layers=24, hidden=896, ffn=512, heads=14, kv_heads=2),
    "qwen3": dict(arch="qwen3", layers=4, hidden=512, ffn=1536, heads=8, kv_heads=4, head=64),
    "llama of 8B": dict(arch="llama", layers=32, hidden=256, ffn=512, heads=8, kv_heads=2, tied=False),
    "llama of 65B": dict(arch="llama", layers=80, hidden=256, ffn=256, heads=8, kv_heads=8, tied=False),
    "llama of 70B": dict(arch="llama", layers=80, hidden=256, ffn=256, heads=8, kv_heads=1, tied=False),
    "mixtral": dict(arch="llama", layers=32, hidden=256, ffn=256, heads=8, kv_heads=2, experts=8, tied=False),
    "qwen3moe": dict(arch="qwen3moe", layers=20, hidden=256, ffn=256, heads=4, kv_heads=2, experts=6, expert_ffn=96),
    "qwen2moe": dict(arch="qwen2moe", layers=10, hidden=256, ffn=256, heads=4, kv_heads=4, experts=5, expert_ffn=64, shared=320, tied=False),
    "gpt2": dict(arch="gpt2", layers=12, hidden=768, ffn=3072, heads=12, kv_heads=12),
    "phi3": dict(arch="phi3", layers=32, hidden=256, ffn=512, heads=4, kv_heads=4, tied=False),
    "gemma2": dict(arch="gemma2", layers=26, hidden=256, ffn=768, heads=8, kv_heads=4),
    "rows of 48": dict(arch="llama", layers=9, hidden=48, ffn=336, heads=3, kv_heads=1, tied=False),
    "rows of 96": dict(arch="llama", layers=17, hidden=96, ffn=160, heads=3, kv_heads=3, tied=False),
}


def matrices(s):
    """Name, rows, columns and number of experts (0: none) of each matrix; in the blocks without its layer."""
    hidden, ffn = s["hidden"], s.get("expert_ffn", s["ffn"])
    head = s.get("head", hidden // s["heads"])
    queries, keys = s["heads"] * head, s["kv_heads"] * head
    yield "token_embd", 32, hidden, 0
    if not s.get("tied", True):
        yield "output", 32, hidden, 0
    fused = s["arch"] in ("gpt2", "phi3")
    for name, rows in [("attn_qkv", queries + 2 * keys)] if fused else [("attn_q", queries), ("attn_k", keys), ("attn_v", keys)]:
        yield name, rows, hidden, 0
    yield "attn_output", hidden, queries, 0
    experts = s.get("experts", 0)
    suffix = "_exps" if experts else ""
    if not fused:
        yield "ffn_gate" + suffix, ffn, hidden, experts
    yield "ffn_up" + suffix, ffn * (2 if s["arch"] == "phi3" else 1), hidden, experts
    yield "ffn_down" + suffix, hidden, ffn, experts
    if "shared" in s:
        yield "ffn_gate_shexp", s["shared"], hidden, 0
        yield "ffn_up_shexp", s["shared"], hidden, 0
        yield "ffn_down_shexp", hidden, s["shared"], 0


def write_model(path, s):
    writer = gguf.GGUFWriter(str(path), s["arch"])
    head = s.get("head", s["hidden"] // s["heads"])
    writer.add_block_count(s["layers"])
    writer.add_context_length(64)
    writer.add_embedding_length(s["hidden"])
    writer.add_feed_forward_length(s["ffn"])
    writer.add_head_count(s["heads"])
    writer.add_head_count_kv(s["kv_heads"])
    writer.add_key_length(head)
    writer.add_value_length(head)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_layer_norm_eps(1e-5)
    writer.add_rope_dimension_count(head)
    writer.add_vocab_size(32)
    writer.add_tokenizer_model("none")
    if "experts" in s:
        writer.add_expert_count(s["experts"])
        writer.add_expert_used_count(2)
    for name, rows, columns, experts in matrices(s):
        values = numpy.zeros((experts, rows, columns) if experts else (rows, columns), numpy.float16)
        for full in [name] if name in ("token_embd", "output") else [f"blk.{layer}.{name}" for layer in range(s["layers"])]:
            writer.add_tensor(full + ".weight", values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


class DryRun:
    """What llama_model_quantize says it would do."""

    def __init__(self):
        self.lines = []
        self.log = llama_cpp.llama_log_callback(lambda level, text, data: self.lines.append(text.decode()))  # kept: the library calls it later
        llama_cpp.llama_log_set(self.log, None)

    def types(self, path, mix):
        self.lines.clear()
        params = llama_cpp.llama_model_quantize_default_params()
        params.ftype = getattr(llama_cpp, "LLAMA_FTYPE_MOSTLY_" + mix.upper())
        params.dry_run = True
        params.nthread = 1
        if llama_cpp.llama_model_quantize(str(path).encode(), b"not written", ctypes.byref(params)) != 0:
            raise SystemExit("".join(self.lines[-5:]))
        lines = re.findall(r"\] (\S+)\.weight .*type = *(\w+), size =.*?(?:\((\w+)\))?\n", "".join(self.lines))
        return {name: (after or before).lower() for name, before, after in lines}


def main(path):
    dry_run, models = DryRun(), {}
    with tempfile.TemporaryDirectory() as folder:
        for name, shape in SHAPES.items():
            model = pathlib.Path(folder) / "model.gguf"
            write_model(model, shape)
            columns = {part: columns for part, _, columns, _ in matrices(shape)}
            types = {}
            for mix in MIXES:
                chosen = dry_run.types(model, mix)
                types[mix.lower()] = {part: "".join(LETTERS[chosen[part if part in chosen else f"blk.{layer}.{part}"]]
                                                    for layer in range(1 if part in chosen else shape["layers"])) for part in columns}
            models[name] = {**{key: shape.get(key, 0) for key in ("layers", "heads", "kv_heads", "experts")}, "tied": shape.get("tied", True),
                            "columns": columns, "types": types}
    versions = {package: importlib.metadata.version(package) for package in ["gguf", "llama-cpp-python"]}
    letters = {letter: "fp16" if kind == "f16" else kind for kind, letter in LETTERS.items()}
    with open(path, "w", encoding="ascii") as out:
        json.dump({"versions": versions, "letters": letters, "models": models}, out, indent=1)
        out.write("\n")


if __name__ == "__main__":
    llama_cpp.llama_backend_init()
    main(sys.argv[1] if len(sys.argv) > 1 else "types.json")
