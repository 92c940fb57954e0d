#!/usr/bin/env python3
"""Writes one tiny random model per architecture and per RoPE scaling, and the logits that Hugging Face's transformers computes.

    pip install torch transformers gguf safetensors && python generate.py [NAME ...]

Per model NAME: NAME.gguf (F32, with a tokenizer of single bytes), and in architectures.json its config.json and the names and shapes of
its tensors as transformers saves them, token sequences, and logits: of every third token of a sequence, little-endian fp32 in hexadecimal. Conventions of GGUF (names, reordered q and k, merged experts, norms
of Gemma stored as 1 + w) are those of llama.cpp's converter; compare.py asks llama.cpp itself about the same files.
"""
import importlib.metadata
import json
import pathlib
import sys
import tempfile

import gguf
import numpy
import safetensors
import torch
import transformers

SEED = 20250118
VOCABULARY = 64
LENGTHS = (41, 13)
EVERY = 3
ORIGINAL = 16  # trained context of the models with a RoPE scaling: the first sequence goes far beyond it

SIZES = dict(vocab_size=VOCABULARY, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=64, bos_token_id=None, eos_token_id=VOCABULARY - 1, pad_token_id=None)
GPT2_SIZES = dict(vocab_size=VOCABULARY, bos_token_id=None, eos_token_id=VOCABULARY - 1)
EXPERTS = dict(moe_intermediate_size=16, num_experts=5, num_experts_per_tok=2)


def rope(kind, base=500.0, **more):
    return dict(rope_type=kind, rope_theta=base, **more)


SCALED = dict(factor=4.0, original_max_position_embeddings=ORIGINAL)
MODELS = {  # GGUF's name of the architecture, transformers' name of the config, settings
    "llama_bias": ("llama", "Llama", dict(attention_bias=True, mlp_bias=True, tie_word_embeddings=True, rope_parameters=rope("default"))),
    "llama_linear": ("llama", "Llama", dict(rope_parameters=rope("linear", factor=4.0))),
    "llama_dynamic": ("llama", "Llama", dict(max_position_embeddings=ORIGINAL, rope_parameters=rope("dynamic", factor=4.0))),
    "llama_llama3": ("llama", "Llama", dict(rope_parameters=rope("llama3", low_freq_factor=1.0, high_freq_factor=4.0, **SCALED))),
    "mistral_window": ("llama", "Mistral", dict(head_dim=8, sliding_window=5, rope_parameters=rope("default"))),
    "mixtral": ("llama", "Mixtral", dict(intermediate_size=24, num_local_experts=5, num_experts_per_tok=2, rope_parameters=rope("default"))),
    "smollm3": ("smollm3", "SmolLM3", dict(num_hidden_layers=4, rope_parameters=rope("default"), use_sliding_window=False)),
    "qwen2": ("qwen2", "Qwen2", dict(tie_word_embeddings=True, rope_parameters=rope("default"))),
    "qwen2_yarn": ("qwen2", "Qwen2", dict(rope_parameters=rope("yarn", base=10000.0, **SCALED))),
    "qwen3": ("qwen3", "Qwen3", dict(head_dim=16, rope_parameters=rope("default"))),
    "qwen2moe": ("qwen2moe", "Qwen2Moe", dict(EXPERTS, shared_expert_intermediate_size=24, norm_topk_prob=False, rope_parameters=rope("default"))),
    "qwen3moe": ("qwen3moe", "Qwen3Moe", dict(EXPERTS, head_dim=8, norm_topk_prob=True, rope_parameters=rope("default"))),
    "gemma2": ("gemma2", "Gemma2", dict(num_hidden_layers=3, head_dim=16, query_pre_attn_scalar=16, sliding_window=6, attn_logit_softcapping=2.0,
                                        final_logit_softcapping=3.0, hidden_activation="gelu_pytorch_tanh", tie_word_embeddings=True,
                                        rope_parameters=rope("default"))),
    "gemma3": ("gemma3", "Gemma3Text", dict(num_hidden_layers=7, intermediate_size=16, num_key_value_heads=1, head_dim=8, query_pre_attn_scalar=8,
                                            sliding_window=6, hidden_activation="gelu_pytorch_tanh", tie_word_embeddings=True,
                                            rope_parameters=dict(sliding_attention=rope("default", base=10000.0),
                                                                 full_attention=rope("linear", base=1e6, factor=8.0)))),
    "phi3_window": ("phi3", "Phi3", dict(sliding_window=7, rope_parameters=rope("default"))),
    "phi3_longrope": ("phi3", "Phi3", dict(hidden_size=64, num_hidden_layers=1, intermediate_size=32, original_max_position_embeddings=ORIGINAL,
                                           rope_parameters=rope("longrope", partial_rotary_factor=0.75, short_factor=[1.0, 1.05, 1.1, 1.2, 1.4, 1.7],
                                                                long_factor=[1.1, 1.5, 2.0, 2.9, 3.6, 4.4], factor=4.0,
                                                                original_max_position_embeddings=ORIGINAL))),
    "gpt2": ("gpt2", "GPT2", dict(n_embd=32, n_layer=2, n_head=4, n_inner=48, n_positions=64, tie_word_embeddings=True)),
}


