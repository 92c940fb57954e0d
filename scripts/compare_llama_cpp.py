#!/usr/bin/env python3
"""Sets patchbay beside llama.cpp on one model: speed, memory, time to load and, if asked, perplexity.

    python scripts/compare_llama_cpp.py MODEL.gguf [--rounds 5] [--threads 1 2] [--out FOLDER] [--text FILE]

Needs a Python with llama-cpp-python, and a built patchbay. Speed depends on what else a machine does, so the two take turns
(ours, theirs, ours, ...), each turn in a fresh process; a turn's figure is the median of its repeats, the table's the median
of the turns. Both evaluate the same number of tokens: a prompt in one call, then one token at a time (patchbay's decode includes the
choice of the next token).
Writes comparison.json and comparison.md into FOLDER, and the table to the terminal.
"""
import argparse
import json
import math
import os
import platform
import resource
import statistics
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
METRICS = ("prefill_tokens_per_s", "decode_tokens_per_s", "load_s", "peak_rss_bytes")


class LlamaCpp:
    """The few calls of llama.cpp's C interface that a measurement needs."""

    def __init__(self, model_path, context, threads):
        import llama_cpp

        self.api = llama_cpp
        llama_cpp.llama_backend_init()
        self.log = llama_cpp.llama_log_callback(lambda level, text, data: None)  # kept: the library calls it later
        llama_cpp.llama_log_set(self.log, None)
        self.model = llama_cpp.llama_model_load_from_file(model_path.encode(), llama_cpp.llama_model_default_params())
        if not self.model:
            raise SystemExit(f"llama.cpp cannot load {model_path}")
        params = llama_cpp.llama_context_default_params()
        params.n_ctx = params.n_batch = params.n_ubatch = context
        params.n_threads = params.n_threads_batch = threads
        self.context = llama_cpp.llama_init_from_model(self.model, params)
        self.vocab = llama_cpp.llama_model_get_vocab(self.model)
        self.vocab_size = llama_cpp.llama_vocab_n_tokens(self.vocab)

    def evaluate(self, tokens):
        array = (self.api.llama_token * len(tokens))(*tokens)
        if self.api.llama_decode(self.context, self.api.llama_batch_get_one(array, len(tokens))) != 0:
            raise SystemExit("llama.cpp: llama_decode failed")
        self.api.llama_synchronize(self.context)

    def forget(self):
        self.api.llama_memory_clear(self.api.llama_get_memory(self.context), True)

    def tokenize(self, text):
        data = text.encode()
        array = (self.api.llama_token * (len(data) + 2))()
        count = self.api.llama_tokenize(self.vocab, data, len(data), array, len(array), True, False)
        return list(array[:count])

    def logits(self, tokens):
        """Logits of all tokens, as a numpy array (tokens, vocabulary)."""
        import numpy

        batch = self.api.llama_batch_init(len(tokens), 0, 1)
        batch.n_tokens = len(tokens)
        for i, token in enumerate(tokens):
            batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.logits[i] = token, i, 1, 1
            batch.seq_id[i][0] = 0
        if self.api.llama_decode(self.context, batch) != 0:
            raise SystemExit("llama.cpp: llama_decode failed")
        rows = self.api.llama_get_logits(self.context)
        result = numpy.ctypeslib.as_array(rows, shape=(len(tokens), self.vocab_size)).copy()
        self.api.llama_batch_free(batch)
        return result


def peak_rss_bytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def llama_speed(args):
    """One turn of llama.cpp, in this process."""
    import llama_cpp  # noqa: F401 (so that its import counts neither as loading nor as the model's memory)

    before = peak_rss_bytes()
    start = time.perf_counter()
    llama = LlamaCpp(args.model, args.prompt + args.generate, args.threads[0])
    load_s = time.perf_counter() - start
    prompt = [100 + (i * 7919) % (llama.vocab_size - 200) for i in range(args.prompt)]
    llama.evaluate(prompt[:1])  # pages in the weights, as patchbay's preparation of them does
    prefill, decode = [], []
    for _ in range(args.repeat):
        llama.forget()
        start = time.perf_counter()
        llama.evaluate(prompt)
        middle = time.perf_counter()
        for i in range(args.generate):
            llama.evaluate([prompt[i % len(prompt)]])
        prefill.append(args.prompt / (middle - start))
        decode.append(args.generate / (time.perf_counter() - middle))
    return {"prefill_tokens_per_s": statistics.median(prefill), "decode_tokens_per_s": statistics.median(decode),
            "load_s": load_s, "peak_rss_bytes": peak_rss_bytes(), "rss_before_loading_bytes": before}


