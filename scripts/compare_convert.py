#!/usr/bin/env python3
"""Folders, and what `patchbay convert` makes of them, against the programs that others wrote.

    pip install torch transformers tokenizers gguf safetensors llama-cpp-python
    python scripts/compare_convert.py [--patchbay build/release/bin/patchbay] [NAME ...]

For each random model of tests/golden/architectures/generate.py, saved by save_pretrained: logits read straight from the folder against transformers'; the
folder as GGUF loaded by llama.cpp, its logits and tokens; that GGUF as a folder again, loaded by transformers: every tensor byte for byte, tokens.
Then the round trip of bf16 and f16 weights, and GGUF files of other programs (data/tiny-shakespeare, and any given with --gguf) as folders.
"""
import argparse
import importlib.util
import json
import pathlib
import subprocess
import tempfile

import gguf
import llama_cpp
import numpy
import tokenizers
import torch
import transformers

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDER_TOLERANCE, LLAMA_TOLERANCE = 1e-4, 5e-5
# llama.cpp reads gelu from a table of 16-bit floats, ignores the windows of Mistral and Phi-3, and has no dynamic NTK.
LLAMA_GELU_TOLERANCE, LLAMA_IGNORES_WINDOW, LLAMA_LACKS = 1e-2, {"mistral_window", "phi3_window"}, {"llama_dynamic"}
UNREAD = {"gemma3": {"query_pre_attn_scalar": 32}, "qwen2moe": {"norm_topk_prob": True}, "qwen3moe": {"norm_topk_prob": False}}
TEXTS = ["ABBA", "3.14:AB", "!\"#$%", "HELLO,WORLD:42", "<|end|>A<|end|>", "A<B>[C]"]  # the golden models know no space
REFERENCE = ["activations=fp32", "attention=naive", "kv_store.format=fp32"]


def generator():
    spec = importlib.util.spec_from_file_location("generate", ROOT / "tests/golden/architectures/generate.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Program:
    def __init__(self, path):
        self.path = path

    def json(self, *arguments):
        done = subprocess.run([self.path, *map(str, arguments), "--json"], capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"patchbay {' '.join(map(str, arguments))}: {done.stderr}")
        return json.loads(done.stdout)

    def last_logits(self, model, tokens):
        top = self.json("logits", "--model", model, "--tokens", ",".join(map(str, tokens)), "--top", 1 << 30, *REFERENCE)["top"]
        logits = numpy.zeros(len(top), numpy.float32)
        for entry in top:
            logits[entry["id"]] = entry["logit"]
        return logits

    def tokens(self, model, text):
        return self.json("tokenize", "--model", model, "--parse-special", text)["tokens"]


def save_tokenizer(folder, vocabulary):
    """The tokens of the golden GGUF files, as tokenizer.json."""
    texts = [chr(ord("!") + i) for i in range(vocabulary - 2)] + ["AB"]
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE({text: i for i, text in enumerate(texts)}, [("A", "B")]))
    pre = tokenizers.pre_tokenizers
    tokenizer.pre_tokenizer = pre.Sequence([pre.Digits(individual_digits=True), pre.ByteLevel(add_prefix_space=False)])
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|end|>"])
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|end|>").save_pretrained(folder)


def llama_logits(path, tokens):
    model = llama_cpp.Llama(str(path), n_ctx=64, logits_all=True, verbose=False, n_threads=1, type_k=0, type_v=0)
    model.eval(tokens)
    return numpy.array(model.scores[len(tokens) - 1])


def llama_tokens(path, text):
    model = llama_cpp.Llama(str(path), vocab_only=True, verbose=False)
    return model.tokenize(text.encode(), add_bos=False, special=True)


def tensors_of(path):
    return {tensor.name: (tensor.tensor_type, tensor.data.tobytes()) for tensor in gguf.GGUFReader(path).tensors}


