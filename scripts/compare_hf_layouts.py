#!/usr/bin/env python3
"""Reads the folders that `patchbay quantize` writes with other programs, and compares weights and perplexity.

    pip install torch transformers safetensors numpy compressed-tensors
    pip download --no-deps --no-binary :all: autoawq==0.2.9          # unpacked: --autoawq FOLDER, to read AWQ with AutoAWQ's own functions
    python scripts/compare_hf_layouts.py [--model MODEL] [--text FILE] [--program build/release/bin/patchbay] [--autoawq FOLDER] [--rows NAME ...]

For each layout the model is quantised into a folder. An independent reader makes fp32 weights of it: for GPTQ and AWQ GEMV the numpy functions below, written
from the layouts' descriptions; for AWQ GEMM AutoAWQ's; for compressed-tensors the package of this name, by transformers. transformers runs them in fp32.
Patchbay reads the folder too: its weights (by `patchbay convert`, to GGUF in f32 and back to a folder) and its perplexity, fp32 activations. Prints a Markdown
table: the largest difference between the weights, both perplexities, and by how much they differ.
"""
import argparse
import json
import math
import pathlib
import subprocess
import sys
import tempfile
import types

import numpy
import safetensors.numpy
import safetensors.torch
import torch
import transformers

ROOT = pathlib.Path(__file__).resolve().parent.parent
WINDOW, WINDOWS = 256, 8
ROWS = {  # name: layout, settings
    "gptq, int4 g64 sym": ("gptq", ["format={type: int_grouped, bits: 4, group_size: 64, symmetric: true}"]),
    "gptq_v2, int4 g64": ("gptq_v2", ["format={type: int_grouped, bits: 4, group_size: 64}"]),
    "gptq_v2, int3 g64, desc_act": ("gptq_v2", ["quantizer={type: gptq, desc_act: true}", "format={type: int_grouped, bits: 3, group_size: 64, column_order: true}",
                                              "calibration.samples=8", "calibration.length=128"]),
    "gptq_v2, int2 row": ("gptq_v2", ["format={type: int_grouped, bits: 2, group_size: -1}"]),
    "gptq_v2, int8 g64": ("gptq_v2", ["format={type: int_grouped, bits: 8, group_size: 64}"]),
    "awq GEMM, int4 g64": ("awq", ["format={type: int_grouped, bits: 4, group_size: 64}"]),
    "awq GEMV, int4 g64": ("awq_gemv", ["format={type: int_grouped, bits: 4, group_size: 64}"]),
    "compressed-tensors, fp8 channel": ("compressed-tensors", ["format={type: fp8, scales: channel}"]),
    "compressed-tensors, fp8 tensor": ("compressed-tensors", ["format={type: fp8, scales: tensor}"]),
    "compressed-tensors, w8a8": ("compressed-tensors", ["format={type: w8a8}"]),
}


# Independent readers ---------------------------------------------------------------------------------------------------------------

def fields(words, bits, count):
    """The codes in each row of words (N, words): one after the other from the lowest bit of the first word on."""
    stream = numpy.unpackbits(numpy.ascontiguousarray(words).view(numpy.uint8), axis=1, bitorder="little")[:, :count * bits]
    return (stream.reshape(len(words), count, bits) << numpy.arange(bits)).sum(axis=2, dtype=numpy.int64)


def read_gptq(tensors, config):
    qweight, qzeros, scales, g_idx = (tensors[part] for part in ("qweight", "qzeros", "scales", "g_idx"))
    bits, outputs = config["bits"], scales.shape[1]
    codes = fields(qweight.T, bits, len(g_idx))                   # (out, in)
    zeros = fields(qzeros, bits, outputs)                         # (groups, out)
    if config["checkpoint_format"] == "gptq":
        zeros = zeros + 1
    return scales.astype(numpy.float32)[g_idx].T * (codes - zeros[g_idx].T)


def read_awq_gemv(tensors, config):
    group = config["group_size"]
    codes = fields(tensors["qweight"], 4, tensors["qweight"].shape[1] * 8)
    groups = codes.shape[1] // group
    zeros, scales = fields(tensors["qzeros"], 4, groups), tensors["scales"].astype(numpy.float32)[:, :groups]
    return numpy.repeat(scales, group, axis=1) * (codes - numpy.repeat(zeros, group, axis=1))


def read_awq_gemm(tensors, config, autoawq):
    if not autoawq:  # nibble i of a word is output 0 2 4 6 1 3 5 7 [i] of its eight
        place = numpy.argsort([0, 2, 4, 6, 1, 3, 5, 7])
        turned = [fields(tensors[part], 4, tensors[part].shape[1] * 8) for part in ("qweight", "qzeros")]
        codes, zeros = (part.reshape(len(part), -1, 8)[:, :, place].reshape(len(part), -1) for part in turned)
        return (numpy.repeat(tensors["scales"].astype(numpy.float32), config["group_size"], axis=0) * (codes - numpy.repeat(zeros, config["group_size"], axis=0))).T
    for name in ("awq", "awq.utils"):  # their __init__ wants a GPU's libraries
        module = types.ModuleType(name)
        module.__path__ = [str(pathlib.Path(autoawq, *name.split(".")))]
        sys.modules[name] = module
    from awq.utils.packing_utils import dequantize_gemm
    part = {name: torch.from_numpy(tensor) for name, tensor in tensors.items()}
    return dequantize_gemm(part["qweight"], part["qzeros"], part["scales"].float(), 4, config["group_size"]).numpy().T


