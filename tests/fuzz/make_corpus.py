#!/usr/bin/env python3
"""Writes tests/fuzz/corpus: for each fuzz target a few small files that reach its parts. Needs nothing but Python.

The config.json files are those of the random models in tests/golden/architectures; all else is written here.
"""
import json
import pathlib
import re
import struct

HERE = pathlib.Path(__file__).resolve().parent
GOLDEN = HERE.parent / "golden/architectures/architectures.json"
MARK = "\u2581"  # SentencePiece's space


def write(target, name, content):
    path = HERE / "corpus" / target / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


# --- GGUF

def text(value):
    value = value if isinstance(value, bytes) else value.encode()
    return struct.pack("<Q", len(value)) + value


SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}


def scalar(kind, value):
    return text(value) if kind == 8 else struct.pack("<" + SCALARS[kind], value)


def pair(key, kind, value):
    if isinstance(value, list):
        return text(key) + struct.pack("<IIQ", 9, kind, len(value)) + b"".join(scalar(kind, each) for each in value)
    return text(key) + struct.pack("<I", kind) + scalar(kind, value)


def gguf(pairs, tensors, version=3, alignment=32):
    """tensors: (name, type code, extents, bytes)."""
    infos, data = b"", b""
    for name, kind, shape, content in tensors:
        infos += text(name) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *shape) + struct.pack("<IQ", kind, len(data))
        data += content + b"\0" * (-len(content) % alignment)
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(pairs)) + b"".join(pairs) + infos
    return head + b"\0" * (-len(head) % alignment) + data


def tiny_llama(more):
    """One block, 8 wide, 4 tokens unless `more` has others."""
    pairs = [pair("general.architecture", 8, "llama"), pair("llama.block_count", 4, 1), pair("llama.context_length", 4, 64),
             pair("llama.embedding_length", 4, 8), pair("llama.feed_forward_length", 4, 32), pair("llama.attention.head_count", 4, 2),
             pair("llama.attention.head_count_kv", 4, 1), pair("llama.attention.layer_norm_rms_epsilon", 6, 1e-5)]
    shapes = {"token_embd": (8, 16), "output_norm": (8,), "blk.0.attn_norm": (8,), "blk.0.attn_q": (8, 8), "blk.0.attn_k": (8, 4),
              "blk.0.attn_v": (8, 4), "blk.0.attn_output": (8, 8), "blk.0.ffn_norm": (8,), "blk.0.ffn_gate": (8, 32), "blk.0.ffn_up": (8, 32)}
    tensors = []
    for name, shape in shapes.items():
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        tensors.append((name + ".weight", 1 if len(shape) > 1 else 0, shape, b"\0" * (count * (2 if len(shape) > 1 else 4))))
    tensors.append(("blk.0.ffn_down.weight", 8, (32, 8), b"\0" * (34 * 8)))  # Q8_0
    return gguf(pairs + more, tensors)


