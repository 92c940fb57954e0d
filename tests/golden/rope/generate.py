#!/usr/bin/env python3
"""Writes frequencies.json: the RoPE frequencies and magnitudes that Hugging Face's transformers computes for each kind of scaling.

    pip install torch transformers && python generate.py
"""
import importlib.metadata
import json
import pathlib

import torch
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

LONG = [1.0 + 0.5 * i for i in range(32)]
CASES = [  # head size, parameters, length
    (64, dict(rope_type="linear", rope_theta=10000.0, factor=4.0), None),
    (64, dict(rope_type="dynamic", rope_theta=10000.0, factor=2.0), 4096),
    (64, dict(rope_type="dynamic", rope_theta=10000.0, factor=2.0), 20000),
    (64, dict(rope_type="llama3", rope_theta=500000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=8192), None),
    (128, dict(rope_type="yarn", rope_theta=1000000.0, factor=4.0, original_max_position_embeddings=32768), None),
    (64, dict(rope_type="yarn", rope_theta=10000.0, factor=16.0, beta_fast=16.0, beta_slow=2.0, original_max_position_embeddings=256, truncate=False), None),
    (64, dict(rope_type="longrope", rope_theta=10000.0, factor=32.0, original_max_position_embeddings=4096, short_factor=[1.0] * 32, long_factor=LONG), 5000),
]


def main():
    cases = []
    for head_size, parameters, length in CASES:
        config = LlamaConfig(hidden_size=4 * head_size, num_attention_heads=4, max_position_embeddings=4096, rope_parameters=dict(parameters))
        frequencies, magnitude = ROPE_INIT_FUNCTIONS[parameters["rope_type"]](config, torch.device("cpu"), seq_len=length)
        cases.append({"head_size": head_size, "parameters": parameters, "length": length, "frequencies": [float(f) for f in frequencies],
                      "magnitude": float(magnitude)})
    versions = {package: importlib.metadata.version(package) for package in ("torch", "transformers")}
    pathlib.Path(__file__).with_name("frequencies.json").write_text(json.dumps({"versions": versions, "cases": cases}) + "\n")


if __name__ == "__main__":
    main()
