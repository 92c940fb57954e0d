#!/usr/bin/env python3
"""Writes the tiny random Llamas of this folder and the logits that Hugging Face's transformers computes for them.

    pip install torch transformers gguf && python generate.py

Per model NAME: NAME.gguf (F32, a whole model with a tokenizer of single bytes), NAME.json (token sequences, versions) and
NAME.logits.bin: little-endian fp32, one row of V logits per token, sequence after sequence.
"""
import importlib.metadata
import json
import pathlib

import gguf
import numpy
import torch
from transformers import LlamaConfig, LlamaForCausalLM

SEED = 20250117
SEQUENCE_LENGTHS = (24, 17)
MERGES = ["t h", "th e", "Ġ the"]  # of the tokenizer; each makes one more token
END = "<|end|>"
VOCABULARY = 256 + len(MERGES) + 1

COMMON = dict(vocab_size=VOCABULARY, hidden_size=32, intermediate_size=48, num_attention_heads=4, max_position_embeddings=128,
              attention_bias=False, mlp_bias=False, bos_token_id=None, eos_token_id=VOCABULARY - 1)
MODELS = {
    # two query heads share one of keys and values; the head is the embedding
    "gqa_tied": dict(num_hidden_layers=3, num_key_value_heads=2, tie_word_embeddings=True, rms_norm_eps=1e-5,
                     rope_parameters=dict(rope_type="default", rope_theta=10000.0)),
    # one head of keys and values; head size 16 where hidden / heads is 8; own head; Llama 3's RoPE with divisors
    "mqa_wide_heads": dict(num_hidden_layers=2, num_key_value_heads=1, head_dim=16, tie_word_embeddings=False, rms_norm_eps=1e-6,
                           rope_parameters=dict(rope_type="llama3", rope_theta=500.0, factor=4.0, low_freq_factor=1.0,
                                                high_freq_factor=4.0, original_max_position_embeddings=32)),
}


def random_model(settings):
    """Weights large enough that attention is far from uniform and every layer matters."""
    model = LlamaForCausalLM(LlamaConfig(**COMMON, **settings)).eval()
    generator = torch.Generator().manual_seed(SEED)
    for name, weight in model.named_parameters():
        noise = torch.randn(weight.shape, generator=generator)
        if weight.dim() == 1:
            weight.data = 1.0 + 0.2 * noise  # norms
        else:
            weight.data = noise * (0.3 if "embed" in name else 1.5 / weight.shape[1] ** 0.5)
    return model


def for_neighbouring_pairs(weight, heads):
    """RoPE turns halves (i, i + D/2) in transformers and neighbours (2i, 2i+1) in GGUF's Llama: reorder the rows of q and k."""
    rows, cols = weight.shape
    return weight.reshape(heads, 2, rows // heads // 2, cols).swapaxes(1, 2).reshape(rows, cols)


def tensors_of(model):
    config, state = model.config, {name: weight.detach().numpy() for name, weight in model.state_dict().items()}
    yield "token_embd.weight", state["model.embed_tokens.weight"]
    yield "output_norm.weight", state["model.norm.weight"]
    if not config.tie_word_embeddings:
        yield "output.weight", state["lm_head.weight"]
    if config.rope_parameters["rope_type"] != "default":
        size = config.head_dim
        plain = config.rope_parameters["rope_theta"] ** (-torch.arange(0, size, 2, dtype=torch.float64) / size)
        yield "rope_freqs.weight", (plain / model.model.rotary_emb.inv_freq.double()).float().numpy()
    for layer in range(config.num_hidden_layers):
        def part(name):
            return state[f"model.layers.{layer}.{name}.weight"]
        yield f"blk.{layer}.attn_norm.weight", part("input_layernorm")
        yield f"blk.{layer}.attn_q.weight", for_neighbouring_pairs(part("self_attn.q_proj"), config.num_attention_heads)
        yield f"blk.{layer}.attn_k.weight", for_neighbouring_pairs(part("self_attn.k_proj"), config.num_key_value_heads)
        yield f"blk.{layer}.attn_v.weight", part("self_attn.v_proj")
        yield f"blk.{layer}.attn_output.weight", part("self_attn.o_proj")
        yield f"blk.{layer}.ffn_norm.weight", part("post_attention_layernorm")
        yield f"blk.{layer}.ffn_gate.weight", part("mlp.gate_proj")
        yield f"blk.{layer}.ffn_up.weight", part("mlp.up_proj")
        yield f"blk.{layer}.ffn_down.weight", part("mlp.down_proj")


def byte_characters():
    """The printable character that byte-level BPE writes for each byte: itself where printable, else 256 and up."""
    printable = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = iter(range(0x100, 0x200))
    return [chr(byte) if byte in printable else chr(next(others)) for byte in range(256)]


def add_tokenizer(writer):
    tokens = byte_characters() + [merge.replace(" ", "") for merge in MERGES] + [END]
    assert len(tokens) == VOCABULARY
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types([gguf.TokenType.NORMAL] * (VOCABULARY - 1) + [gguf.TokenType.CONTROL])
    writer.add_token_merges(MERGES)
    writer.add_eos_token_id(VOCABULARY - 1)
    writer.add_add_bos_token(False)


def write_gguf(path, model, name):
    config = model.config
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_name(f"patchbay tiny_llama {name}")
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_key_length(config.head_dim)
    writer.add_value_length(config.head_dim)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_vocab_size(VOCABULARY)
    add_tokenizer(writer)
    for tensor_name, values in tensors_of(model):
        writer.add_tensor(tensor_name, numpy.ascontiguousarray(values, dtype=numpy.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main():
    folder = pathlib.Path(__file__).parent
    versions = {package: importlib.metadata.version(package) for package in ("torch", "transformers", "gguf", "numpy")}
    rng = numpy.random.default_rng(SEED)
    for name, settings in MODELS.items():
        model = random_model(settings)
        write_gguf(folder / f"{name}.gguf", model, name)
        sequences = [rng.integers(0, VOCABULARY, length).tolist() for length in SEQUENCE_LENGTHS]
        with torch.no_grad():
            logits = [model(torch.tensor([sequence])).logits[0].numpy() for sequence in sequences]
        numpy.concatenate(logits).astype("<f4").tofile(folder / f"{name}.logits.bin")
        description = {"seed": SEED, "versions": versions, "vocabulary": VOCABULARY, "sequences": sequences}
        (folder / f"{name}.json").write_text(json.dumps(description) + "\n")


if __name__ == "__main__":
    main()
