#!/usr/bin/env python3
"""Section torch_kernels: the shapes of bench_gpu in PyTorch (products by cuBLAS, attention by scaled_dot_product_attention), timed in the same way:
n runs on memory of their own, recorded as a CUDA graph, replayed, by events; the median of the samples."""
import statistics
import sys
import time

import common

try:
    import torch
except ImportError:
    torch = None

# name, width, heads, key/value heads, head size, feed-forward width: as in tests/bench/gpu_cases.cpp
MODELS = [("SmolLM2-135M", 576, 9, 3, 64, 1536), ("Llama-3.2-1B", 2048, 32, 8, 64, 8192), ("Llama-3.1-8B", 4096, 32, 8, 128, 14336)]
QUICK = [("quick", 256, 4, 2, 64, 256)]
ROTATE_BYTES, MOST_SETS = 192 << 20, 64


class Clock:
    def __init__(self, device):
        self.device = device

    def seconds(self, work):
        if self.device == "cpu":
            began = time.perf_counter()
            work()
            return time.perf_counter() - began
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        work()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / 1e3

    def measure(self, run, sets, quick):
        run(0)
        first = self.seconds(lambda: run(min(1, sets - 1)))
        runs = 1 if quick else max(1, min(int(2e-3 / max(first, 1e-7)), max(64, 2 * sets)))

        def all_runs():
            for i in range(runs):
                run(i % sets)

        replay, timed = all_runs, "launches"
        if self.device == "cuda":
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                all_runs()
            replay, timed = graph.replay, "graph"
        replay()
        samples = [self.seconds(replay) / runs for _ in range(1 if quick else 9)]
        return {"seconds": statistics.median(samples), "least_seconds": min(samples), "most_seconds": max(samples), "samples": len(samples),
                "runs_per_sample": runs, "sets": sets, "timed": timed}


def sets_for(size, quick):
    return 1 if quick else max(1, min(MOST_SETS, -(-ROTATE_BYTES // size)))


class Bench:
    def __init__(self, section, device):
        self.section, self.device, self.clock, self.quick = section, device, Clock(device), section.given.quick
        self.left_out = 0

    def rand(self, *shape, dtype):
        return torch.randn(shape, device=self.device, dtype=torch.float32 if self.device == "cpu" else dtype).to(dtype)

    def add(self, what, size, flops, sets, run):
        if self.section.left() < 3:
            self.left_out += 1
            return
        try:
            result = {**what, **self.clock.measure(run, sets, self.quick)}
        except Exception as error:  # a shape that the library refuses ends no section
            self.section.add({**what, "refused": str(error)[:500]})
            return
        result["gb_per_s"] = 1e-9 * size / result["seconds"]
        if flops:
            result["tflops"] = 1e-12 * flops / result["seconds"]
        self.section.add(result)

    def products(self, model, dtype, name, token_counts):
        _, width, _, _, _, feed_forward = model
        for rows, cols in dict.fromkeys([(feed_forward, width), (width, feed_forward)]):
            sets = sets_for(2 * rows * cols, self.quick)
            weights = [self.rand(rows, cols, dtype=dtype) for _ in range(sets)]
            for tokens in token_counts:
                x, y = self.rand(tokens, cols, dtype=dtype), torch.empty(tokens, rows, device=self.device, dtype=dtype)
                self.add({"kind": "matmul", "name": name, "kernel": "torch.matmul", "model": model[0], "tokens": tokens, "rows": rows, "cols": cols},
                         2 * (rows * cols + tokens * (rows + cols)), 2 * tokens * rows * cols, sets, lambda i: torch.matmul(x, weights[i].T, out=y))

    def attention(self, model, sequences, context, rows):
        name, _, heads, kv_heads, size, _ = model
        slots = context + rows
        cached = 2 * 2 * sequences * slots * kv_heads * size
        sets = sets_for(cached, self.quick)
        q = self.rand(sequences, heads, rows, size, dtype=torch.float16)
        k, v = ([self.rand(sequences, kv_heads, slots, size, dtype=torch.float16) for _ in range(sets)] for _ in range(2))

        def run(i):
            return torch.nn.functional.scaled_dot_product_attention(q, k[i], v[i], is_causal=rows > 1, enable_gqa=True)

        seen = sequences * rows * (context + (rows + 1) / 2)
        self.add({"kind": "attention", "name": "torch", "kernel": "scaled_dot_product_attention", "model": name, "sequences": sequences, "context": context,
                  "tokens": rows, "heads": heads, "kv_heads": kv_heads, "head_size": size, "kv_format": "fp16"},
                 cached + 2 * 2 * sequences * rows * heads * size, 4 * seen * heads * size, sets, run)

    def operations(self, model, tokens):
        name, width = model[:2]
        size = 2 * tokens * width
        sets = sets_for(3 * size, self.quick)
        x, y = ([self.rand(tokens, width, dtype=torch.float16) for _ in range(sets)] for _ in range(2))
        weight = self.rand(width, dtype=torch.float16)
        functions = {"rms_norm": (2, lambda i: torch.nn.functional.rms_norm(x[i], (width,), weight, 1e-5)),
                     "layer_norm": (2, lambda i: torch.nn.functional.layer_norm(x[i], (width,), weight, weight, 1e-5)),
                     "gated": (3, lambda i: torch.nn.functional.silu(x[i]) * y[i]), "add": (3, lambda i: x[i].add_(y[i]))}
        for operation, (operands, run) in functions.items():
            self.add({"kind": "operation", "name": operation, "kernel": "torch", "model": name, "tokens": tokens, "cols": width}, operands * size, 0, sets, run)

    def square(self):
        n = 8192
        a, b, out = (self.rand(n, n, dtype=torch.float16) for _ in range(3))
        self.add({"kind": "matmul", "name": "fp16", "kernel": "torch.matmul", "model": "square", "tokens": n, "rows": n, "cols": n}, 6 * n * n, 2 * n ** 3, 1,
                 lambda i: torch.matmul(a, b.T, out=out))


def main():
    given = common.options(__doc__)
    section = common.Section("torch_kernels", given)
    if torch is None or given.backend == "cuda" and not torch.cuda.is_available():
        section.end(passed=0, failed=0, skipped="PyTorch is not here" if torch is None else "PyTorch sees no GPU")
        return
    section.report["torch"] = torch.__version__
    bench = Bench(section, "cuda" if given.backend == "cuda" else "cpu")
    tokens, contexts = ([1, 16], [40]) if given.quick else ([1, 16, 512, 2048], [512, 8192])
    if not given.quick:
        bench.square()
    with torch.inference_mode():
        for model in QUICK if given.quick else MODELS:
            for dtype, name in ((torch.float16, "fp16"), (torch.bfloat16, "bf16")):
                bench.products(model, dtype, name, tokens)
            bench.attention(model, 1, 0, tokens[-1])
            for context in contexts:
                for sequences in (1, 16):
                    bench.attention(model, sequences, context, 1)
            for count in tokens:
                bench.operations(model, count)
    section.end(left_out=bench.left_out, passed=sum("seconds" in result for result in section.report["results"]), failed=0)


if __name__ == "__main__":
    sys.exit(main())
