#!/usr/bin/env python3
"""A second opinion on the files' conventions: llama.cpp's logits for the same GGUF files, against those of transformers.

    pip install llama-cpp-python numpy && python compare.py

llama.cpp knows no dynamic NTK (it ends the process), and ignores the windows of Mistral and Phi-3.
"""
import json
import pathlib

import llama_cpp
import numpy

TOLERANCE = 5e-5
GELU_TOLERANCE = 1e-2  # of gemma2, gemma3 and gpt2: llama.cpp reads gelu from a table of 16-bit floats
SKIPPED = {"llama_dynamic"}
DIFFERENT = {"mistral_window": "differs: window ignored", "phi3_window": "differs: window ignored"}


def largest_difference(path, sequence, every):
    expected = numpy.frombuffer(bytes.fromhex(sequence["logits"]), dtype="<f4").reshape(-1, 64)
    model = llama_cpp.Llama(str(path), n_ctx=64, logits_all=True, verbose=False, n_threads=1, type_k=0, type_v=0)
    model.eval(sequence["tokens"])
    logits = numpy.array(model.scores[:len(sequence["tokens"])])[::every]
    return float(numpy.abs(logits - expected).max())


def main():
    folder = pathlib.Path(__file__).parent
    description = json.loads((folder / "architectures.json").read_text())
    failed = False
    for name, model in description["models"].items():
        if name in SKIPPED:
            continue
        difference = largest_difference(folder / f"{name}.gguf", model["sequences"][0], description["every"])
        good = difference < (GELU_TOLERANCE if name.startswith(("gemma", "gpt2")) else TOLERANCE)
        failed |= not good and name not in DIFFERENT
        print(f"{name:16} {difference:.6f} {'agrees' if good else DIFFERENT.get(name, 'DIFFERS')}")
    raise SystemExit(failed)


if __name__ == "__main__":
    main()
