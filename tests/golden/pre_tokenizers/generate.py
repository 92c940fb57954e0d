#!/usr/bin/env python3
"""Writes pieces.json: how the PyPI package `tokenizers` (another regex engine, Oniguruma) cuts texts for each kind of
pre-tokeniser, set up as the models' own tokenizer.json have it.

    pip install tokenizers && python generate.py pieces.json
"""
import importlib.metadata
import json
import random
import sys

from tokenizers import Regex
from tokenizers.pre_tokenizers import ByteLevel, Digits, Sequence, Split

SEED = 20250101
CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
TAIL = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"


def split(pattern):
    return Split(Regex(pattern), behavior="isolated")


KINDS = {
    "gpt-2": ByteLevel(add_prefix_space=False, use_regex=True),
    "smollm": Sequence([Digits(individual_digits=True), ByteLevel(add_prefix_space=False, use_regex=True)]),
    "starcoder": Sequence([Digits(individual_digits=True), ByteLevel(add_prefix_space=False, use_regex=True)]),
    "llama-bpe": split(CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|" + TAIL),
    "smaug-bpe": split(CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|" + TAIL),  # SmolLM3's: Llama 3's pattern without ignore_merges
    "qwen2": split(CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|" + TAIL),
}
PARTS = list("abcXYZ 012 \n\r\t'.,!?-_") + [
    "'s", "'LL", "'Re", "  ", "\u00a0", "\u3000", "\u2028", "\u0085", "\u200b", "\u180e", "\u00e9", "e\u0301", "\u754c", "\u00bd", "\u00b2",
    "\u2167", "\u0663", "\U0001f600", "\u200d", "\u00df", "\u017f", "\u0627", "\x00", "\x0b"]
TEXTS = ["Hello, world!", "I'm sure they'll say it's 1234567 o'clock", "  x\n\n  y  ", "tabs\t\tand 3.14e-10\r\n", "caf\u00e9 na\u00efve",
         "\u4f60\u597d\uff0c\u4e16\u754c\uff01", "a  1", "foo    bar", "if (x == 0) {\n\t\treturn;\n\t}\n", "'S 'sS"]


def main(path):
    random.seed(SEED)
    texts = TEXTS + ["".join(random.choice(PARTS) for _ in range(random.randint(1, 24))) for _ in range(120)]
    pieces = {name: [[text[begin:end] for _, (begin, end) in kind.pre_tokenize_str(text)] for text in texts]
              for name, kind in KINDS.items()}
    for cut in pieces.values():
        assert ["".join(parts) for parts in cut] == texts
    versions = {"tokenizers": importlib.metadata.version("tokenizers")}
    with open(path, "w", encoding="ascii") as out:
        json.dump({"seed": SEED, "versions": versions, "texts": texts, "pieces": pieces}, out)
        out.write("\n")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "pieces.json")
