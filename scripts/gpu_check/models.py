#!/usr/bin/env python3
"""Section models: whole models at the shapes of three, prefill of 512 tokens and 128 decoded after it, random weights: patchbay (fp16 and 4 bits), then
transformers with a static cache: as it is, its decoding step in a CUDA graph, and under torch.compile."""
import importlib.util
import json
import os
import pathlib
import shutil
import sys
import tempfile

import common
import random_gguf

MODELS = ["SmolLM2-135M", "Llama-3.2-1B", "Llama-3.1-8B"]
KEPT = ("prefill_tokens_per_s", "decode_tokens_per_s", "prompt", "generate", "load_s", "peak_rss_bytes", "paths", "commit")


def folder_with_room(needed):
    """Memory before disks: a file of 16 GB is then written and read in seconds."""
    for place in (os.environ.get("TMPDIR"), "/dev/shm", "/tmp"):
        if place and pathlib.Path(place).is_dir() and shutil.disk_usage(place).free > needed + (4 << 30):
            return place
    return tempfile.gettempdir()


def patchbay(section, name, style, prompt, generate, repeat):
    layers, width, feed_forward, heads, kv_heads, vocabulary, *_ = random_gguf.SHAPES[name]
    weights = layers * (2 * width * width + 2 * width * width * kv_heads // heads + 3 * width * feed_forward) + 2 * width * vocabulary
    with tempfile.TemporaryDirectory(dir=folder_with_room(weights * (2 if style == "fp16" else 0.7))) as folder:
        file = pathlib.Path(folder) / f"{name}.gguf"
        made = common.run([sys.executable, common.BUNDLE / "gpu_check/random_gguf.py", name, style, file], section.left())
        if made["status"] != 0:
            section.add({"program": "patchbay", "model": name, "weights": style, "refused": made})
            return
        asked = common.run([common.BUNDLE / "bin/patchbay", "bench", "--model", file, "--prompt", prompt, "--generate", generate, "--repeat", repeat, "--json",
                            f"device={section.given.backend}", "kv_store=contiguous", "kv_store.format=fp16"], section.left(), tail=200000)
    report = common.json_of(asked["output"])
    result = {"program": "patchbay", "model": name, "weights": style, "file_s": made["seconds"], "bench_s": asked["seconds"]}
    if report:
        result.update({key: report[key] for key in KEPT if key in report})
    else:
        result["refused"] = {key: asked[key] for key in ("command", "status", "seconds", "errors")}
    section.add(result)


def transformers(section, name, prompt, generate, compiled, seconds):
    """torch_model.py adds to its file as it goes, so that what was measured before a time-out counts."""
    path = section.path.with_name("torch_model.part")
    path.unlink(missing_ok=True)
    asked = common.run([sys.executable, common.BUNDLE / "gpu_check/torch_model.py", name, str(prompt), str(generate), section.given.backend, "compiled" if compiled else "plain",
                        path], seconds, tail=3000, TOKENIZERS_PARALLELISM="false")
    measured = json.loads(path.read_text()) if path.exists() else []
    path.unlink(missing_ok=True)
    for result in measured:
        section.add(result)
    if asked["status"] != 0:
        section.add({"program": "transformers", "model": name, "compiled": compiled, "refused": {key: asked[key] for key in ("status", "seconds", "errors")}})


def main():
    given = common.options(__doc__)
    section = common.Section("models", given)
    models, prompt, generate, repeat = (["tiny"], 8, 2, 1) if given.quick else (MODELS, 512, 128, 3)
    left_out = []
    for name in models:
        for style in ("fp16", "q4_k"):
            if section.left() < 10:
                left_out.append(f"patchbay, {name}, {style}")
                continue
            patchbay(section, name, style, prompt, generate, repeat)
    absent = [module for module in ("torch", "transformers") if importlib.util.find_spec(module) is None]
    if absent:
        section.report["transformers"] = f"skipped: {' and '.join(absent)} are not here"
    for compiled in () if absent else (False, True):
        for name in models:
            if section.left() < 10:
                left_out.append(f"transformers, {name}, {'compiled' if compiled else 'plain'}")
                continue
            transformers(section, name, prompt, generate, compiled, section.left() - 4)
    results = section.report["results"]
    refused = sum("refused" in result for result in results)
    section.end(left_out=len(left_out), left_out_cases=left_out, passed=len(results) - refused, failed=refused)


if __name__ == "__main__":
    main()
