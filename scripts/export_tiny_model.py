#!/usr/bin/env python3
"""Writes what data/tiny-shakespeare holds from the folder that train_tiny_model.py left.

    training/bin/python scripts/export_tiny_model.py tiny_hf data/tiny-shakespeare

tiny-shakespeare-f16.gguf: the model (matrices F16, norms F32); evaluation.txt: the beginning of the text that was held out;
calibration.txt: the beginning of what it was trained on; training.json: how it was trained. (README.md and prompts.jsonl there are written by hand.)
"""
import argparse
import json
import pathlib
import shutil

import gguf
import numpy
from transformers import LlamaForCausalLM

from llama_gguf import write_llama

EVALUATION_BYTES, CALIBRATION_BYTES = 30_000, 165_000  # at most


def tokenizer_writer(path, model):
    """Byte-level BPE with GPT-2's pre-tokeniser, from the file of Hugging Face's tokenizers."""
    description = json.loads(path.read_text(encoding="utf-8"))
    vocabulary = description["model"]["vocab"]
    special = {token["content"] for token in description["added_tokens"]}
    tokens = sorted(vocabulary, key=vocabulary.get)
    assert [vocabulary[token] for token in tokens] == list(range(model.config.vocab_size))

    def add(writer):
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre("gpt-2")
        writer.add_token_list(tokens)
        writer.add_token_types([gguf.TokenType.CONTROL if token in special else gguf.TokenType.NORMAL for token in tokens])
        writer.add_token_merges([" ".join(pair) for pair in description["model"]["merges"]])
        writer.add_bos_token_id(model.config.bos_token_id)
        writer.add_eos_token_id(model.config.eos_token_id)
        writer.add_add_bos_token(True)
    return add


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path, help="what train_tiny_model.py wrote")
    parser.add_argument("out", type=pathlib.Path, help="folder for the files")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)

    model = LlamaForCausalLM.from_pretrained(arguments.model)
    write_llama(arguments.out / "tiny-shakespeare-f16.gguf", model, "tiny-shakespeare", numpy.float16,
                tokenizer_writer(arguments.model / "tokenizer.json", model))
    for part, name, size in (("validation", "evaluation", EVALUATION_BYTES), ("train", "calibration", CALIBRATION_BYTES)):
        text = (arguments.model / f"{part}.txt").read_bytes()
        (arguments.out / f"{name}.txt").write_bytes(text[:text.rindex(b"\n\n", 0, size) + 1])  # whole speeches
    shutil.copy(arguments.model / "training.json", arguments.out)


if __name__ == "__main__":
    main()
