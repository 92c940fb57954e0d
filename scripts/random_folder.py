#!/usr/bin/env python3
"""Makes a Hugging Face folder of a random Qwen3 with transformers: config.json, safetensors, a tokenizer trained on data/*.txt.

    pip install torch transformers tokenizers
    python scripts/random_folder.py FOLDER [--shards 2]
    patchbay run configs/quickstart.yaml model=FOLDER

Its words mean nothing, but it takes the same way through every part as a trained model of its size (14 million weights in bf16).
"""
import argparse
import pathlib

import tokenizers
import torch
import transformers

ROOT = pathlib.Path(__file__).resolve().parent.parent
PATTERN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")  # Qwen's own


def train_tokenizer(vocabulary):
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    pre = tokenizers.pre_tokenizers
    tokenizer.normalizer = tokenizers.normalizers.NFC()
    tokenizer.pre_tokenizer = pre.Sequence([pre.Split(tokenizers.Regex(PATTERN), "isolated"), pre.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=vocabulary, initial_alphabet=pre.ByteLevel.alphabet(), show_progress=False,
                                             special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    tokenizer.train([str(path) for path in sorted((ROOT / "data").glob("*.txt"))], trainer)
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|endoftext|>")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--shards", type=int, default=1)
    options = parser.parse_args()
    torch.manual_seed(0)
    tokenizer = train_tokenizer(2048)
    config = transformers.Qwen3Config(vocab_size=len(tokenizer), hidden_size=512, intermediate_size=1536, num_hidden_layers=4, num_attention_heads=8,
                                      num_key_value_heads=4, head_dim=64, max_position_embeddings=4096, bos_token_id=None,
                                      eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id, tie_word_embeddings=True)
    model = transformers.Qwen3ForCausalLM(config).to(torch.bfloat16)
    bytes_in_all = sum(weight.numel() * weight.element_size() for weight in model.parameters())
    model.save_pretrained(options.folder, max_shard_size=bytes_in_all if options.shards == 1 else bytes_in_all // options.shards + 1)
    tokenizer.save_pretrained(options.folder)


if __name__ == "__main__":
    main()
