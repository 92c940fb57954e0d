#!/usr/bin/env python3
"""Trains small tokenizers with the PyPI packages `tokenizers` and `sentencepiece` and writes what they make of texts: NAME.json (a
tokenizer.json) or NAME.gguf (a vocabulary alone) and cases.json. Only tests read these files; tests/fuzz/tokenizer.py uses the same models.

    pip install tokenizers sentencepiece gguf && python generate.py FOLDER
"""
import importlib.metadata
import io
import json
import pathlib
import random
import sys
import unicodedata

import gguf
import sentencepiece
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

SEED = 20260101
CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
TAIL = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3 = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|" + TAIL
QWEN2 = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|" + TAIL
DEEPSEEK_LETTERS = (
    r"\s?[A-Za-z\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293}\x{295}-\x{2AF}\x{370}-\x{373}"
    r"\x{376}\x{377}\x{37B}-\x{37D}\x{37F}\x{386}\x{388}-\x{38A}\x{38C}\x{38E}-\x{3A1}\x{3A3}-\x{3F5}\x{3F7}-\x{481}"
    r"\x{48A}-\x{52F}\x{531}-\x{556}\x{10A0}-\x{10C5}\x{13A0}-\x{13F5}\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF}"
    r"\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A}\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45}"
    r"\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59}\x{1F5B}\x{1F5D}\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE}"
    r"\x{1FC2}-\x{1FC4}\x{1FC6}-\x{1FCC}\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4}"
    r"\x{1FF6}-\x{1FFC}\x{2102}\x{2107}\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D}\x{2124}\x{2126}\x{2128}\x{212A}-\x{212D}"
    r"\x{212F}-\x{2134}\x{2139}\x{213C}-\x{213F}\x{2145}-\x{2149}\x{214E}\x{2183}\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4}"
    r"\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3}\x{A640}-\x{A66D}\x{A680}-\x{A69B}\x{A722}-\x{A76F}\x{A771}-\x{A787}\x{A78B}-\x{A78E}"
    r"\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06}\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A}\x{10400}-\x{1044F}"
    r"\x{104B0}-\x{104D3}\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2}\x{118A0}-\x{118DF}\x{1E900}-\x{1E943}]+")