def independent_weights(folder, autoawq):
    config = json.loads((folder / "config.json").read_text())["quantization_config"]
    stored = safetensors.numpy.load_file(folder / "model.safetensors")
    modules = {}
    for name in [name for name in stored if name.rsplit(".", 1)[1] in ("qweight", "qzeros", "scales", "g_idx")]:
        module, part = name.rsplit(".", 1)
        modules.setdefault(module, {})[part] = stored.pop(name)
    for module, tensors in modules.items():
        if config["quant_method"] == "gptq":
            own = dict(config)
            if config["group_size"] == -1:
                assert len(tensors["scales"]) == 1
            stored[module + ".weight"] = read_gptq(tensors, own)
        else:
            stored[module + ".weight"] = read_awq_gemv(tensors, config) if config["version"] == "gemv" else read_awq_gemm(tensors, config, autoawq)
    return {name: torch.from_numpy(numpy.ascontiguousarray(tensor, numpy.float32)) for name, tensor in stored.items()}


def by_transformers(folder, weights):
    """A model in fp32 of these weights."""
    config = transformers.AutoConfig.from_pretrained(folder)
    del config.quantization_config
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    missing, unexpected = model.load_state_dict(weights, strict=False)
    assert not unexpected and set(missing) <= {"lm_head.weight"}, (missing, unexpected)
    model.tie_weights()
    return model.eval()


def by_compressed_tensors(folder):
    config = transformers.CompressedTensorsConfig(run_compressed=False)
    return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, quantization_config=config).eval()


# Patchbay --------------------------------------------------------------------------------------------------------------------------

def patchbay(program, *words):
    run = subprocess.run([program, *map(str, words)], capture_output=True, text=True)
    if run.returncode:
        raise SystemExit(f"patchbay {' '.join(map(str, words))}\n{run.stderr}")
    return run.stdout


def our_weights(program, folder):
    patchbay(program, "convert", folder, f"{folder}.gguf", "--type", "f32")
    patchbay(program, "convert", f"{folder}.gguf", f"{folder}-f32", "--type", "f32")
    return safetensors.torch.load_file(f"{folder}-f32/model.safetensors")


def perplexity_by(model, tokens, with_bos):
    """Protocol `patchbay`: all but the first token of each window are scored; where the model wants BOS, it is that one."""
    losses = []
    for begin in range(0, WINDOW * WINDOWS, WINDOW):
        window = torch.tensor([tokens[begin:begin + WINDOW]])
        if with_bos:
            window[0, 0] = tokens[0]
        with torch.no_grad():
            logits = model(window).logits[0, :-1].double()
        losses.append(torch.nn.functional.cross_entropy(logits, window[0, 1:], reduction="sum").item())
    return math.exp(sum(losses) / (WINDOWS * (WINDOW - 1)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=str(ROOT / "data/tiny-shakespeare/tiny-shakespeare-f16.gguf"))
    parser.add_argument("--text", default=str(ROOT / "data/tiny-shakespeare/evaluation.txt"))
    parser.add_argument("--program", default=str(ROOT / "build/release/bin/patchbay"))
    parser.add_argument("--autoawq")
    parser.add_argument("--rows", nargs="*", default=list(ROWS))
    args = parser.parse_args()
    print("| layout | largest difference of a weight | perplexity, patchbay | there | difference |\n| --- | --- | --- | --- | --- |")
    for name in args.rows:
        layout, settings = ROWS[name]
        with tempfile.TemporaryDirectory() as scratch:
            folder = pathlib.Path(scratch) / "out"
            patchbay(args.program, "quantize", "--model", args.model, "--out", folder, "--layout", layout, "--quiet", *settings)
            ours = json.loads(patchbay(args.program, "perplexity", "--model", folder, "--text", args.text, "--window", WINDOW, "--chunks", WINDOWS, "--json", "activations=fp32", "kv_store.format=fp32"))
            tokens = json.loads(patchbay(args.program, "tokenize", "--model", folder, "--file", args.text, "--add-special", "--json"))["tokens"]
            if layout == "compressed-tensors":
                model = by_compressed_tensors(folder)
            else:
                model = by_transformers(folder, independent_weights(folder, args.autoawq))
            theirs, weights = perplexity_by(model, tokens, ours["bos"] == "first of each window"), model.state_dict()
            difference = max((weights[key].float() - tensor).abs().max().item() for key, tensor in our_weights(args.program, folder).items())
        print(f"| {name} | {difference:.3g} | {ours['perplexity']:.4f} | {theirs:.4f} | {theirs / ours['perplexity'] - 1:+.4%} |", flush=True)


if __name__ == "__main__":
    main()