def same_state(first, second, tolerance=0.0):
    """Names of tensors that differ in a byte, or, of Gemma's norms, by more than GGUF's 1 + w rounds away."""
    a, b = first.state_dict(), second.state_dict()
    if a.keys() != b.keys():
        return sorted(a.keys() ^ b.keys())
    return [name for name in a if not torch.equal(a[name], b[name]) and
            not ("norm" in name and float((a[name].double() - b[name].double()).abs().max()) <= tolerance)]


class Report:
    failed = False

    def line(self, name, what, good, figure=""):
        Report.failed |= not good
        print(f"{name:18} {what:44} {'ok' if good else 'DIFFERS'} {figure}", flush=True)


def check_model(name, generate, program, report, folder):
    arch, config_name, settings = generate.MODELS[name]
    model = generate.random_model(config_name, settings)
    model.save_pretrained(folder / "a")
    save_tokenizer(folder / "a", generate.VOCABULARY)
    sequence = json.loads((ROOT / "tests/golden/architectures/architectures.json").read_text())["models"][name]["sequences"][0]["tokens"]
    expected = generate.logits_of(model, sequence)[-1]
    difference = float(numpy.abs(program.last_logits(folder / "a", sequence) - expected).max())
    report.line(name, "folder: logits of transformers", difference < FOLDER_TOLERANCE, f"{difference:.1e}")

    program.json("convert", folder / "a", folder / "a.gguf")
    if name not in LLAMA_LACKS:
        difference = float(numpy.abs(llama_logits(folder / "a.gguf", sequence) - expected).max())
        tolerance = LLAMA_GELU_TOLERANCE if name.startswith(("gemma", "gpt2")) else LLAMA_TOLERANCE
        report.line(name, "GGUF: logits of llama.cpp", difference < tolerance or name in LLAMA_IGNORES_WINDOW, f"{difference:.1e}")
        report.line(name, "GGUF: tokens of llama.cpp", all(llama_tokens(folder / "a.gguf", text) == program.tokens(folder / "a", text) for text in TEXTS))
    golden, ours = tensors_of(ROOT / f"tests/golden/architectures/{name}.gguf"), tensors_of(folder / "a.gguf")
    golden.pop("rope_freqs.weight", None)  # divisors of fp32 angles: transformers' own round elsewhere, the logits above agree
    report.line(name, "GGUF: bytes of the golden file's tensors", all(ours.get(key) == value for key, value in golden.items()))

    program.json("convert", folder / "a.gguf", folder / "b")
    loaded = transformers.AutoModelForCausalLM.from_pretrained(folder / "b", attn_implementation="eager")
    different = same_state(model, loaded, 2.0 ** -23 if arch.startswith("gemma") else 0.0)
    report.line(name, "folder again: tensors in transformers", not different, ", ".join(different[:3]))
    difference = float(numpy.abs(generate.logits_of(loaded.eval().float(), sequence)[-1] - expected).max())
    report.line(name, "folder again: logits of transformers", difference < FOLDER_TOLERANCE, f"{difference:.1e}")
    check_tokens(name, folder / "a", folder / "b", program, report)
    program.json("convert", folder / "b", folder / "b.gguf")
    report.line(name, "GGUF again: the same tensors", arch.startswith("gemma") or tensors_of(folder / "a.gguf") == tensors_of(folder / "b.gguf"))


def check_unread(name, settings, generate, program, report, folder):
    """What a GGUF file says and llama.cpp does not read: `convert` notes it, patchbay agrees with transformers, llama.cpp does not."""
    _, config_name, usual = generate.MODELS[name]
    model = generate.random_model(config_name, {**usual, **settings})
    model.save_pretrained(folder / "a")
    save_tokenizer(folder / "a", generate.VOCABULARY)
    notes = program.json("convert", folder / "a", folder / "a.gguf")["notes"]
    sequence = [(7 * i + 3) % generate.VOCABULARY for i in range(31)]
    expected = generate.logits_of(model, sequence)[-1]
    ours, theirs = (float(numpy.abs(logits - expected).max()) for logits in (program.last_logits(folder / "a.gguf", sequence), llama_logits(folder / "a.gguf", sequence)))
    setting = ", ".join(f"{key} {value}" for key, value in settings.items())
    report.line(name, f"GGUF, {setting}", ours < FOLDER_TOLERANCE and any("does not read" in note for note in notes), f"{ours:.1e}; llama.cpp {theirs:.1e}")


