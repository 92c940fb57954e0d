#!/usr/bin/env python3
"""GPTQ on a Hugging Face folder, on the CPU, for compare_gptq.py to set beside patchbay: by GPTQModel, or in plain torch as the paper says.

    python scripts/bench_gptq_peer.py FOLDER --text FILE --samples 16 --length 512 --peer gptqmodel|torch

Prints one line of JSON: seconds of quantising alone (without imports and loading), and the tokens that were calibrated on.
"""
import argparse
import json
import os
import time

import torch
import transformers

BLOCK = 128


def fitted(w, bits):
    """Scale and zero point of each row of a group: the range, 0 within."""
    low, high = w.min(1).values.clamp(max=0), w.max(1).values.clamp(min=0)
    scale = ((high - low) / (2**bits - 1)).clamp(min=1e-9)
    return scale, torch.round(-low / scale)


@torch.no_grad()
def quantize(linear, hessian, bits, group, damp):
    """Algorithm 1 of the paper: blocks of columns, errors passed on within at once and to all others when a block is done."""
    w = linear.weight.data.float().clone()
    rows, columns = w.shape
    diagonal = torch.diag(hessian)
    hessian[diagonal == 0, diagonal == 0] = 1
    hessian += damp * diagonal.mean() * torch.eye(columns)
    upper = torch.linalg.cholesky(torch.cholesky_inverse(torch.linalg.cholesky(hessian)), upper=True)
    for first in range(0, columns, BLOCK):
        last = min(first + BLOCK, columns)
        errors = torch.zeros(rows, last - first)
        for c in range(first, last):
            if c % group == 0:
                scale, zero = fitted(w[:, c:c + group], bits)
            decoded = scale * (torch.clamp(torch.round(w[:, c] / scale) + zero, 0, 2**bits - 1) - zero)
            error = (w[:, c] - decoded) / upper[c, c]
            w[:, c] = decoded
            w[:, c + 1:last] -= torch.outer(error, upper[c, c + 1:last])
            errors[:, c - first] = error
        w[:, last:] -= errors @ upper[first:last, last:]
    linear.weight.data = w.to(linear.weight.dtype)


@torch.no_grad()
def quantize_by_torch(model, samples, bits, group, damp):
    """Block by block, each in four steps that see what is quantised before them."""
    layers = model.model.layers
    states, arguments = [], {}

    class Stop(Exception):
        pass

    def keep(_, args, kwargs):
        states.append(args[0] if args else kwargs["hidden_states"])
        arguments.update({key: value for key, value in kwargs.items() if key != "hidden_states"})
        raise Stop

    handle = layers[0].register_forward_pre_hook(keep, with_kwargs=True)
    for sample in samples:
        try:
            model(torch.tensor([sample]), use_cache=False)
        except Stop:
            pass
    handle.remove()

    def run(layer, state):
        out = layer(state, **arguments)
        return out[0] if isinstance(out, tuple) else out

    for layer in layers:
        attention, mlp = layer.self_attn, layer.mlp
        for stage in [[attention.q_proj, attention.k_proj, attention.v_proj], [attention.o_proj], [mlp.gate_proj, mlp.up_proj], [mlp.down_proj]]:
            hessian, tokens = torch.zeros(stage[0].in_features, stage[0].in_features), 0

            def look(_, args):
                nonlocal tokens
                x = args[0].reshape(-1, args[0].shape[-1]).float()
                hessian.addmm_(x.T, x, alpha=2)
                tokens += len(x)

            handle = stage[0].register_forward_pre_hook(look)
            for state in states:
                run(layer, state)
            handle.remove()
            for linear in stage:
                quantize(linear, hessian / tokens, bits, group, damp)
        states = [run(layer, state) for state in states]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--text", required=True)
    parser.add_argument("--samples", type=int, default=16)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--bits", type=int, default=4)
    parser.add_argument("--group", type=int, default=64)
    parser.add_argument("--damp", type=float, default=0.01)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--peer", choices=["torch", "gptqmodel"], default="torch")
    parser.add_argument("--out", help="a folder for the quantised model: decoded (torch), or in the layout of GPTQ (gptqmodel)")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    tokenizer = transformers.AutoTokenizer.from_pretrained(options.folder)
    with open(options.text) as file:
        ids = tokenizer(file.read()).input_ids
    samples = [ids[i * options.length:(i + 1) * options.length] for i in range(options.samples)]
    samples = [sample for sample in samples if len(sample) == options.length]
    if options.peer == "torch":
        model = transformers.AutoModelForCausalLM.from_pretrained(options.folder, dtype=torch.float32)
        begin = time.monotonic()
        quantize_by_torch(model, samples, options.bits, options.group, options.damp)
    else:
        os.cpu_count = lambda cores=os.cpu_count(): max(cores, 4)  # GPTQModel 7.7.0 on two cores: a pool of one worker, of which two are asked
        import gptqmodel
        config = gptqmodel.QuantizeConfig(bits=options.bits, group_size=options.group, desc_act=False, sym=False, damp_percent=options.damp, device="cpu")
        model = gptqmodel.GPTQModel.load(options.folder, config)
        begin = time.monotonic()
        model.quantize([{"input_ids": sample, "attention_mask": [1] * len(sample)} for sample in samples], batch_size=1)
    seconds = time.monotonic() - begin
    if options.out:
        (model.save_pretrained if options.peer == "torch" else model.save)(options.out)
        tokenizer.save_pretrained(options.out)
    print(json.dumps({"seconds": round(seconds, 2), "tokens": sum(map(len, samples)), "samples": len(samples)}))


if __name__ == "__main__":
    main()
