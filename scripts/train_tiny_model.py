#!/usr/bin/env python3
"""Trains data/tiny-shakespeare's model: a Llama of 3.3 million weights on the text of tinyshakespeare, in minutes on two cores.

    python3 -m venv training && training/bin/pip install -r python/requirements-training.txt
    training/bin/python scripts/train_tiny_model.py ../shared/data/tinyshakespeare.txt --out tiny_hf
    training/bin/python scripts/export_tiny_model.py tiny_hf data/tiny-shakespeare

The text is karpathy's tinyshakespeare (1,115,394 bytes). Its last tenth is held out for validation. What is kept in --out is the
checkpoint of the lowest validation loss, as transformers saves a LlamaForCausalLM, with tokenizer.json, both parts of the text
and training.json (settings, versions, time taken, loss curve).
"""
import argparse
import hashlib
import importlib.metadata
import json
import math
import pathlib
import resource
import time

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch.nn import functional
from transformers import LlamaConfig, LlamaForCausalLM

BEGIN, END = "<|begin|>", "<|end|>"  # every window begins with BEGIN; END is known and never follows


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", type=pathlib.Path, help="tinyshakespeare.txt")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="folder for the model")
    parser.add_argument("--vocabulary", type=int, default=1024, help="tokens")
    parser.add_argument("--context", type=int, default=512, help="tokens of a window")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--epochs", type=int, default=5, help="passes over the text")
    parser.add_argument("--batch", type=int, default=2, help="windows of one step")
    parser.add_argument("--learning-rate", type=float, default=1e-3, help="its peak, after the warm-up")
    parser.add_argument("--warmup", type=int, default=100, help="steps of rising learning rate")
    parser.add_argument("--weight-decay", type=float, default=0.1)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--evaluate-every", type=int, default=200, help="steps between two validations")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--bfloat16", action="store_true", help="products in bfloat16: faster where the CPU has instructions for it")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def split_text(text, held_out=0.1):
    """Cut at the first speech that begins in the last tenth, so that no sentence is in both parts."""
    cut = text.index("\n\n", int(len(text) * (1 - held_out))) + 2
    return text[:cut], text[cut:]