DEEPSEEK_PUNCTUATION = r"\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]+"
DEEPSEEK_EAST_ASIAN = r"[\x{4E00}-\x{9FA5}\x{800}-\x{4E00}\x{AC00}-\x{D7FF}]+"
DEEPSEEK_V3 = (r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*"""
               r"""|\s*[\r\n]+|\s+(?!\S)|\s+""")

WORDS = """the of and to in is that for it was on are as with his they at be this from have or by one had not but what all were when we there
can an your which their said if do will each about how up out them then she many some so these would other into has more her two like him see
time could no make than first been its who now people my made over did down only way find use may water long little very after words called
just where most know get through back much before go good new write our used me man too any day same right look think also around another came
come work three word must because does part even place well such here take why things help put years different away again off went old number
naïve café Ångström façade jalapeño smörgåsbord Zürich crème brûlée Straße ÆØÅ Привет мир как дела Ελλάδα مرحبا שלום हिन्दी ภาษาไทย""".split()
CODE = ["def fib(n):\n    if n < 2:\n        return n\n    return fib(n-1) + fib(n-2)\n", "for (int i = 0; i < 10; ++i) {\n\tprintf(\"%d\\n\", i);\n}\n",
        "SELECT * FROM t WHERE id=20315!!?\n", "x = {'a': 1, \"b\": [2, 3.14e-10]}\r\n", "#include <vector>\n\n\n/* x */\n", "<html><b>text</b></html>\n"]
CJK = ["你好，世界！", "界面上的文字", "日本語のテキストです。", "カタカナとひらがな", "한국어 문장입니다.", "中文，没有空格的句子。"]
EMOJI = ["😀", "🦑", "👍🏽", "👩‍👩‍👧", "🇩🇪", "❤️", "🎉🎉🎉"]
CONTROLS = ["\x00", "\x01", "\x07", "\x1b[31m", "\x7f", "\x85", "\u200b", "\u200d", "\u2028", "\ufeff", "\u00ad", "\u202e", "\ufffd"]
SPACES = [" ", "  ", "   ", "\t", "\n", "\n\n", "\r\n", "\u00a0", "\u3000", "\u2003", "\u1680", "\v", "\f"]
ODD = ["'s", "'LL", "I'm", "½", "²", "Ⅷ", "٣", "१२३", "ﬁ", "Å", "①", "㌀", "ａｂｃ", "ｶﾞ", "ß", "ſ", "İ", "ı", "Σ", "ς", "ǅ", "e\u0301", "a\u0308\u0323", "\u0301",
       "Å", "각", "▁", "▁▁", "Ġ", "Ċ", "…", "—", "“q”", "¿", "$", "+", "^", "`", "|", "~", "=", "<", ">", "_", "-", "\\", "/", "#", "@", "<|", "|>"]


def random_text(rng, tokens=()):
    """A text of one to 24 parts, each of another kind."""
    parts = []
    for _ in range(rng.randint(1, 24)):
        kind = rng.randrange(14)
        if kind < 4:
            parts.append(rng.choice(WORDS))
        elif kind < 7:
            parts.append(rng.choice(SPACES))
        elif kind == 7:
            parts.append(str(rng.randrange(10 ** rng.randint(1, 9))))
        elif kind == 8:
            parts.append(rng.choice(CJK))
        elif kind == 9:
            parts.append(rng.choice(EMOJI))
        elif kind == 10:
            parts.append(rng.choice(CONTROLS))
        elif kind == 11:
            parts.append(rng.choice(tokens) if tokens and rng.random() < 0.7 else rng.choice(CODE))
        elif kind == 12:
            parts.append(rng.choice(ODD))
        else:
            parts.append(rng.choice("aZ0 .\n界\u0301é-") * rng.randint(2, 30))
    text = "".join(parts)
    form = rng.randrange(6)
    return unicodedata.normalize("NFD", text) if form == 0 else unicodedata.normalize("NFC", text) if form == 1 else text


def corpus(rng):
    lines = [" ".join(rng.choice(WORDS) for _ in range(rng.randint(3, 12))) for _ in range(600)]
    lines += [rng.choice(CODE) for _ in range(120)] + [rng.choice(CJK) + rng.choice(EMOJI) for _ in range(200)]
    lines += [unicodedata.normalize("NFD", line) for line in lines[:120]] + [str(rng.randrange(10 ** 6)) for _ in range(100)]
    return lines


def byte_level_bpe(lines, pre, normalizer=None, size=420, **options):
    tokenizer = Tokenizer(models.BPE(**options))
    tokenizer.pre_tokenizer = pre
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=size, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                  special_tokens=["<|begin|>", "<|end|>"])
    tokenizer.train_from_iterator(lines, trainer)
    tokenizer.add_tokens([AddedToken("<tag>", normalized=False), AddedToken("Zürich", single_word=True, normalized=True)])
    tokenizer.add_special_tokens([AddedToken("<|turn|>", rstrip=True, special=True), AddedToken("<|left|>", lstrip=True, special=True)])
    return tokenizer


def split(pattern):
    return pre_tokenizers.Split(Regex(pattern), behavior="isolated")


def byte_level(use_regex=False):
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=use_regex)


def begin_template(tokenizer, text="<|begin|>"):
    tokenizer.post_processor = processors.TemplateProcessing(single=f"{text} $A", special_tokens=[(text, tokenizer.token_to_id(text))])
    return tokenizer


BYTE_TOKENS = [f"<0x{byte:02X}>" for byte in range(256)]


def sentencepiece_like_bpe(lines, normalizer, pre, decoder, byte_fallback, size=700, **options):
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=byte_fallback, **options))
    tokenizer.normalizer, tokenizer.pre_tokenizer, tokenizer.decoder = normalizer, pre, decoder
    special = ["<unk>", "<s>", "</s>"] + (BYTE_TOKENS if byte_fallback else [])
    trainer = trainers.BpeTrainer(vocab_size=size, show_progress=False, special_tokens=special, limit_alphabet=120)
    tokenizer.train_from_iterator(lines, trainer)
    data = json.loads(tokenizer.to_str())
    data["added_tokens"] = data["added_tokens"][:3]  # byte tokens are no added tokens in real files
    return begin_template(Tokenizer.from_str(json.dumps(data)), "<s>")


LLAMA_DECODER = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]


def llama2(lines):
    return sentencepiece_like_bpe(lines, normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]), None,
                                  decoders.Sequence(LLAMA_DECODER + [decoders.Strip(" ", 1, 0)]), True)


def gemma(lines):
    return sentencepiece_like_bpe(lines, normalizers.Replace(" ", "▁"), pre_tokenizers.Split(" ", "merged_with_previous"),
                                  decoders.Sequence(LLAMA_DECODER), True)


def mistral(lines):
    return sentencepiece_like_bpe(lines, None, pre_tokenizers.Metaspace(prepend_scheme="first", split=False),
                                  decoders.Sequence(LLAMA_DECODER + [decoders.Strip(" ", 1, 0)]), True)


def clip(lines):
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(r"""'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"""), "removed", invert=True), byte_level()])
    tokenizer.decoder = decoders.BPEDecoder("</w>")
    trainer = trainers.BpeTrainer(vocab_size=700, show_progress=False, end_of_word_suffix="</w>", special_tokens=["<unk>", "<s>", "</s>"],
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(lines, trainer)
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 1))
    return tokenizer


