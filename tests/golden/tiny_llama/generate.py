#!/usr/bin/env python3
"""Writes the tiny random Llamas of this folder and the logits that Hugging Face's transformers computes for them.

    pip install torch transformers gguf && python generate.py

Per model NAME: NAME.gguf (F32, a whole model with a tokenizer of single bytes), NAME.json (token sequences, versions) and
NAME.logits.bin: little-endian fp32, one row of V logits per token, sequence after sequence.
"""
import importlib.metadata
import json
import pathlib
import sys

import gguf
import numpy
import torch
from transformers import LlamaConfig, LlamaForCausalLM

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "scripts"))
from llama_gguf import write_llama

SEED = 20250117
SEQUENCE_LENGTHS = (24, 17)
MERGES = ["t h", "th e", "Ġ the"]  # of the tokenizer; each makes one more token
END = "<|end|>"
VOCABULARY = 256 + len(MERGES) + 1

COMMON = dict(vocab_size=VOCABULARY, hidden_size=32, intermediate_size=48, num_attention_heads=4, max_position_embeddings=128,
              attention_bias=False, mlp_bias=False, bos_token_id=None, eos_token_id=VOCABULARY - 1)
MODELS = {
    # two query heads share one of keys and values; the head is the embedding
    "gqa_tied": dict(num_hidden_layers=3, num_key_value_heads=2, tie_word_embeddings=True, rms_norm_eps=1e-5,
                     rope_parameters=dict(rope_type="default", rope_theta=10000.0)),
    # one head of keys and values; head size 16 where hidden / heads is 8; own head; Llama 3's RoPE with divisors
    "mqa_wide_heads": dict(num_hidden_layers=2, num_key_value_heads=1, head_dim=16, tie_word_embeddings=False, rms_norm_eps=1e-6,
                           rope_parameters=dict(rope_type="llama3", rope_theta=500.0, factor=4.0, low_freq_factor=1.0,
                                                high_freq_factor=4.0, original_max_position_embeddings=32)),
}


def random_model(settings):
    """Weights large enough that attention is far from uniform and every layer matters."""
    model = LlamaForCausalLM(LlamaConfig(**COMMON, **settings)).eval()
    generator = torch.Generator().manual_seed(SEED)
    for name, weight in model.named_parameters():
        noise = torch.randn(weight.shape, generator=generator)
        if weight.dim() == 1:
            weight.data = 1.0 + 0.2 * noise  # norms
        else:
            weight.data = noise * (0.3 if "embed" in name else 1.5 / weight.shape[1] ** 0.5)
    return model


def byte_characters():
    """The printable character that byte-level BPE writes for each byte: itself where printable, else 256 and up."""
    printable = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = iter(range(0x100, 0x200))
    return [chr(byte) if byte in printable else chr(next(others)) for byte in range(256)]


def add_tokenizer(writer):
    tokens = byte_characters() + [merge.replace(" ", "") for merge in MERGES] + [END]
    assert len(tokens) == VOCABULARY
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types([gguf.TokenType.NORMAL] * (VOCABULARY - 1) + [gguf.TokenType.CONTROL])
    writer.add_token_merges(MERGES)
    writer.add_eos_token_id(VOCABULARY - 1)
    writer.add_add_bos_token(False)


def main():
    folder = pathlib.Path(__file__).parent
    versions = {package: importlib.metadata.version(package) for package in ("torch", "transformers", "gguf", "numpy")}
    rng = numpy.random.default_rng(SEED)
    for name, settings in MODELS.items():
        model = random_model(settings)
        write_llama(folder / f"{name}.gguf", model, f"patchbay tiny_llama {name}", numpy.float32, add_tokenizer)
        sequences = [rng.integers(0, VOCABULARY, length).tolist() for length in SEQUENCE_LENGTHS]
        with torch.no_grad():
            logits = [model(torch.tensor([sequence])).logits[0].numpy() for sequence in sequences]
        numpy.concatenate(logits).astype("<f4").tofile(folder / f"{name}.logits.bin")
        description = {"seed": SEED, "versions": versions, "vocabulary": VOCABULARY, "sequences": sequences}
        (folder / f"{name}.json").write_text(json.dumps(description) + "\n")


if __name__ == "__main__":
    main()
