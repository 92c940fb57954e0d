#!/usr/bin/env python3
"""Writes expected.json: what independent programs say about data/tiny-shakespeare. Needs python/requirements-training.txt.

    training/bin/python tests/golden/tiny_shakespeare/generate.py

Everything is read from the GGUF file: transformers loads it (fp32, weights as stored) for logits, greedy tokens and the perplexity
of evaluation.txt; tokenizers gets the file's tokens and merges; llama.cpp runs it as a second opinion, which must agree.
"""
import importlib.metadata
import json
import math
import pathlib

import gguf
import llama_cpp
import numpy
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaForCausalLM

FOLDER = pathlib.Path(__file__).resolve().parent
DATA = FOLDER.parents[2] / "data" / "tiny-shakespeare"
MODEL = DATA / "tiny-shakespeare-f16.gguf"
GREEDY_TOKENS = 48
WINDOW = 512
TEXTS = [
    "", "a", " ", "  ", "\n", "\n\n", " \n \n  x", "\t\ttabs\tand spaces   ", "ROMEO:\nBut, soft! what light through yonder window breaks?",
    "I'll, we've, they're, 'tis, o'er, DON'T", "1234567 and 3.14159", "x=1;y[2]={'a':\"b\"}//c", "café naïve Ærøskøbing ﬁ",
    "中文字符 и русский текст", "🙂👩‍👩‍👧 emoji", "a\u00a0b\u2003c\u3000d", "....... !!! ?!?! --- --", "e\u0301 \u0001\u007f \ufeff",
    "<|begin|>plain<|end|>", "x" * 300, "thethethe" * 20,
]


def tokenizer_of(reader):
    """Tokens and merges as the file has them, in the hands of Hugging Face's tokenizers."""
    tokens, merges = (reader.fields[f"tokenizer.ggml.{key}"].contents() for key in ("tokens", "merges"))
    tokenizer = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=[tuple(m.split(" ")) for m in merges]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


@torch.no_grad()
def continuation(model, ids):
    """Greedy tokens, and by how much each led."""
    ids, margins = list(ids), []
    for _ in range(GREEDY_TOKENS):
        best = model(torch.tensor([ids])).logits[0, -1].topk(2)
        ids.append(int(best.indices[0]))
        margins.append(round(float(best.values[0] - best.values[1]), 5))
    return ids[-GREEDY_TOKENS:], margins


def llama_cpp_agrees(ids, logits, greedy, margins):
    """llama.cpp rounds activations to F16 before a product with F16 weights, hence the tolerance."""
    llama = llama_cpp.Llama(str(MODEL), n_ctx=WINDOW, logits_all=True, verbose=False, type_k=llama_cpp.GGML_TYPE_F32,
                            type_v=llama_cpp.GGML_TYPE_F32, n_threads=1)
    llama.eval(ids)
    difference = numpy.abs(llama.scores[len(ids) - 1] - logits).max()
    assert difference < 0.05, difference
    llama.reset()
    llama.eval(ids + greedy[:-1])
    chosen = llama.scores[len(ids) - 1:len(ids) + len(greedy) - 1].argmax(axis=1)
    for i, token in enumerate(greedy):
        assert chosen[i] == token or margins[i] < 0.05, (i, chosen[i], token, margins[i])
    return float(difference)


@torch.no_grad()
def scores(model, ids, bos):
    """Negative log-likelihoods, in nats, of all whole windows; BOS stands for the first token of each."""
    rows = torch.tensor(ids[:len(ids) // WINDOW * WINDOW]).view(-1, WINDOW).clone()
    rows[:, 0] = bos
    chosen = [model(row[None]).logits[0, :-1].double().log_softmax(-1).gather(1, row[1:, None]) for row in rows]
    return -torch.cat(chosen)


def main():
    torch.set_num_threads(1)  # small products: more threads would only wait for each other
    reader = gguf.GGUFReader(MODEL)
    bos = int(reader.fields["tokenizer.ggml.bos_token_id"].contents())
    tokenizer = tokenizer_of(reader)
    model = LlamaForCausalLM.from_pretrained(DATA, gguf_file=MODEL.name, dtype=torch.float32).eval()

    prompts = []
    for line in (DATA / "prompts.jsonl").read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        ids = [bos] + tokenizer.encode(entry["prompt"]).ids
        with torch.no_grad():
            logits = model(torch.tensor([ids])).logits[0, -1].numpy()
        greedy, margins = continuation(model, ids)
        difference = llama_cpp_agrees(ids, logits, greedy, margins)
        print(f"{entry['name']}: llama.cpp's logits within {difference:.4f}; {tokenizer.decode(greedy)!r}")
        prompts.append(dict(name=entry["name"], ids=ids, logits=[round(float(x), 5) for x in logits], greedy=greedy, margins=margins))

    nll = scores(model, [bos] + tokenizer.encode((DATA / "evaluation.txt").read_text(encoding="utf-8")).ids, bos)
    perplexity = dict(window=WINDOW, tokens=len(nll), value=math.exp(nll.mean()))
    print(f"perplexity {perplexity['value']:.4f} of {len(nll)} tokens")
    texts = [dict(text=text, ids=tokenizer.encode(text).ids) for text in TEXTS]
    assert all(tokenizer.decode(one["ids"]) == one["text"] for one in texts)
    versions = {package: importlib.metadata.version(package)
                for package in ("torch", "transformers", "tokenizers", "gguf", "llama-cpp-python")}
    expected = dict(versions=versions, texts=texts, prompts=prompts, perplexity=perplexity)
    (FOLDER / "expected.json").write_text(json.dumps(expected) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
