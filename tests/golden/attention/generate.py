#!/usr/bin/env python3
"""Writes attention.json: queries, keys, values and what PyTorch's attention makes of them, in double precision: an independent
reading of grouped heads, causal masks, windows, trees of drafts and soft caps.

    pip install torch numpy && python generate.py attention.json

Arrays are hex of fp32, little-endian: k and v (S,G,D) of all S = committed + rows tokens; q and out (rows,H,D) of the last `rows`.
`tree` (rows x rows) is empty for the causal mask. Without a soft cap: scaled_dot_product_attention; with one: flex_attention.
"""
import json
import sys

import numpy
import torch
from torch.nn.attention.flex_attention import flex_attention

SEED = 20250103
TREE = [[1, 0, 0, 0, 0], [1, 1, 0, 0, 0], [1, 0, 1, 0, 0], [0, 0, 0, 1, 0], [1, 0, 1, 0, 1]]  # two roots, one of them branching
CASES = [  # name, H, G, D, committed, rows, window, soft cap, tree
    ("prefill, heads in groups", 6, 2, 16, 0, 12, 0, 0.0, None),
    ("decode behind a tile's end, one head each", 2, 2, 12, 66, 1, 0, 0.0, None),
    ("one key/value head for all", 5, 1, 8, 62, 4, 0, 0.0, None),
    ("window of 4 over 7 tokens", 2, 1, 8, 0, 7, 4, 0.0, None),
    ("window across a tile's end", 4, 2, 8, 64, 3, 5, 0.0, None),
    ("tree of drafts", 4, 2, 8, 20, 5, 0, 0.0, TREE),
    ("soft cap", 4, 2, 8, 10, 6, 0, 5.0, None),
]


def visible(committed, rows, window, tree):
    """(rows, S): which slots a row sees."""
    slot = torch.arange(committed + rows)
    own = torch.arange(committed, committed + rows)[:, None]
    mask = slot[None, :] <= own
    if tree is not None:
        mask[:, committed:] = torch.tensor(tree, dtype=torch.bool)
    if window:
        mask &= slot[None, :] > own - window
    return mask


def attention(q, k, v, mask, soft_cap):
    q, k, v = (torch.from_numpy(x).double().transpose(0, 1)[None] for x in (q, k, v))  # (1, heads, tokens, D)
    if soft_cap == 0:
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)

    def capped(score, _batch, _head, row, slot):
        return torch.where(mask[row, slot], soft_cap * torch.tanh(score / soft_cap), -float("inf"))

    return flex_attention(q, k, v, score_mod=capped, enable_gqa=True)


def main(path):
    rng = numpy.random.default_rng(SEED)
    text = lambda array: numpy.asarray(array, "<f4").tobytes().hex()
    cases = []
    for name, heads, kv_heads, head_size, committed, rows, window, soft_cap, tree in CASES:
        tokens = committed + rows
        q = (2 * rng.normal(size=(rows, heads, head_size))).astype("<f4")
        k, v = (rng.normal(size=(tokens, kv_heads, head_size)).astype("<f4") for _ in range(2))
        out = attention(q, k, v, visible(committed, rows, window, tree), soft_cap)[0].transpose(0, 1)
        cases.append(dict(name=name, heads=heads, kv_heads=kv_heads, head_size=head_size, committed=committed, rows=rows,
                          window=window, soft_cap=soft_cap, tree=sum(tree, []) if tree else [], q=text(q), k=text(k), v=text(v),
                          out=text(out.contiguous().numpy())))
    with open(path, "w") as file:
        json.dump(dict(seed=SEED, torch=torch.__version__, numpy=numpy.__version__, cases=cases), file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main(sys.argv[1])