def write_gguf():
    kinds = [pair(f"kind{kind}", kind, 1) for kind in SCALARS] + [pair("text", 8, "a"), pair("list", 5, [1, -1]), pair("texts", 8, ["", "b"])]
    write("gguf", "kinds.gguf", gguf(kinds, [("a", 0, (3,), b"\0" * 12), ("b", 2, (32, 1), b"\0" * 18)]))
    write("gguf", "aligned.gguf", gguf([pair("general.alignment", 4, 64)], [("w", 30, (2, 1, 1, 1), b"\0" * 4)], 2, 64))
    bytes_level = [pair("tokenizer.ggml.model", 8, "gpt2"), pair("tokenizer.ggml.pre", 8, "smollm"),
                   pair("tokenizer.ggml.tokens", 8, ["<|endoftext|>", "a", "t", "1", "at", "\u0120", "\u0120a"]),
                   pair("tokenizer.ggml.token_type", 5, [3, 1, 1, 1, 1, 1, 1]), pair("tokenizer.ggml.merges", 8, ["a t", "\u0120 a"]),
                   pair("tokenizer.ggml.bos_token_id", 4, 0), pair("tokenizer.ggml.eos_token_id", 4, 0), pair("tokenizer.ggml.add_bos_token", 7, True)]
    write("gguf", "llama_gpt2.gguf", tiny_llama(bytes_level + [pair("llama.rope.freq_base", 6, 1e4), pair("llama.rope.scaling.type", 8, "linear"),
                                                               pair("llama.rope.scaling.factor", 6, 2.0)]))
    pieces = ["<unk>", "<s>", "</s>", MARK, "a", "t", "at", MARK + "a", "<0x0A>", "<0xC3>"]
    for model in ("llama", "t5"):
        tokenizer = [pair("tokenizer.ggml.model", 8, model), pair("tokenizer.ggml.tokens", 8, pieces),
                     pair("tokenizer.ggml.scores", 6, [0.0, 0.0, 0.0] + [-float(i) for i in range(1, 8)]),
                     pair("tokenizer.ggml.token_type", 5, [2, 3, 3, 1, 1, 1, 1, 1, 6, 6]), pair("tokenizer.ggml.unknown_token_id", 4, 0),
                     pair("tokenizer.ggml.add_space_prefix", 7, True), pair("tokenizer.ggml.remove_extra_whitespaces", 7, True)]
        write("gguf", f"{model}.gguf", gguf(tokenizer, []))


# --- safetensors

def safetensors(tensors, data, **metadata):
    """tensors: (name, dtype, shape, begin, end)."""
    header = {name: {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]} for name, dtype, shape, begin, end in tensors}
    if metadata:
        header["__metadata__"] = metadata
    head = json.dumps(header, separators=(",", ":")).encode()
    return struct.pack("<Q", len(head)) + head + data


def write_safetensors():
    write("safetensors", "two.safetensors", safetensors([("a", "U8", [3], 0, 3), ("w\u00e9", "F32", [2, 1], 3, 11)], bytes(11), format="pt"))
    kinds = {"BOOL": 1, "I8": 1, "F8_E5M2": 1, "F8_E4M3": 1, "I16": 2, "F16": 2, "BF16": 2, "I32": 4, "I64": 8, "U64": 8, "F64": 8}
    tensors, end = [], 0
    for kind, size in kinds.items():
        tensors.append((kind, kind, [1, 2], end, end + 2 * size))
        end += 2 * size
    write("safetensors", "kinds.safetensors", safetensors(tensors + [("empty", "F32", [0, 4], end, end), ("scalar", "F16", [], end, end + 2)], bytes(end + 2)))
    write("safetensors", "empty.safetensors", safetensors([], b""))


# --- tokenizer.json

def added(token, content, **flags):
    return {"id": token, "content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True} | flags


def tokenizer(model, sample="", **parts):
    whole = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None, "pre_tokenizer": None,
             "post_processor": None, "decoder": None} | parts | {"model": model}
    return json.dumps(whole, ensure_ascii=False, separators=(",", ":")).encode() + (b"\0" + sample.encode() if sample else b"")


def bpe(vocabulary, merges, **flags):
    return {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None, "fuse_unk": False,
            "byte_fallback": False, "ignore_merges": False, "vocab": {each: i for i, each in enumerate(vocabulary)}, "merges": merges} | flags


def sequence(key, steps):
    return {"type": "Sequence", key: steps}


