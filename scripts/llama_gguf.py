"""A Llama of Hugging Face's transformers as a GGUF file. Used by export_tiny_model.py and tests/golden/tiny_llama/generate.py."""
import gguf
import numpy


def for_neighbouring_pairs(weight, heads):
    """RoPE turns halves (i, i + D/2) in transformers and neighbours (2i, 2i+1) in GGUF's Llama: reorder the rows of q and k."""
    rows, cols = weight.shape
    return weight.reshape(heads, 2, rows // heads // 2, cols).swapaxes(1, 2).reshape(rows, cols)


def tensors_of(model):
    """Names and values as GGUF has them."""
    config, state = model.config, {name: weight.detach().numpy() for name, weight in model.state_dict().items()}
    yield "token_embd.weight", state["model.embed_tokens.weight"]
    yield "output_norm.weight", state["model.norm.weight"]
    if not config.tie_word_embeddings:
        yield "output.weight", state["lm_head.weight"]
    if config.rope_parameters["rope_type"] != "default":
        yield "rope_freqs.weight", rope_divisors(model)
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


def rope_divisors(model):
    """Of the plain frequencies, as transformers scaled them."""
    size, base = model.config.head_dim, model.config.rope_parameters["rope_theta"]
    plain = base ** (-numpy.arange(0, size, 2, dtype=numpy.float64) / size)
    return (plain / model.model.rotary_emb.inv_freq.double().numpy()).astype(numpy.float32)


def write_llama(path, model, name, matrix_type, add_tokenizer):
    """Matrices become `matrix_type` (numpy.float32 or float16), norms stay float32. add_tokenizer(writer) adds the tokenizer's keys."""
    config = model.config
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_name(name)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16 if matrix_type == numpy.float16 else gguf.LlamaFileType.ALL_F32)
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
    writer.add_vocab_size(config.vocab_size)
    add_tokenizer(writer)
    for tensor, values in tensors_of(model):
        writer.add_tensor(tensor, numpy.ascontiguousarray(values, dtype=matrix_type if values.ndim == 2 else numpy.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