def random_model(config_name, settings):
    """Weights large enough that attention is far from uniform, soft caps bend and every layer matters."""
    config = getattr(transformers, config_name + "Config")(**({**(SIZES if config_name != "GPT2" else GPT2_SIZES), **settings}), attn_implementation="eager")
    if config_name == "GPT2":
        for name in ("resid_pdrop", "embd_pdrop", "attn_pdrop"):
            setattr(config, name, 0.0)
    torch.manual_seed(SEED)
    name = "GPT2LMHeadModel" if config_name == "GPT2" else config_name.replace("Text", "") + "ForCausalLM"
    model = getattr(transformers, name)(config).eval().float()
    generator = torch.Generator().manual_seed(SEED)
    for name, weight in model.named_parameters():
        noise = torch.randn(weight.shape, generator=generator)
        if weight.dim() > 1:
            fan_in = weight.shape[-2] if config_name == "GPT2" and "wte" not in name and "wpe" not in name else weight.shape[-1]
            weight.data = noise * (0.3 if "embed" in name or "wte" in name or "wpe" in name else 1.5 / fan_in ** 0.5)
        elif name.endswith("bias"):
            weight.data = 0.2 * noise
        else:
            weight.data = (0.0 if "Gemma" in config_name else 1.0) + 0.2 * noise
    return model


def logits_of(model, sequence):
    """Token by token where the model's angles follow the length so far: a whole pass would turn all tokens as the last."""
    with torch.no_grad():
        if getattr(model.config, "rope_parameters", None) is None or model.config.rope_parameters.get("rope_type") != "dynamic":
            return model(torch.tensor([sequence])).logits[0].numpy()
        cache, rows = transformers.DynamicCache(), []
        for token in sequence:
            rows.append(model(torch.tensor([[token]]), past_key_values=cache, use_cache=True).logits[0, 0].numpy())
        return numpy.stack(rows)


def folder_of(model):
    """What save_pretrained writes."""
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        config = json.loads((pathlib.Path(folder) / "config.json").read_text())
        with safetensors.safe_open(pathlib.Path(folder) / "model.safetensors", "pt") as file:
            return {"config": config, "tensors": {name: file.get_slice(name).get_shape() for name in file.keys()}}


# Tensors -----------------------------------------------------------------------------------------------------------------------

ROLES = {  # transformers' name below "model.layers.N." -> GGUF's below "blk.N."
    "input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "self_attn.qkv_proj": "attn_qkv", "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "ffn_norm", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
    "mlp.gate_up_proj": "ffn_up", "mlp.gate": "ffn_gate_inp", "mlp.shared_expert.gate_proj": "ffn_gate_shexp",
    "mlp.shared_expert.up_proj": "ffn_up_shexp", "mlp.shared_expert.down_proj": "ffn_down_shexp", "mlp.shared_expert_gate": "ffn_gate_inp_shexp",
}
GEMMA_ROLES = {**ROLES, "post_attention_layernorm": "post_attention_norm", "pre_feedforward_layernorm": "ffn_norm",
               "post_feedforward_layernorm": "post_ffw_norm"}
