#!/usr/bin/env python3
"""Sets patchbay's quantisers of GGUF's block formats beside ggml's, on the same weights.

    pip install gguf numpy llama-cpp-python
    ninja -C build/release quantize_matrix plugins
    python scripts/compare_quantize.py [--model F16.gguf] [--text FILE] [--program build/release/bin/quantize_matrix]

Weights: normal, heavy-tailed (Student's t with 3 degrees of freedom), and every matrix in the blocks of the model (which must be F16 with rows that 256
divides). Prints, as a Markdown table, ours over theirs: the relative RMSE without and with an importance matrix (one drawn at random), whether quantizer rtn
writes the same bytes as they do without one, and the KL divergence on the text of the model with its blocks' matrices quantised, each paired over the
tokens (evaluated by llama.cpp on the decoded weights, so that nothing but the weights differs).
"""
import argparse
import pathlib
import subprocess
import tempfile

import gguf
import llama_cpp
import numpy

import ggml_quantize

ROOT = pathlib.Path(__file__).resolve().parent.parent
REFERENCE_TYPES = ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"]  # ggml's rule for these is to cover the range, as rtn does
WINDOW, WINDOWS = 512, 8


class Ours:
    def __init__(self, program, folder):
        self.program, self.folder = program, pathlib.Path(folder)

    def quantize(self, weights, pairs, importance=None):
        """For each (type, quantizer): its packed bytes, the decoded weights, and nanoseconds of processor time per weight."""
        weights.astype("<f4").tofile(self.folder / "w")
        if importance is not None:
            importance.astype("<f4").tofile(self.folder / "i")
        words = [word for kind, quantizer in pairs for word in (kind.lower(), quantizer)]
        run = subprocess.run([self.program, *map(str, weights.shape), self.folder / "w", "-" if importance is None else self.folder / "i", self.folder / "out", *words],
                             check=True, capture_output=True, text=True)
        seconds = {tuple(line.split()[:2]): float(line.split()[2]) for line in run.stdout.splitlines()}
        results = {}
        for kind, quantizer in pairs:
            name = f"out.{kind.lower()}.{quantizer}"
            decoded = numpy.fromfile(self.folder / (name + ".f32"), "<f4").reshape(weights.shape)
            results[kind, quantizer] = numpy.fromfile(self.folder / name, numpy.uint8), decoded, seconds[kind.lower(), quantizer]
        return results


def block_matrices(reader):
    return [tensor for tensor in reader.tensors if tensor.name.startswith("blk.") and len(tensor.shape) == 2]


def stacked(tensors):
    """All matrices of as many columns as one: a quantiser of blocks sees no difference."""
    by_columns = {}
    for tensor in tensors:
        by_columns.setdefault(tensor.data.shape[1], []).append(tensor.data.astype(numpy.float32))
    return [numpy.concatenate(part) for part in by_columns.values()]


def pooled_ratio(pairs, importances):
    """The relative RMSE of `ours` over that of `theirs`, over all (weights, ours, theirs)."""
    def error(index):
        return sum((((part[0].astype(numpy.float64) - part[index]) ** 2) * importance).sum() for part, importance in zip(pairs, importances))
    return numpy.sqrt(error(1) / error(2))