def train_tokenizer(text, vocabulary):
    """Byte-level BPE with GPT-2's pre-tokeniser."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator([text], trainers.BpeTrainer(
        vocab_size=vocabulary, special_tokens=[BEGIN, END], initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return tokenizer


def make_model(arguments, tokenizer):
    """The widths are multiples of 256, so that every block format of GGUF fits; four query heads share one of keys and values."""
    model = LlamaForCausalLM(LlamaConfig(
        vocab_size=tokenizer.get_vocab_size(), hidden_size=256, intermediate_size=768, num_hidden_layers=arguments.layers,
        num_attention_heads=8, num_key_value_heads=2, max_position_embeddings=arguments.context, rms_norm_eps=1e-5,
        tie_word_embeddings=True, rope_parameters=dict(rope_type="default", rope_theta=10000.0),
        bos_token_id=tokenizer.token_to_id(BEGIN), eos_token_id=tokenizer.token_to_id(END)))

    def drop(module, _, output):  # transformers' Llama has no dropout: apply it where a layer adds to the residual stream
        return functional.dropout(output, arguments.dropout, model.training)
    for layer in model.model.layers:
        layer.self_attn.o_proj.register_forward_hook(drop)
        layer.mlp.down_proj.register_forward_hook(drop)
    model.model.embed_tokens.register_forward_hook(drop)
    return model


def windows_of(tokens, begin, length, offset=0):
    """The text from `offset` on as rows of BEGIN and length - 1 tokens; what is left over at the end is dropped."""
    count = (len(tokens) - offset) // (length - 1)
    rows = tokens[offset:offset + count * (length - 1)].view(count, length - 1)
    return torch.cat([torch.full((count, 1), begin), rows], dim=1)


def negative_log_likelihood(model, rows, reduction):
    """Of each token but the first, given those before it; in nats."""
    logits = model(rows[:, :-1]).logits
    return functional.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten(), reduction=reduction)


@torch.no_grad()
def validate(model, tokens, begin, length):
    """Total nats and tokens scored: every token once, in windows that share nothing."""
    model.eval()
    rows = windows_of(tokens, begin, length)
    tail = tokens[rows.shape[0] * (length - 1):]
    total = sum(negative_log_likelihood(model, part, "sum").item() for part in rows.split(8))
    if len(tail) > 0:
        total += negative_log_likelihood(model, torch.cat([torch.tensor([begin]), tail])[None], "sum").item()
    model.train()
    return total / len(tokens)


def make_optimizer(model, arguments, steps):
    """AdamW; no decay for the norms. Linear warm-up, then a cosine down to a twentieth of the peak."""
    parameters = list(model.parameters())
    optimizer = torch.optim.AdamW([
        dict(params=[p for p in parameters if p.dim() > 1], weight_decay=arguments.weight_decay),
        dict(params=[p for p in parameters if p.dim() == 1], weight_decay=0.0)], lr=arguments.learning_rate, betas=(0.9, 0.99))

    def factor(step):
        if step < arguments.warmup:
            return (step + 1) / arguments.warmup
        progress = (step - arguments.warmup) / max(1, steps - arguments.warmup)
        return 0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * progress))
    return optimizer, torch.optim.lr_scheduler.LambdaLR(optimizer, factor)


def batches_of(tokens, begin, arguments, rng):
    """Every epoch cuts the text at another offset and shuffles the windows."""
    for _ in range(arguments.epochs):
        offset = int(torch.randint(arguments.context - 1, (1,), generator=rng))
        rows = windows_of(tokens, begin, arguments.context, offset)
        rows = rows[torch.randperm(len(rows), generator=rng)]
        yield from rows.split(arguments.batch)


def train(model, parts, begin, arguments, keep):
    """Runs all epochs and calls keep() whenever the validation loss is the lowest so far. Returns the curve."""
    rng = torch.Generator().manual_seed(arguments.seed)
    batches = list(batches_of(parts["train"], begin, arguments, rng))
    optimizer, schedule = make_optimizer(model, arguments, len(batches))
    curve, recent = [], []
    for step, rows in enumerate(batches, start=1):
        with torch.autocast("cpu", torch.bfloat16, enabled=arguments.bfloat16):
            loss = negative_log_likelihood(model, rows, "mean")
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        recent.append(loss.item())
        if step % arguments.evaluate_every == 0 or step == len(batches):
            curve.append(dict(step=step, train=round(sum(recent) / len(recent), 4),
                              validation=round(validate(model, parts["validation"], begin, arguments.context), 4)))
            recent = []
            print(f"step {step} of {len(batches)}: train {curve[-1]['train']}, validation {curve[-1]['validation']} nats per token",
                  flush=True)
            if curve[-1]["validation"] == min(point["validation"] for point in curve):
                keep()
    return curve


def main():
    arguments = parse_arguments()
    started = time.monotonic()
    torch.manual_seed(arguments.seed)
    torch.set_num_threads(arguments.threads)
    arguments.out.mkdir(parents=True, exist_ok=True)

    text = arguments.text.read_bytes().decode("utf-8")
    texts = dict(zip(("train", "validation"), split_text(text)))
    tokenizer = train_tokenizer(texts["train"], arguments.vocabulary)
    tokenizer.save(str(arguments.out / "tokenizer.json"))
    for name, part in texts.items():
        (arguments.out / f"{name}.txt").write_bytes(part.encode("utf-8"))
    parts = {name: torch.tensor(tokenizer.encode(part).ids) for name, part in texts.items()}

    model = make_model(arguments, tokenizer)
    weights = sum(p.numel() for p in model.parameters())
    print(f"{weights:,} weights; " + ", ".join(f"{name}: {len(part):,} tokens" for name, part in parts.items()), flush=True)
    curve = train(model, parts, tokenizer.token_to_id(BEGIN), arguments, keep=lambda: model.save_pretrained(arguments.out))

    best = min(curve, key=lambda point: point["validation"])
    bytes_per_token = len(texts["validation"].encode()) / len(parts["validation"])
    usage = resource.getrusage(resource.RUSAGE_SELF)
    record = dict(
        settings={key: value for key, value in vars(arguments).items() if key not in ("text", "out")},
        text_sha256=hashlib.sha256(text.encode("utf-8")).hexdigest(), weights=weights,
        tokens={name: len(part) for name, part in parts.items()}, best_step=best["step"],
        validation_nats_per_token=best["validation"],
        validation_bits_per_byte=round(best["validation"] / math.log(2) / bytes_per_token, 4),
        wall_seconds=round(time.monotonic() - started), cpu_seconds=round(usage.ru_utime + usage.ru_stime),
        versions={package: importlib.metadata.version(package) for package in ("torch", "transformers", "tokenizers")},
        curve=curve)
    (arguments.out / "training.json").write_text(json.dumps(record, indent=1) + "\n")
    print(f"kept: step {best['step']}, {best['validation']} nats per token, {record['validation_bits_per_byte']} bits per byte")


if __name__ == "__main__":
    main()
