#!/usr/bin/env python3
"""Has `patchbay quantize` write GGUF files of many types, loads each with llama.cpp, and sets the perplexity there beside patchbay's own.

    pip install gguf numpy llama-cpp-python
    python scripts/compare_gguf.py [--model FILE] [--text FILE] [--windows N] [--patchbay build/release/bin/patchbay] [--types NAME ...] [KEY=VALUE ...]

NAME: a format or a mix (default: every one that the model's rows take); KEY=VALUE: more settings of `quantize` (quantizer.type=gptq). Both programs compute with 8-bit
activations, each in its own way. Prints a Markdown table and exits with 1 where a file does not load, a tensor has another type than
was said, or the perplexities are further apart than 0.5%.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import gguf
import llama_cpp
import numpy

ROOT = pathlib.Path(__file__).resolve().parent.parent
BLOCKS = ["q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q2_k", "q3_k", "q4_k", "q5_k", "q6_k", "iq4_nl", "iq4_xs", "fp16", "bf16", "fp32"]
MIXES = ["q2_k_s", "q3_k_s", "q3_k_m", "q3_k_l", "q4_k_s", "q4_k_m", "q5_k_s", "q5_k_m"]
WINDOW, TOLERANCE = 512, 0.005
NAMES = {"F32": "fp32", "F16": "fp16", "BF16": "bf16"}  # as patchbay calls them


def run(program, *arguments):
    done = subprocess.run([program, *map(str, arguments), "--json"], capture_output=True, text=True)
    return (json.loads(done.stdout) if done.returncode == 0 else None), done.stderr.strip()


def llama_perplexity(path, text, windows):
    """As protocol `patchbay`: windows side by side, the first token replaced by BOS where the model wants one, all others scored."""
    model = llama_cpp.llama_model_load_from_file(str(path).encode(), llama_cpp.llama_model_default_params())
    if not model:
        raise SystemExit(f"llama.cpp does not load {path}")
    params = llama_cpp.llama_context_default_params()
    params.n_ctx = params.n_batch = params.n_ubatch = WINDOW
    context = llama_cpp.llama_init_from_model(model, params)
    vocabulary = llama_cpp.llama_model_get_vocab(model)
    tokens = (llama_cpp.llama_token * (len(text) + 2))()
    count = llama_cpp.llama_tokenize(vocabulary, text, len(text), tokens, len(tokens), True, False)
    size, losses = llama_cpp.llama_vocab_n_tokens(vocabulary), []
    for first in range(0, min(count // WINDOW, windows) * WINDOW, WINDOW):
        window = list(tokens[first:first + WINDOW])
        if llama_cpp.llama_vocab_get_add_bos(vocabulary):
            window[0] = llama_cpp.llama_vocab_bos(vocabulary)
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(context), True)
        batch = llama_cpp.llama_batch_init(WINDOW, 0, 1)
        batch.n_tokens = WINDOW
        for i, token in enumerate(window):
            batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.logits[i] = token, i, 1, 1
            batch.seq_id[i][0] = 0
        if llama_cpp.llama_decode(context, batch) != 0:
            raise SystemExit("llama.cpp: llama_decode failed")
        logits = numpy.ctypeslib.as_array(llama_cpp.llama_get_logits(context), (WINDOW, size)).astype(numpy.float64)[:-1]
        largest = logits.max(axis=1)
        sums = numpy.log(numpy.exp(logits - largest[:, None]).sum(axis=1)) + largest
        losses.append(sums - logits[numpy.arange(WINDOW - 1), window[1:]])
        llama_cpp.llama_batch_free(batch)
    llama_cpp.llama_free(context)
    llama_cpp.llama_model_free(model)
    return float(numpy.exp(numpy.concatenate(losses).mean()))


def types_differ(path, said):
    """Names of tensors that have another type than `quantize` said."""
    wrong = []
    for tensor in gguf.GGUFReader(str(path)).tensors:
        parts = tensor.name.split(".")
        name = ".".join(["blk", "*", *parts[2:-1]]) if parts[0] == "blk" else ".".join(parts[:-1])
        if name in said and NAMES.get(tensor.tensor_type.name, tensor.tensor_type.name.lower()) not in [entry["format"] for entry in said[name]]:
            wrong.append(tensor.name)
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", 1)[0])
    parser.add_argument("--model", default=ROOT / "data/tiny-shakespeare/tiny-shakespeare-f16.gguf")
    parser.add_argument("--text", type=pathlib.Path, default=ROOT / "data/tiny-shakespeare/evaluation.txt")
    parser.add_argument("--windows", type=int, default=24)
    parser.add_argument("--patchbay", default=ROOT / "build/release/bin/patchbay")
    parser.add_argument("--types", nargs="+", default=BLOCKS + MIXES)
    parser.add_argument("settings", nargs="*", metavar="KEY=VALUE")
    options = parser.parse_args()
    silent = llama_cpp.llama_log_callback(lambda level, text, data: None)
    llama_cpp.llama_log_set(silent, None)
    llama_cpp.llama_backend_init()
    text, good = options.text.read_bytes(), True
    print("| type | MB | types in the file | perplexity, patchbay | llama.cpp | difference |\n| --- | ---: | --- | ---: | ---: | ---: |")
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "out.gguf"
        for kind in options.types:
            written, error = run(options.patchbay, "quantize", "--model", options.model, "--out", out, "--force", f"format.type={kind}", *options.settings)
            if written is None:
                print(f"| {kind} | | refused: {error.splitlines()[0]} | | | |")
                continue
            ours, error = run(options.patchbay, "perplexity", "--model", out, "--text", options.text, "--window", WINDOW, "--chunks", options.windows)
            theirs = llama_perplexity(out, text, options.windows)
            difference = theirs / ours["perplexity"] - 1
            wrong = types_differ(out, written["weights"])
            good = good and abs(difference) < TOLERANCE and not wrong
            formats = ", ".join(sorted({entry["format"] for entries in written["weights"].values() for entry in entries}))
            print(f"| {kind} | {written['weights_bytes'] / 1e6:.2f} | {formats}{' **differ**' if wrong else ''} | {ours['perplexity']:.4f} | {theirs:.4f} | {100 * difference:+.3f}% |", flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