def write_tokenizers():
    digits = {"type": "Split", "pattern": {"Regex": "\\p{N}{1,3}|(?i:'s|'t)| ?\\p{L}+|\\s+(?!\\S)"}, "behavior": "Isolated", "invert": False}
    write("tokenizer_json", "byte_level.json", tokenizer(
        bpe(["a", "t", "1", "\u0120", "at", "\u0120a", "<|endoftext|>"], ["a t", ["\u0120", "a"]], ignore_merges=True), "at 1 a't",
        added_tokens=[added(6, "<|endoftext|>")],
        pre_tokenizer=sequence("pretokenizers", [digits, {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}]),
        post_processor={"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<|endoftext|>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
                        "pair": [], "special_tokens": {"<|endoftext|>": {"id": "<|endoftext|>", "ids": [6], "tokens": ["<|endoftext|>"]}}},
        decoder={"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}))
    write("tokenizer_json", "fallback.json", tokenizer(
        bpe(["<unk>", "<0x61>", "<0xC3>", MARK, "b", MARK + "b"], [[MARK, "b"]], unk_token="<unk>", byte_fallback=True, fuse_unk=True), "a b\u00e4",
        added_tokens=[added(0, "<unk>"), added(6, "<|turn|>", rstrip=True, lstrip=True, single_word=True, normalized=True, special=False)],
        normalizer=sequence("normalizers", [{"type": "Prepend", "prepend": MARK}, {"type": "Replace", "pattern": {"String": " "}, "content": MARK}]),
        decoder=sequence("decoders", [{"type": "Replace", "pattern": {"String": MARK}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
                                      {"type": "Strip", "content": " ", "start": 1, "stop": 0}])))
    write("tokenizer_json", "unigram.json", tokenizer(
        {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0.0], [MARK, -1.0], ["a", -2.0], [MARK + "a", -2.5]], "byte_fallback": False}, "a  A",
        normalizer=sequence("normalizers", [{"type": "NFKC"}, {"type": "Lowercase"}, {"type": "StripAccents"}, {"type": "Strip", "strip_left": True, "strip_right": True},
                                            {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}]),
        pre_tokenizer=sequence("pretokenizers", [{"type": "WhitespaceSplit"}, {"type": "Metaspace", "replacement": MARK, "prepend_scheme": "always", "split": True}]),
        decoder={"type": "Metaspace", "replacement": MARK, "prepend_scheme": "always", "split": True}))
    write("tokenizer_json", "words.json", tokenizer(
        bpe(["##b", "a</w>", "a", "[UNK]"], [], unk_token="[UNK]", continuing_subword_prefix="##", end_of_word_suffix="</w>"), "ab \u754c!",
        normalizer={"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True},
        pre_tokenizer=sequence("pretokenizers", [{"type": "BertPreTokenizer"}, {"type": "Punctuation", "behavior": "Contiguous"}, {"type": "Digits", "individual_digits": True}]),
        decoder={"type": "BPEDecoder", "suffix": "</w>"}))


# --- Jinja

TEMPLATES = {
    "chatml": "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' }}{{ m['content'] | trim }}{{ '<|im_end|>\n' }}{% endfor %}"
              "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' -}}{% endif %}",
    "macros": "{%- macro call(t, sep=', ') -%}{{ t.function.name }}({{ t.function.arguments | tojson(indent=2) }}){{ sep }}{%- endmacro -%}"
              "{% set ns = namespace(n=0, seen=[]) %}{% for m in messages if m.tool_calls is defined %}{% set ns.n = ns.n + 1 %}"
              "{% for t in m.tool_calls %}{{ call(t, sep='' if loop.last else '; ') }}{% endfor %}{% else %}none{% endfor %}{{ ns.n }}",
    "tests": "{% if messages[0].role == 'system' and messages | length > 1 %}{{ bos_token ~ messages[0].content.strip() }}{% elif not x is none %}"
             "{{ raise_exception('no ' + 'system') }}{% endif %}{{ [1, 2.5, true] | map('string') | join('-') }}{{ messages[1:][::-1] | selectattr('role', 'equalto', 'user') | list | length }}"
             "{{ strftime_now('%d %b %Y') }}{{ range(3) | list }}{{ {'a': 1}.items() | list }}{{ 'aXb'.split('X')[0] | upper | replace('A', 'c') }}",
    "blocks": "{# note #}{% filter upper %}a{{ -1 if 2 ** 3 // 2 % 3 else 'z' }}{% endfilter %}{% raw %}{{ x }}{% endraw %}{% generation %}g{% endgeneration %}"
              "{% for k, v in {'b': [1], 'a': (2,)} | dictsort %}{{ loop.index0 }}{{ k }}{{ v[-1] }}{% if loop.first %}{% continue %}{% endif %}{% break %}{% endfor %}"
              "\0{\"x\": [1, {\"y\": null}], \"messages\": []}",
}


def write_templates():
    for name, template in TEMPLATES.items():
        write("jinja", name + ".jinja", template)


# --- YAML

EXPERIMENT = """name: small
note: 'a note'
model: model.gguf
seed: 0x2A
base:
  weights: {quantizer: rtn, format: {type: int_grouped, bits: 4, group_size: 16}}
  kv_store: {type: paged, block_size: 16, format: fp16}
  processors: [{type: temperature, value: 0.5}]
sweep:
  weights.format.bits: [2, 3]
  kv_store.block_size: {from: 16, to: 64, step: 16}
  setup: {one: {threads: 1}, two: {threads: 2}}
baseline: {weights: none}
tasks: [perplexity, memory]
evaluation: {window: 64, chunks: 2}
"""


def write_yaml():
    write("yaml", "experiment.yaml", EXPERIMENT)
    write("yaml", "syntax.yaml", "# a comment\nname: \"a\\u00e9\\n\"\nmodel: &m 'it''s'\nnote: |\n  two\n  lines\nbase: {attention: flash, threads: 2}\nout: *m\n...\n")
    write("yaml", "description.yaml", "file: m.gguf\nbytes: 12\nsha256: " + "0" * 64 + "\nsource: package==1.0\nlicence: MIT\nnote: none\n")
    write("yaml", "assignment", "kv_store.format={type: int8, group: [1, 2]}")


def write_dictionary(target, more=()):
    """The words of a corpus, one a line, as libFuzzer's -dict reads them."""
    words = set(more)
    for path in (HERE / "corpus" / target).iterdir():
        words |= set(re.findall(rb"[A-Za-z_][A-Za-z0-9_.]{2,40}", path.read_bytes()))
    text = "".join('"' + "".join(chr(b) if 32 < b < 127 and b not in b'"\\' else f"\\x{b:02X}" for b in word) + '"\n' for word in sorted(words))
    (HERE / (target + ".dict")).write_text(text)


def main():
    for name, model in json.loads(GOLDEN.read_text())["models"].items():
        write("config_json", name + ".json", json.dumps(model["config"], separators=(",", ":")))
    write_gguf()
    write_safetensors()
    write_templates()
    write_tokenizers()
    write_yaml()
    edges = [struct.pack("<Q", value) for value in (0, 2**31, 2**32, 2**62, 2**63, 2**64 - 1)]
    write_dictionary("gguf", edges + [struct.pack("<I", value) for value in range(13)])
    write_dictionary("safetensors", edges[3:] + [b'"F32"', b'"data_offsets":[0,', b"18446744073709551615", b"4e0", b"-1", b"{}", b"[]", b"null"])
    write_dictionary("jinja", [b"{{ ", b" }}", b"{% ", b" %}", b"{%- ", b" -%}", b"{# ", b" #}", b" | ", b" is ", b" in ", b"not ", b"(*a, **b)", b"[::-1]", b"**"])
    write_dictionary("tokenizer_json", [b'{"type":"', b'"Sequence"', b"null", b"\\u00e9", b"-1", b"2147483648", b"(?:", b"\\\\p{L}"])
    write_dictionary("config_json", [b"null", b"true", b"-1", b"0", b"1e308", b"2147483647", b"[]", b"{}"])
    write_dictionary("yaml", [b"- ", b": ", b"&a ", b"*a", b"<<: ", b"!!str ", b"|\n", b"{}", b"[]", b"\n  ", b"'", b"---\n"])


main()