def copy_with(reader, path, change):
    """The model with its blocks' matrices changed, everything as fp32."""
    writer = gguf.GGUFWriter(str(path), reader.fields["general.architecture"].contents())
    for field in reader.fields.values():
        if not field.name.startswith("GGUF.") and field.name != "general.architecture":
            kind = field.types[0]
            writer.add_key_value(field.name, field.contents(), kind, sub_type=field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None)
    changed = {tensor.name for tensor in block_matrices(reader)}
    for tensor in reader.tensors:
        values = tensor.data.astype(numpy.float32)
        writer.add_tensor(tensor.name, numpy.ascontiguousarray(change(values) if tensor.name in changed else values))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def log_probabilities(path, text):
    """Of every token after the first in each window: (positions, vocabulary)."""
    model = llama_cpp.llama_model_load_from_file(str(path).encode(), llama_cpp.llama_model_default_params())
    params = llama_cpp.llama_context_default_params()
    params.n_ctx = params.n_batch = params.n_ubatch = WINDOW
    context = llama_cpp.llama_init_from_model(model, params)
    vocabulary = llama_cpp.llama_model_get_vocab(model)
    tokens = (llama_cpp.llama_token * (len(text) + 2))()
    count = llama_cpp.llama_tokenize(vocabulary, text, len(text), tokens, len(tokens), False, False)
    rows = []
    for first in range(0, min(count // WINDOW, WINDOWS) * WINDOW, WINDOW):
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(context), True)
        batch = llama_cpp.llama_batch_init(WINDOW, 0, 1)
        batch.n_tokens = WINDOW
        for i in range(WINDOW):
            batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.logits[i] = tokens[first + i], i, 1, 1
            batch.seq_id[i][0] = 0
        if llama_cpp.llama_decode(context, batch) != 0:
            raise SystemExit("llama.cpp: llama_decode failed")
        size = llama_cpp.llama_vocab_n_tokens(vocabulary)
        logits = numpy.ctypeslib.as_array(llama_cpp.llama_get_logits(context), (WINDOW, size)).astype(numpy.float64)
        logits = logits - logits.max(axis=1, keepdims=True)
        rows.append((logits - numpy.log(numpy.exp(logits).sum(axis=1, keepdims=True)))[:-1])
        llama_cpp.llama_batch_free(batch)
    llama_cpp.llama_free(context)
    llama_cpp.llama_model_free(model)
    return numpy.concatenate(rows)


def kl_per_token(reference, other):
    return (numpy.exp(reference) * (reference - other)).sum(axis=1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", 1)[0])
    parser.add_argument("--model", default=ROOT / "data/tiny-shakespeare/tiny-shakespeare-f16.gguf")
    parser.add_argument("--text", type=pathlib.Path, default=ROOT / "data/tiny-shakespeare/evaluation.txt")
    parser.add_argument("--program", default=ROOT / "build/release/bin/quantize_matrix")
    options = parser.parse_args()
    llama_cpp.llama_backend_init()
    silent = llama_cpp.llama_log_callback(lambda level, text, data: None)
    llama_cpp.llama_log_set(silent, None)
    rng = numpy.random.default_rng(0)
    reader = gguf.GGUFReader(str(options.model))
    sets = {"normal": [rng.normal(0, 0.05, (256, 1024)).astype(numpy.float32)],
            "heavy tails": [(rng.standard_t(3, (256, 1024)) * 0.03).astype(numpy.float32)], "model": stacked(block_matrices(reader))}
    importances = {name: [(rng.chisquare(1, w.shape[1]) * rng.lognormal(0, 1, w.shape[1])).astype(numpy.float32) for w in matrices] for name, matrices in sets.items()}
    text = options.text.read_bytes()
    search = [(kind, "scale_search") for kind in ggml_quantize.TYPES]
    with tempfile.TemporaryDirectory() as folder:
        ours = Ours(options.program, folder)
        results = {name: [ours.quantize(w, search + [(kind, "rtn") for kind in REFERENCE_TYPES]) for w in matrices] for name, matrices in sets.items()}
        weighted = {name: [ours.quantize(w, search, i) for w, i in zip(matrices, importances[name])] for name, matrices in sets.items()}
        copy_with(reader, pathlib.Path(folder) / "model.gguf", lambda w: w)
        reference = log_probabilities(pathlib.Path(folder) / "model.gguf", text)
        names = list(sets)
        print("| type | " + " | ".join(names) + " | " + " | ".join(name + ", weighted" for name in names) + " | rtn's bytes | KL, theirs | KL, ours | ours less theirs | ns/weight |")
        print("| --- |" + " ---: |" * (2 * len(names)) + " --- |" + " ---: |" * 4)
        for kind in ggml_quantize.TYPES:
            def theirs(w, importance=None):
                return ggml_quantize.decode(ggml_quantize.quantize(w, kind, importance), kind)
            cells = []
            for table, given in ((results, None), (weighted, importances)):
                for name in names:
                    weights = given[name] if given else [None] * len(sets[name])
                    parts = [(w, result[kind, "scale_search"][1], theirs(w, i)) for w, result, i in zip(sets[name], table[name], weights)]
                    cells.append(f"{pooled_ratio(parts, [1.0 if i is None else i for i in weights]):.3f}")
            if kind in REFERENCE_TYPES:
                equal = all((result[kind, "rtn"][0] == ggml_quantize.quantize(w, kind).ravel()).all() for name in names for w, result in zip(sets[name], results[name]))
                cells.append("equal" if equal else "**differ**")
            else:
                cells.append("-")
            divergences = []
            for change in (theirs, lambda w: ours.quantize(w, [(kind, "scale_search")])[kind, "scale_search"][1]):
                copy_with(reader, pathlib.Path(folder) / "model.gguf", change)
                divergences.append(kl_per_token(reference, log_probabilities(pathlib.Path(folder) / "model.gguf", text)))
            less = divergences[1] - divergences[0]
            half = 1.96 * less.std() / numpy.sqrt(len(less))
            cells += [f"{1e3 * d.mean():.3f}" for d in divergences] + [f"{1e3 * less.mean():+.3f} ±{1e3 * half:.3f}", f"{results['model'][0][kind, 'scale_search'][2]:.0f}"]
            print(f"| {kind} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