def bert_bpe(lines):
    tokenizer = Tokenizer(models.BPE(unk_token="[UNK]", continuing_subword_prefix="##"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.BpeTrainer(vocab_size=500, show_progress=False, continuing_subword_prefix="##", special_tokens=["[UNK]", "[CLS]", "[SEP]"],
                                  limit_alphabet=100)
    tokenizer.train_from_iterator(lines, trainer)
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 2), ("[CLS]", 1))
    return tokenizer


def train_sentencepiece(lines, kind, **options):
    sentencepiece.set_random_generator_seed(SEED)
    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=out, model_type=kind, minloglevel=2, hard_vocab_limit=False,
                                             num_threads=1, **options)
    return out.getvalue()


def model_proto(blob):
    from sentencepiece import sentencepiece_model_pb2
    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(blob)
    return proto


def unigram(lines, byte_fallback, normalizer, scheme="always"):
    """A tokenizer.json around the pieces that SentencePiece trained, as Hugging Face's converters make it."""
    blob = train_sentencepiece(lines, "unigram", vocab_size=800 if byte_fallback else 400, byte_fallback=byte_fallback, character_coverage=0.98)
    proto = model_proto(blob)
    tokenizer = Tokenizer(models.Unigram([(p.piece, p.score) for p in proto.pieces], unk_id=0, byte_fallback=byte_fallback))
    steps = normalizer(proto.normalizer_spec.precompiled_charsmap)
    tokenizer.normalizer = normalizers.Sequence(steps)
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme)
    metaspace = decoders.Metaspace(prepend_scheme=scheme)
    tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), metaspace]) if byte_fallback else metaspace
    tokenizer.add_special_tokens(["<unk>", "<s>", "</s>"])
    tokenizer.add_tokens([AddedToken("<extra>", normalized=False, lstrip=True)])
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 2)])
    return tokenizer


def t5_steps(charsmap):
    return [normalizers.Precompiled(charsmap), normalizers.Strip(left=False, right=True), normalizers.Replace(Regex(" {2,}"), "▁")]