def llama_perplexity(args):
    """llama.cpp's own protocol: windows side by side, BOS first, the second half of each scored."""
    import numpy

    llama = LlamaCpp(args.model, args.window, args.threads[0])
    with open(args.text, encoding="utf-8") as file:
        tokens = llama.tokenize(file.read())
    losses = []
    for chunk in range(min(args.chunks, len(tokens) // args.window)):
        window = tokens[chunk * args.window:(chunk + 1) * args.window]
        if llama.api.llama_vocab_get_add_bos(llama.vocab):
            window = [llama.api.llama_vocab_bos(llama.vocab)] + window[1:]
        llama.forget()
        logits = llama.logits(window).astype(numpy.float64)
        first = args.window // 2
        rows = logits[first:args.window - 1]
        top = rows.max(axis=1)
        log_sum = top + numpy.log(numpy.exp(rows - top[:, None]).sum(axis=1))
        losses.extend(log_sum - rows[numpy.arange(len(rows)), window[first + 1:]])
    return {"perplexity": math.exp(statistics.fmean(losses)), "tokens": len(losses)}


def run_json(command):
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        raise SystemExit(f"failed: {' '.join(command)}\n{result.stderr.strip()}")
    return json.loads(result.stdout)


def turn_ours(args, threads):
    found = run_json([args.patchbay, "bench", "--model", args.model, "--prompt", str(args.prompt), "--generate",
                      str(args.generate), "--threads", str(threads), "--repeat", str(args.repeat), "--json"] + args.settings)
    return {name: found[name]["median"] if isinstance(found[name], dict) else found[name] for name in METRICS}


def child(args, task, threads):
    return run_json([sys.executable, os.path.abspath(__file__), args.model, "--child", task, "--threads", str(threads),
                     "--prompt", str(args.prompt), "--generate", str(args.generate), "--repeat", str(args.repeat),
                     "--text", args.text or "", "--window", str(args.window), "--chunks", str(args.chunks)])


def measure(args):
    results = []
    for threads in args.threads:
        ours, theirs = [], []
        for number in range(args.rounds):
            print(f"{threads} threads, round {number + 1} of {args.rounds}", file=sys.stderr)
            ours.append(turn_ours(args, threads))
            theirs.append(child(args, "speed", threads))
        results.append({"threads": threads, "patchbay": ours, "llama.cpp": theirs})
    return results


def measure_perplexity(args):
    threads = max(args.threads)
    ours = run_json([args.patchbay, "perplexity", "--model", args.model, "--text", args.text, "--protocol", "llama.cpp", "--window",
                     str(args.window), "--chunks", str(args.chunks), "--threads", str(threads), "--json"] + args.settings)
    return {"patchbay": ours, "llama.cpp": child(args, "perplexity", threads), "window": args.window, "chunks": args.chunks}


def median(turns, name):
    return statistics.median(turn[name] for turn in turns)


def shown(name, value):
    if name.endswith("bytes"):
        return f"{value / 2**20:,.0f} MiB"
    return f"{value:,.2f} s" if name == "load_s" else f"{value:,.0f}"


def markdown(record):
    lines = [f"Model `{record['model']}`, prefill of {record['prompt']} and decode of {record['generate']} tokens, "
             f"{record['rounds']} interleaved rounds, medians (lowest to highest); llama-cpp-python {record['llama_cpp_python']}, "
             f"{record['processor']}.", "",
             "| threads | | patchbay | llama.cpp | ratio |", "| --- | --- | --- | --- | --- |"]
    for result in record["results"]:
        for name in METRICS:
            cells = []
            for side in ("patchbay", "llama.cpp"):
                values = [turn[name] for turn in result[side]]
                cells.append(f"{shown(name, statistics.median(values))} ({shown(name, min(values))} to {shown(name, max(values))})")
            ratio = median(result["patchbay"], name) / median(result["llama.cpp"], name)
            lines.append(f"| {result['threads']} | {name} | {cells[0]} | {cells[1]} | {ratio:.2f} |")
    before = median(record["results"][0]["llama.cpp"], "rss_before_loading_bytes")
    lines += ["", f"llama.cpp runs inside Python, which takes {before / 2**20:.0f} MiB of its peak before the model is loaded."]
    if "perplexity" in record:
        found = record["perplexity"]
        lines += ["", f"Perplexity, protocol llama.cpp, window {found['window']}, {found['chunks']} windows: patchbay "
                  f"{found['patchbay']['perplexity']:.4f}, llama.cpp {found['llama.cpp']['perplexity']:.4f}."]
    return "\n".join(lines) + "\n"


def processor_name():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        names = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    return f"{len(names)} x {names[0]}" if names else platform.processor()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="a GGUF file")
    parser.add_argument("settings", nargs="*", help="settings for patchbay, key=value")
    parser.add_argument("--patchbay", default=os.path.join(ROOT, "build", "release", "bin", "patchbay"))
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--repeat", type=int, default=3, help="repeats within a turn")
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--generate", type=int, default=128)
    parser.add_argument("--text", help="a text file: measure perplexity too")
    parser.add_argument("--window", type=int, default=512)
    parser.add_argument("--chunks", type=int, default=20)
    parser.add_argument("--out", default="results/compare_llama_cpp", help="folder")
    parser.add_argument("--child", choices=("speed", "perplexity"), help=argparse.SUPPRESS)
    args = parser.parse_intermixed_args()
    if args.child:
        print(json.dumps(llama_speed(args) if args.child == "speed" else llama_perplexity(args)))
        return
    try:
        from importlib.metadata import version

        version_text = version("llama-cpp-python")
    except ImportError:
        raise SystemExit("this Python has no llama-cpp-python: run with one that has (pip install llama-cpp-python)")
    record = {"model": os.path.basename(args.model), "prompt": args.prompt, "generate": args.generate, "rounds": args.rounds,
              "settings": args.settings, "llama_cpp_python": version_text, "processor": processor_name(), "results": measure(args)}
    if args.text:
        record["perplexity"] = measure_perplexity(args)
    os.makedirs(args.out, exist_ok=True)
    table = markdown(record)
    for name, text in (("comparison.json", json.dumps(record, indent=1) + "\n"), ("comparison.md", table)):
        with open(os.path.join(args.out, name), "w", encoding="utf-8") as file:
            file.write(text)
    print(table)


if __name__ == "__main__":
    main()
