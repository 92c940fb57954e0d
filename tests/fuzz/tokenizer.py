#!/usr/bin/env python3
"""Differential fuzzing of the tokenizers against the PyPI packages `tokenizers` and `sentencepiece`: random texts through trained models and
through random pipelines around them. The first difference ends it with status 1 and says how to repeat it.

    pip install tokenizers sentencepiece gguf
    cmake --build build/release --target tokenizer_lines
    python tests/fuzz/tokenizer.py --minutes 10
"""
import argparse
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("RUST_BACKTRACE", "0")
import sentencepiece  # noqa: E402
from tokenizers import Tokenizer  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "golden" / "tokenizers"))
import generate  # noqa: E402  (the models, the corpus and the texts)


class Ours:
    """The program under test, one process per tokenizer."""

    def __init__(self, tool, path):
        self.process = subprocess.Popen([tool, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.ready = json.loads(self.process.stdout.readline())

    def ask(self, text, parse_special, add_special):
        self.process.stdin.write(f"{int(parse_special)} {int(add_special)} {text.encode().hex()}\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


def unless_panic(call):
    """None where `tokenizers` itself panics, which random pipelines bring about."""
    try:
        return call()
    except BaseException as error:  # PanicException is no Exception
        if type(error).__name__ != "PanicException":
            raise
        return None


def choice_of_pattern(rng):
    return rng.choice([r"\s+", r"\d{1,3}", r"[A-Z][a-z]*", r"\p{L}+", r"[^\s\p{L}\p{N}]+", r"(?i:the|and)", r" ?\w+", r"\p{Han}+", r"[^\r\n]+", r"$",
                       r"^\s*", r"x*", r"\p{N}{1,2}+", r"[\h_]+", r"(?m:.{3})", r".", r"\W", r"(?<=a)b|(?!c)\p{Ll}", r"[[:punct:]]"])


def random_split(rng):
    pattern = {"Regex": choice_of_pattern(rng)} if rng.random() < 0.7 else {"String": rng.choice([" ", "e", "▁", "\n", ".", "th", "界", "\u0301"])}
    return {"type": "Split", "pattern": pattern, "invert": rng.random() < 0.3,
            "behavior": rng.choice(["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"])}


def random_pre_tokenizer(rng):
    kind = rng.randrange(12)
    if kind < 3:
        return random_split(rng)
    if kind == 3:
        return {"type": "Punctuation", "behavior": rng.choice(["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"])}
    if kind == 4:
        return {"type": "Digits", "individual_digits": rng.random() < 0.5}
    if kind == 5:
        return {"type": "Metaspace", "replacement": "▁", "prepend_scheme": rng.choice(["always", "first", "never"]), "split": rng.random() < 0.7}
    if kind == 6:
        return {"type": "CharDelimiterSplit", "delimiter": rng.choice(" -e")}
    if kind == 7:
        return {"type": "FixedLength", "length": rng.randint(1, 9)}
    return {"type": ["Whitespace", "WhitespaceSplit", "BertPreTokenizer", "UnicodeScripts"][kind - 8]}


def random_normalizer(rng, charsmap):
    kind = rng.randrange(10)
    if kind < 3:
        return {"type": rng.choice(["NFC", "NFD", "NFKC", "NFKD"])}
    if kind == 3:
        return {"type": rng.choice(["StripAccents", "Lowercase", "Nmt"])}
    if kind == 4:
        return {"type": "Strip", "strip_left": rng.random() < 0.5, "strip_right": rng.random() < 0.5}
    if kind == 5:
        return {"type": "Prepend", "prepend": rng.choice(["▁", " ", "ab"])}
    if kind == 6:
        return {"type": "Precompiled", "precompiled_charsmap": charsmap}
    if kind == 7:
        return {"type": "BertNormalizer", "clean_text": rng.random() < 0.5, "handle_chinese_chars": rng.random() < 0.5,
                "strip_accents": rng.choice([True, False, None]), "lowercase": rng.random() < 0.5}
    pattern = {"String": rng.choice([" ", "e", "▁"])} if kind == 8 else {"Regex": choice_of_pattern(rng)}
    return {"type": "Replace", "pattern": pattern, "content": rng.choice(["", " ", "▁", "é"])}


def random_added(rng, content, number, special):
    return {"id": number, "content": content, "special": special, "single_word": rng.random() < 0.3, "lstrip": rng.random() < 0.3,
            "rstrip": rng.random() < 0.3, "normalized": rng.random() < 0.5}


def random_decoder(rng):
    steps = [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
             {"type": "Strip", "content": " ", "start": rng.randint(0, 2), "stop": rng.randint(0, 1)},
             {"type": "Metaspace", "replacement": "▁", "prepend_scheme": rng.choice(["always", "first", "never"]), "split": True},
             {"type": "BPEDecoder", "suffix": "</w>"}]
    return {"type": "Sequence", "decoders": [step for step in steps if rng.random() < 0.6]} if rng.random() < 0.9 else None


def random_pipeline(rng, models):
    """A trained model with steps around it that were not made for it."""
    data = json.loads(models[rng.choice(["llama2", "mistral", "gemma", "t5", "unigram_bytes", "bert_bpe"])])
    charsmap = json.loads(models["t5"])["normalizer"]["normalizers"][0]["precompiled_charsmap"]
    data["normalizer"] = {"type": "Sequence", "normalizers": [random_normalizer(rng, charsmap) for _ in range(rng.randint(0, 3))]}
    steps = [random_pre_tokenizer(rng) for _ in range(rng.randint(0, 3))]
    for index, step in enumerate(steps):
        if step.get("prepend_scheme") == "first" and (index > 0 or data["normalizer"]["normalizers"]):
            step["prepend_scheme"] = "never"  # see docs/tokenizers.md; the trained models have such steps in their usual places
    data["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": steps}
    data["decoder"] = random_decoder(rng)
    number = 1 + max([added["id"] for added in data["added_tokens"]] + [len(data["model"]["vocab"]) - 1])
    contents = rng.sample(["<a>", "<|b|>", "and", "é", "E\u0301", "  ", "界面", "\n\n", "1", "<a><a>", "ing"], rng.randint(0, 5))
    for content in contents:
        in_vocab = content in data["model"]["vocab"] or any(content == entry[0] for entry in data["model"]["vocab"] if isinstance(entry, list))
        if in_vocab:
            continue  # its number is the vocabulary's
        if Tokenizer.from_str(json.dumps({**data, "added_tokens": []})).normalizer.normalize_str(content) == "":
            continue  # `tokenizers` then matches the empty text, everywhere
        data["added_tokens"].append(random_added(rng, content, number, content.startswith("<")))
        number += 1
    return json.dumps(data)


def check_tokenizers(rng, tool, folder, name, text_of_model, texts):
    theirs = Tokenizer.from_str(text_of_model)
    theirs.no_truncation()
    path = folder / f"{name}.json"
    path.write_text(text_of_model, encoding="utf-8")
    ours = Ours(tool, path)
    if "error" in ours.ready:
        raise SystemExit(f"{name}: refused: {ours.ready['error']}\n{path}")
    normalized = {number for number, added in theirs.get_added_tokens_decoder().items() if added.normalized}
    contents = [added.content for added in theirs.get_added_tokens_decoder().values()]
    for _ in range(texts):
        text = generate.random_text(rng, contents)
        parse, add = rng.random() < 0.7 or generate.spells_special(theirs, text), rng.random() < 0.3
        theirs.encode_special_tokens = not parse
        encoded = unless_panic(lambda: theirs.encode(text, add_special_tokens=add))
        answer = ours.ask(text, parse, add)
        if encoded is None:
            continue
        wanted = encoded.ids
        if answer.get("ids") != wanted:
            report(name, text, parse, wanted, answer, theirs)
        if any(number in normalized for number in wanted):
            continue  # `tokenizers` decodes such a token to its normalised text, we to its own
        decoded = unless_panic(lambda: theirs.decode(wanted, skip_special_tokens=False))
        if decoded is None:
            continue
        ours_decoded = bytes.fromhex(answer["text"]).decode(errors="replace")
        if "\ufffd" not in decoded + ours_decoded and decoded != ours_decoded:
            report(name, text, parse, decoded, ours_decoded, theirs)
    ours.close()


def report(name, text, parse, wanted, answer, theirs=None):
    print(f"DIFFERENCE in {name}, special tokens {'parsed' if parse else 'not parsed'}\ntext   {text!r}\nwanted {wanted}\nours   {answer}")
    if theirs is not None:
        data = json.loads(theirs.to_str())
        print(json.dumps({key: data[key] for key in ("normalizer", "pre_tokenizer", "decoder", "added_tokens")}, ensure_ascii=False)[-3000:])
    raise SystemExit(1)


def check_sentencepiece(rng, tool, folder, name, kind, blob, texts):
    path = folder / f"{name}.gguf"
    generate.write_sentencepiece_gguf(path, blob, kind)
    theirs = sentencepiece.SentencePieceProcessor(model_proto=blob)
    ours = Ours(tool, path)
    for _ in range(texts):
        text = generate.random_text(rng).replace("\x00", "")  # SentencePiece's Python side ends a text there
        wanted = theirs.encode(text)
        answer = ours.ask(text, False, False)
        if answer.get("ids") != wanted:
            report(name, text, False, wanted, answer)
    ours.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tool", default=ROOT / "build" / "release" / "bin" / "tokenizer_lines")
    options = parser.parse_args()
    if not pathlib.Path(options.tool).exists():
        raise SystemExit(f"{options.tool} is not there; build it: cmake --build build/release --target tokenizer_lines")
    lines = generate.corpus(random.Random(generate.SEED))
    models = {name: tokenizer.to_str() for name, tokenizer in generate.tokenizers_models(lines).items()}
    pieces = generate.sentencepiece_models(lines)
    end, rounds, count = time.time() + 60 * options.minutes, 0, 0
    with tempfile.TemporaryDirectory() as name_of_folder:
        folder = pathlib.Path(name_of_folder)
        while time.time() < end:
            rng = random.Random(f"{options.seed} {rounds}")
            print(f"\rseed {options.seed}, round {rounds}, {count} texts", end="", flush=True)
            name = rng.choice(list(models))
            check_tokenizers(rng, options.tool, folder, name, models[name], 60)
            check_tokenizers(rng, options.tool, folder, "pipeline", random_pipeline(rng, models), 60)
            name = rng.choice(list(pieces))
            check_sentencepiece(rng, options.tool, folder, name, *pieces[name], 60)
            rounds, count = rounds + 1, count + 180
    print(f"\rseed {options.seed}: {rounds} rounds, {count} texts, no difference")


if __name__ == "__main__":
    main()
