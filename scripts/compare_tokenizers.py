#!/usr/bin/env python3
"""Speed of encoding beside the PyPI packages `tokenizers` (one thread) and llama_cpp, taking turns. Prints a Markdown table.

    cmake --build build/release --target tokenizer_lines
    pip install tokenizers sentencepiece gguf        # in a virtual environment; llama-cpp-python for GGUF files
    python scripts/compare_tokenizers.py TEXT FILE...       # FILE: a tokenizer.json or a GGUF file
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"
ROOT = pathlib.Path(__file__).resolve().parents[1]


def timed(call):
    start = time.perf_counter()
    result = call()
    return time.perf_counter() - start, result


def theirs(path, text):
    """(name of the peer, seconds to load, a function that encodes)."""
    if path.suffix == ".json":
        from tokenizers import Tokenizer
        load_s, tokenizer = timed(lambda: Tokenizer.from_file(str(path)))
        tokenizer.encode_special_tokens = True
        return "tokenizers", load_s, lambda: len(tokenizer.encode(text, add_special_tokens=False).ids)
    import llama_cpp
    load_s, model = timed(lambda: llama_cpp.Llama(str(path), vocab_only=True, verbose=False))
    return "llama.cpp", load_s, lambda: len(model.tokenize(text.encode(), add_bos=False, special=False))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("text", type=pathlib.Path)
    parser.add_argument("files", type=pathlib.Path, nargs="+")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tool", default=ROOT / "build" / "release" / "bin" / "tokenizer_lines")
    options = parser.parse_args()
    if not pathlib.Path(options.tool).exists():
        raise SystemExit(f"{options.tool} is not there; build it: cmake --build build/release --target tokenizer_lines")
    text = options.text.read_text(encoding="utf-8")
    print("| tokenizer | tokens | patchbay | peer | ratio | load: patchbay | peer |\n| --- | --- | --- | --- | --- | --- | --- |")
    for path in options.files:
        name, load_s, encode = theirs(path, text)
        ours_s, theirs_s = [], []
        for _ in range(options.rounds):
            ours = json.loads(subprocess.run([options.tool, path, options.text, "2"], capture_output=True, check=True).stdout)
            ours_s.append(min(ours["encode_s"]))
            seconds, count = min(timed(encode) for _ in range(2))
            theirs_s.append(seconds)
        megabytes = ours["bytes"] / 1e6
        speed, peer = megabytes / statistics.median(ours_s), megabytes / statistics.median(theirs_s)
        same = "" if count == ours["tokens"] else f" (peer: {count:,})"
        print(f"| {path.name} | {ours['tokens']:,}{same} | {speed:.1f} MB/s | {name} {peer:.1f} MB/s | {speed / peer:.2f} | {ours['load_s']:.3f} s | {load_s:.3f} s |")


if __name__ == "__main__":
    main()