def nfkc_steps(_charsmap):
    return [normalizers.Nmt(), normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")]


def albert_steps(_charsmap):
    return [normalizers.Replace("``", '"'), normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase()]


def tokenizers_models(lines):
    """All tokenizer.json, by name."""
    gpt2 = byte_level_bpe(lines, byte_level(True))
    gpt2.post_processor = processors.ByteLevel(trim_offsets=False)
    isolated, digits = split, pre_tokenizers.Digits(individual_digits=True)
    deepseek_llm = [isolated("[\r\n]"), isolated(DEEPSEEK_LETTERS), isolated(DEEPSEEK_PUNCTUATION), isolated(r"\s+$"), isolated(DEEPSEEK_EAST_ASIAN), digits]
    deepseek_coder = [isolated("[\r\n]"), isolated(r"\s?\p{L}+"), isolated(r"\s?\p{P}+"), isolated(DEEPSEEK_EAST_ASIAN), digits]
    deepseek_v3 = [isolated(r"\p{N}{1,3}"), isolated(r"[\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+"), isolated(DEEPSEEK_V3)]
    falcon = [pre_tokenizers.Punctuation(behavior="contiguous"), byte_level(True), pre_tokenizers.Digits(individual_digits=False), isolated("[0-9][0-9][0-9]")]
    sequence = pre_tokenizers.Sequence
    return {
        "gpt2": gpt2,
        "smollm": byte_level_bpe(lines, sequence([digits, byte_level(True)])),
        "llama3": begin_template(byte_level_bpe(lines, sequence([split(LLAMA3), byte_level()]), ignore_merges=True)),
        "qwen2": byte_level_bpe(lines, sequence([split(QWEN2), byte_level()]), normalizers.NFC()),
        "deepseek_llm": begin_template(byte_level_bpe(lines, sequence(deepseek_llm + [byte_level()]))),
        "deepseek_coder": byte_level_bpe(lines, sequence(deepseek_coder + [byte_level()])),
        "deepseek_v3": byte_level_bpe(lines, sequence(deepseek_v3 + [byte_level()])),
        "falcon": byte_level_bpe(lines, sequence(falcon)),
        "llama2": llama2(lines),
        "gemma": gemma(lines),
        "mistral": mistral(lines),
        "clip": clip(lines),
        "bert_bpe": bert_bpe(lines),
        "t5": unigram(lines, False, t5_steps),
        "albert": unigram(lines, False, albert_steps),
        "unigram_bytes": unigram(lines, True, nfkc_steps, "first"),
    }


# GGUF -------------------------------------------------------------------------------------------------------------------------------

TYPES = {1: gguf.TokenType.NORMAL, 2: gguf.TokenType.UNKNOWN, 3: gguf.TokenType.CONTROL, 4: gguf.TokenType.USER_DEFINED, 5: gguf.TokenType.UNUSED,
         6: gguf.TokenType.BYTE}


def write_sentencepiece_gguf(path, blob, model):
    proto = model_proto(blob)
    writer = gguf.GGUFWriter(path, "none")
    writer.add_tokenizer_model(model)
    writer.add_tokenizer_pre("default")
    writer.add_token_list([p.piece.encode() for p in proto.pieces])
    writer.add_token_scores([p.score for p in proto.pieces])
    writer.add_token_types([TYPES[p.type] for p in proto.pieces])
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_add_bos_token(model == "llama")
    writer.add_add_eos_token(model == "t5")
    writer.add_add_space_prefix(proto.normalizer_spec.add_dummy_prefix)
    writer.add_remove_extra_whitespaces(proto.normalizer_spec.remove_extra_whitespaces)
    if proto.normalizer_spec.precompiled_charsmap:
        writer.add_precompiled_charsmap(proto.normalizer_spec.precompiled_charsmap)
    finish(writer)


def write_bpe_gguf(path, tokenizer, pre):
    data = json.loads(tokenizer.to_str())
    vocab = data["model"]["vocab"]
    texts = [""] * tokenizer.get_vocab_size()
    types = [gguf.TokenType.NORMAL] * len(texts)
    for text, number in vocab.items():
        texts[number] = text
    for added in data["added_tokens"]:
        texts[added["id"]] = added["content"]
        types[added["id"]] = gguf.TokenType.CONTROL if added["special"] else gguf.TokenType.USER_DEFINED
    writer = gguf.GGUFWriter(path, "none")
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list([text.encode() for text in texts])
    writer.add_token_types(types)
    writer.add_token_merges([" ".join(pair) for pair in data["model"]["merges"]])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
    finish(writer)


def finish(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def sentencepiece_models(lines):
    """Serialised SentencePiece models with the GGUF kind that each becomes, by name."""
    plain = {"normalization_rule_name": "identity", "remove_extra_whitespaces": False}
    return {
        "spm_bpe": ("llama", train_sentencepiece(lines, "bpe", vocab_size=800, byte_fallback=True, character_coverage=0.98, **plain)),
        "spm_bpe_no_prefix": ("llama", train_sentencepiece(lines, "bpe", vocab_size=700, byte_fallback=True, character_coverage=0.98,
                                                           add_dummy_prefix=False, **plain)),
        "spm_unigram": ("t5", train_sentencepiece(lines, "unigram", vocab_size=400, character_coverage=0.98)),
        "spm_unigram_bytes": ("t5", train_sentencepiece(lines, "unigram", vocab_size=700, byte_fallback=True, character_coverage=0.98, **plain)),
    }


GGUF_PRE = {"gpt2": "gpt-2", "smollm": "smollm", "deepseek_llm": "deepseek-llm", "deepseek_coder": "deepseek-coder", "deepseek_v3": "deepseek-v3",
            "falcon": "falcon", "llama3": "llama-bpe", "qwen2": "qwen2"}


def plain_added(tokenizer):
    """The same tokenizer with what GGUF can say: of added tokens no stripping and no single words, and no normalizer."""
    data = json.loads(tokenizer.to_str())
    data["normalizer"] = None
    for added in data["added_tokens"]:
        added.update(lstrip=False, rstrip=False, single_word=False, normalized=False)
    return Tokenizer.from_str(json.dumps(data))


def spells_special(tokenizer, text):
    """Whether `tokenizers` finds a special token in plain text all the same: its Unigram knows all tokens by their text. We never do."""
    specials = [added.content for added in tokenizer.get_added_tokens_decoder().values() if added.special]
    return isinstance(tokenizer.model, models.Unigram) and any(content in text for content in specials)


def expected(tokenizer, text):
    tokenizer.encode_special_tokens = True
    plain = None if spells_special(tokenizer, text) else tokenizer.encode(text, add_special_tokens=False).ids
    tokenizer.encode_special_tokens = False
    parsed = tokenizer.encode(text, add_special_tokens=True).ids
    return {"text": text, "plain": plain, "parsed": parsed, "decoded": tokenizer.decode(parsed, skip_special_tokens=False)}


def main(folder):
    folder = pathlib.Path(folder)
    rng = random.Random(SEED)
    lines = corpus(rng)
    cases = {}
    for name, tokenizer in tokenizers_models(lines).items():
        (folder / f"{name}.json").write_text(tokenizer.to_str(pretty=False), encoding="utf-8")
        tokens = [added.content for added in tokenizer.get_added_tokens_decoder().values()]
        texts = [random_text(rng, tokens) for _ in range(25)]
        cases[f"{name}.json"] = [expected(tokenizer, text) for text in texts]
        if name in GGUF_PRE:
            same = plain_added(tokenizer)
            write_bpe_gguf(folder / f"{name}.gguf", same, GGUF_PRE[name])
            cases[f"{name}.gguf"] = [{"text": text, "plain": expected(same, text)["plain"]} for text in texts]
    for name, (kind, blob) in sentencepiece_models(lines).items():
        write_sentencepiece_gguf(folder / f"{name}.gguf", blob, kind)
        processor = sentencepiece.SentencePieceProcessor(model_proto=blob)
        texts = [text for text in (random_text(rng) for _ in range(40)) if "\x00" not in text][:25]
        cases[f"{name}.gguf"] = [{"text": text, "plain": processor.encode(text)} for text in texts]
    versions = {name: importlib.metadata.version(name) for name in ("tokenizers", "sentencepiece", "gguf")}
    with open(folder / "cases.json", "w", encoding="ascii") as out:
        json.dump({"seed": SEED, "versions": versions, "cases": cases}, out)
        out.write("\n")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else ".")