def check_tokens(name, first, second, program, report):
    """Of the same texts: transformers over both folders, patchbay over both."""
    theirs = [transformers.AutoTokenizer.from_pretrained(folder) for folder in (first, second)]
    ids = [[[tokenizer.encode(text, add_special_tokens=False) for text in TEXTS] for tokenizer in theirs],
           [[program.tokens(folder, text) for text in TEXTS] for folder in (first, second)]]
    report.line(name, "tokens of both folders", ids[0][0] == ids[0][1] == ids[1][0] == ids[1][1])


def check_narrow(generate, program, report, folder, kind, dtype):
    """Weights of 16 bits come back byte for byte; all of Gemma's norms do, too."""
    for name in ("qwen3", "gemma3", "mixtral"):
        arch, config_name, settings = generate.MODELS[name]
        model = generate.random_model(config_name, settings).to(dtype)
        here = folder / f"{name}-{kind}"
        model.save_pretrained(here / "a")
        save_tokenizer(here / "a", generate.VOCABULARY)
        program.json("convert", here / "a", here / "a.gguf")
        program.json("convert", here / "a.gguf", here / "b")
        loaded = transformers.AutoModelForCausalLM.from_pretrained(here / "b", dtype="auto")
        different = same_state(model, loaded)
        report.line(name, f"{kind}: folder, GGUF, folder", not different and loaded.dtype == dtype, ", ".join(different[:3]))
        llama_logits(here / "a.gguf", [1, 2, 3])


def check_gguf(path, program, report, folder):
    """A GGUF file of another program as a folder: its logits in transformers, its tokens."""
    program.json("convert", path, folder / "c", "--type", "f32")
    tokens = program.tokens(path, "To be, or not to be: 1,024 naïve questions\n")
    expected = program.last_logits(path, tokens)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder / "c", attn_implementation="eager").eval()
    with torch.no_grad():
        logits = model(torch.tensor([tokens])).logits[0, -1].numpy()
    difference = float(numpy.abs(logits[:len(expected)] - expected).max())
    report.line(path.name[:18], "as a folder: logits of transformers", difference < 1e-3, f"{difference:.1e}")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder / "c")
    corpus = (ROOT / "data/evaluation.txt").read_text()[:20000]
    (folder / "text").write_text(corpus)
    ours = program.json("tokenize", "--model", path, "--file", folder / "text")["tokens"]
    report.line(path.name[:18], "as a folder: tokens of transformers", tokenizer.encode(corpus, add_special_tokens=False) == ours, f"{len(ours)} tokens")
    program.json("convert", folder / "c", folder / "c.gguf")
    difference = float(numpy.abs(program.last_logits(folder / "c.gguf", tokens) - expected).max())
    report.line(path.name[:18], "and as GGUF again: logits", difference < 1e-4, f"{difference:.1e}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--patchbay", default=ROOT / "build/release/bin/patchbay")
    parser.add_argument("--gguf", type=pathlib.Path, action="append", default=[])
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    generate, program, report = generator(), Program(options.patchbay), Report()
    for name in options.names or generate.MODELS:
        with tempfile.TemporaryDirectory() as folder:
            check_model(name, generate, program, report, pathlib.Path(folder))
    if not options.names:
        for name, settings in UNREAD.items():
            with tempfile.TemporaryDirectory() as folder:
                check_unread(name, settings, generate, program, report, pathlib.Path(folder))
        for kind, dtype in (("bf16", torch.bfloat16), ("f16", torch.float16)):
            with tempfile.TemporaryDirectory() as folder:
                check_narrow(generate, program, report, pathlib.Path(folder), kind, dtype)
        for path in [*(ROOT / "data/tiny-shakespeare").glob("*.gguf"), *options.gguf]:
            with tempfile.TemporaryDirectory() as folder:
                check_gguf(path, program, report, pathlib.Path(folder))
    raise SystemExit(Report.failed)


if __name__ == "__main__":
    main()