GPT2_ROLES = {"ln_1": "attn_norm", "attn.c_attn": "attn_qkv", "attn.c_proj": "attn_output", "ln_2": "ffn_norm", "mlp.c_fc": "ffn_up",
              "mlp.c_proj": "ffn_down"}
ENDS = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output", "transformer.wte": "token_embd",
        "transformer.wpe": "position_embd", "transformer.ln_f": "output_norm"}


def for_neighbouring_pairs(values, heads):
    """RoPE turns halves (i, i + D/2) in transformers and neighbours (2i, 2i+1) in GGUF's Llama: reorder the rows of q and k."""
    rows = values.shape[0]
    return values.reshape(heads, 2, rows // heads // 2, *values.shape[1:]).swapaxes(1, 2).reshape(values.shape)


def tensors_of(model, arch):
    config = model.config
    roles = GPT2_ROLES if arch == "gpt2" else GEMMA_ROLES if arch.startswith("gemma") else ROLES
    for name, tensor in model.state_dict().items():
        values, (stem, kind) = tensor.numpy(), name.rsplit(".", 1)
        if stem == "lm_head" and config.tie_word_embeddings:
            continue
        if stem in ENDS:
            gguf_stem = ENDS[stem]
        else:
            _, _, layer, rest = name.split(".", 3)
            block = f"blk.{layer}."
            if ".experts." in name:  # gate and up lie in one tensor, all experts stacked
                if kind == "down_proj":
                    yield block + "ffn_down_exps.weight", values
                else:
                    gate, up = numpy.split(values, 2, axis=1)
                    yield block + "ffn_gate_exps.weight", gate
                    yield block + "ffn_up_exps.weight", up
                continue
            part = rest.rsplit(".", 1)[0]
            gguf_stem = block + roles[part]
            if arch in ("llama", "smollm3") and part.endswith(("q_proj", "k_proj")):
                values = for_neighbouring_pairs(values, config.num_attention_heads if part.endswith("q_proj") else config.num_key_value_heads)
            if arch == "gpt2" and values.ndim == 2:
                values = values.T  # Conv1D keeps (in, out)
            if part.endswith("shared_expert_gate"):
                values = values[0]
        if arch.startswith("gemma") and "norm" in gguf_stem:
            values = values + 1
        yield f"{gguf_stem}.{kind}", values
    yield from rope_tensors(model, arch)


def rope_tensors(model, arch):
    parameters = getattr(model.config, "rope_parameters", None) or {}
    if parameters.get("rope_type") == "llama3":
        size = model.config.head_dim
        plain = parameters["rope_theta"] ** (-torch.arange(0, size, 2, dtype=torch.float64) / size)
        yield "rope_freqs.weight", (plain / model.model.rotary_emb.inv_freq.double()).float().numpy()
    if parameters.get("rope_type") == "longrope":
        yield "rope_factors_long.weight", numpy.array(parameters["long_factor"], dtype=numpy.float32)
        yield "rope_factors_short.weight", numpy.array(parameters["short_factor"], dtype=numpy.float32)


# Metadata ----------------------------------------------------------------------------------------------------------------------

def add_tokenizer(writer):
    tokens = [chr(ord("!") + i) for i in range(VOCABULARY - 2)] + ["AB", "<|end|>"]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types([gguf.TokenType.NORMAL] * (VOCABULARY - 1) + [gguf.TokenType.CONTROL])
    writer.add_token_merges(["A B"])  # llama.cpp wants one
    writer.add_eos_token_id(VOCABULARY - 1)
    writer.add_add_bos_token(False)


def add_rope(writer, config):
    parameters = config.rope_parameters
    if "full_attention" in parameters:
        parameters = parameters["full_attention"]
    kind, size = parameters["rope_type"], getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    writer.add_rope_freq_base(parameters["rope_theta"])
    writer.add_rope_dimension_count(int(size * parameters.get("partial_rotary_factor", 1.0)))
    if kind in ("linear", "dynamic", "yarn", "longrope"):
        writer.add_string(f"{writer.arch}.rope.scaling.type", kind)
    if kind in ("linear", "dynamic", "yarn"):
        writer.add_rope_scaling_factor(parameters["factor"])
    if kind in ("dynamic", "yarn", "longrope"):
        writer.add_rope_scaling_orig_ctx_len(ORIGINAL)
    if kind == "longrope":
        factor = config.max_position_embeddings / ORIGINAL
        writer.add_rope_scaling_attn_factors(float(numpy.sqrt(1 + numpy.log(factor) / numpy.log(ORIGINAL))))


def add_experts(writer, config, arch):
    count = getattr(config, "num_local_experts", None) or getattr(config, "num_experts", None)
    if not count:
        return
    writer.add_expert_count(count)
    writer.add_expert_used_count(config.num_experts_per_tok)
    if arch != "llama":
        writer.add_expert_feed_forward_length(config.moe_intermediate_size)
    if arch == "qwen2moe":
        writer.add_expert_shared_feed_forward_length(config.shared_expert_intermediate_size)


def write_gguf(path, model, arch):
    config = model.config
    writer = gguf.GGUFWriter(str(path), arch)
    writer.add_name("random model of patchbay's tests")  # llama.cpp looks for tokens of Phi-3 where the name says phi3
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(64)
    writer.add_embedding_length(config.hidden_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_vocab_size(VOCABULARY)
    if arch == "gpt2":
        writer.add_feed_forward_length(config.n_inner)
        writer.add_layer_norm_eps(config.layer_norm_epsilon)
    else:
        writer.add_feed_forward_length(config.intermediate_size)
        writer.add_head_count_kv(config.num_key_value_heads)
        writer.add_layer_norm_rms_eps(config.rms_norm_eps)
        if getattr(config, "head_dim", None):
            writer.add_key_length(config.head_dim)
            writer.add_value_length(config.head_dim)
        if getattr(config, "sliding_window", None):
            writer.add_sliding_window(config.sliding_window)
        if getattr(config, "attn_logit_softcapping", None):
            writer.add_attn_logit_softcapping(config.attn_logit_softcapping)
        if getattr(config, "final_logit_softcapping", None):
            writer.add_final_logit_softcapping(config.final_logit_softcapping)
        add_rope(writer, config)
        add_experts(writer, config, arch)
    add_tokenizer(writer)
    for tensor_name, values in tensors_of(model, arch):
        writer.add_tensor(tensor_name, numpy.ascontiguousarray(values, dtype=numpy.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main():
    folder = pathlib.Path(__file__).parent
    described = folder / "architectures.json"
    models = json.loads(described.read_text())["models"] if described.exists() else {}
    for name in sys.argv[1:] or MODELS:
        arch, config_name, settings = MODELS[name]
        model = random_model(config_name, settings)
        write_gguf(folder / f"{name}.gguf", model, arch)
        rng = numpy.random.default_rng(SEED)
        sequences = []
        for length in LENGTHS:
            tokens = rng.integers(0, VOCABULARY, length).tolist()
            logits = logits_of(model, tokens)[::EVERY]
            sequences.append({"tokens": tokens, "logits": logits.astype("<f4").tobytes().hex()})
        models[name] = {"sequences": sequences, **folder_of(model)}
        print(name, (folder / f"{name}.gguf").stat().st_size, "bytes, largest logit", float(numpy.abs(logits).max()))
    versions = {package: importlib.metadata.version(package) for package in ("torch", "transformers", "gguf", "numpy")}
    head = json.dumps({"seed": SEED, "versions": versions, "vocabulary": VOCABULARY, "every": EVERY})
    lines = ",\n".join(f'"{name}": {json.dumps(model)}' for name, model in models.items())
    described.write_text(f'{head[:-1]}, "models": {{\n{lines}\n}}}}\n')


if __name__ == "__main__":
    main()
