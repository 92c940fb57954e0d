#!/usr/bin/env python3
"""Writes names.json: what llama.cpp makes of texts with a small vocabulary under each name of `tokenizer.ggml.pre` that is known here, but for two:
deepseek-llm and falcon, whose digits it leaves together (those models' own vocabularies show no difference). Here they are cut as in the models' own
tokenizer.json: ../tokenizers.

    pip install llama-cpp-python gguf && python names.py names.json

The vocabulary, as tests/core/tokenizer_test.cpp builds it too: the 256 bytes, then all pairs of ALPHABET, first by first, then "abc" and "012", which no
merges make, then <s>. The merges are the pairs in the order of their tokens: two neighbours that stand in one piece are seldom left apart.
"""
import contextlib
import importlib.metadata
import json
import os
import random
import sys
import tempfile

import gguf
import llama_cpp

SEED = 20261130
ALPHABET = "abcSsT019 \n\t'.!-"
NAMES = """gpt-2 phi-2 mpt olmo jais trillion exaone4 gigachat mellum a.x-4.0 jina-es jina-de jina-v2-es jina-v2-de
llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 smaug-bpe dbrx glm4 chatglm-bpe
smollm starcoder refact command-r codeshell exaone minerva-7b qwen2 deepseek-r1-qwen stablelm2 megrez hunyuan
deepseek-coder deepseek-v3 hunyuan-dense""".split()
TEXTS = ["abc012", "I'sS 'T's", "a  b\n\n c \t ", "1901 0.19", "ab-c!!\n\n'", " 012abc  abc", "S.T-'s\r\n0", "\u00e9a\u754c\u754c1\u0301b", "\u3042a\u30a2 \u03b1\u0431"]


def byte_alphabet():
    """GPT-2's names of the bytes."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in plain]
    return [chr(byte if byte in plain else 256 + others.index(byte)) for byte in range(256)]


def write_vocabulary(path, name):
    letters = [byte_alphabet()[ord(letter)] for letter in ALPHABET]
    pairs = [(a, b) for a in letters for b in letters]
    tokens = byte_alphabet() + [a + b for a, b in pairs] + ["abc", "012", "<s>"]
    writer = gguf.GGUFWriter(path, "llama")
    for add in (writer.add_context_length, writer.add_embedding_length, writer.add_feed_forward_length, writer.add_head_count):
        add(64)
    writer.add_block_count(1)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(name)
    writer.add_token_list([token.encode() for token in tokens])
    writer.add_token_types([gguf.TokenType.NORMAL] * (len(tokens) - 1) + [gguf.TokenType.CONTROL])
    writer.add_token_merges([f"{a} {b}" for a, b in pairs])
    writer.add_bos_token_id(len(tokens) - 1)
    writer.add_eos_token_id(len(tokens) - 1)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()


def main(path):
    rng = random.Random(SEED)
    texts = TEXTS + ["".join(rng.choice(ALPHABET) for _ in range(rng.randint(4, 20))) for _ in range(20)]
    groups = []
    with tempfile.TemporaryDirectory() as folder:
        for name in NAMES:
            file = os.path.join(folder, "vocabulary.gguf")
            write_vocabulary(file, name)
            with open(os.devnull, "w", encoding="ascii") as silence, contextlib.redirect_stderr(silence):
                model = llama_cpp.Llama(file, vocab_only=True, verbose=False)
            tokens = [model.tokenize(text.encode(), add_bos=False, special=False) for text in texts]
            group = {"names": [], "begins": model.tokenize(b"a", add_bos=True, special=False), "tokens": tokens}
            same = next((other for other in groups if {**other, "names": []} == group), None)
            if same is None:
                groups.append(group)
            (same or group)["names"].append(name)
    versions = {name: importlib.metadata.version(name) for name in ("llama-cpp-python", "gguf")}
    with open(path, "w", encoding="ascii") as out:
        json.dump({"seed": SEED, "versions": versions, "alphabet": ALPHABET, "texts": texts, "groups": groups}, out)
        out.write("\n")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "names.json")
