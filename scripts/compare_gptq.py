#!/usr/bin/env python3
"""Sets the time and the memory of patchbay's GPTQ beside those of another on the same machine, text and settings: GPTQModel where it is installed, else
scripts/bench_gptq_peer.py's GPTQ in plain torch. 4 bits, groups of 64, asymmetric, true_sequential, damping 0.01.

    pip install torch transformers        (and gptqmodel for --peer gptqmodel)
    ninja -C build/release patchbay plugins
    python scripts/compare_gptq.py --samples 128 --rounds 1

Runs take turns, so that both see the same machine. Prints a Markdown table: seconds of wall-clock time and the largest resident memory of each process, and theirs over ours.
Of the peer, seconds are those of quantising alone (imports and loading do not count); of patchbay they are the whole command's, with reading and writing the model.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODEL = pathlib.Path.home() / ".cache/patchbay/models/SmolLM2-135M-Instruct.Q4_1.gguf"


def timed(command, environment=None, folder=None):
    """Runs it: seconds, largest resident memory in MB, and what it printed."""
    begin = time.monotonic()
    with subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, text=True, env={**os.environ, **(environment or {})}, cwd=folder) as process:
        printed = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"compare_gptq.py: {command[0]}: exit status {process.returncode}")
    return time.monotonic() - begin, usage.ru_maxrss / 1000, printed


def ours(options, folder):
    command = [options.program, "quantize", "--model", options.model, "--out", folder / "ours", "--force", "--quiet", "--threads", options.threads,
               "quantizer.type=gptq", "format.type=int_grouped", "format.bits=4", "format.group_size=64", f"calibration.text={options.text}",
               f"calibration.samples={options.samples}", f"calibration.length={options.length}"]
    seconds, megabytes, _ = timed(command)
    return seconds, megabytes


def theirs(options, source):
    command = [sys.executable, ROOT / "scripts/bench_gptq_peer.py", source, "--text", pathlib.Path(options.text).resolve(), "--samples", options.samples, "--length", options.length,
               "--threads", options.threads, "--peer", options.peer]
    _, megabytes, printed = timed(command, {"OMP_NUM_THREADS": str(options.threads), "TRANSFORMERS_VERBOSITY": "error"}, source.parent)  # GPTQModel leaves a log where it runs
    report = json.loads(printed.splitlines()[-1])
    if report["samples"] != options.samples:
        sys.exit(f"compare_gptq.py: the text has only {report['samples']} samples of {options.length} tokens")
    return report["seconds"], megabytes


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=MODEL)
    parser.add_argument("--text", default=ROOT / "data/calibration.txt")
    parser.add_argument("--samples", type=int, default=128)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--peer", choices=["torch", "gptqmodel"], default="torch")
    parser.add_argument("--program", default=ROOT / "build/release/bin/patchbay")
    options = parser.parse_args()
    pairs = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        timed([options.program, "convert", options.model, folder / "source", "--type", "f32"])
        for _ in range(options.rounds):
            pairs.append((ours(options, folder), theirs(options, folder / "source")))
            print(f"# {pairs[-1]}", file=sys.stderr, flush=True)
    median = statistics.median
    print("| samples x tokens | rounds | peer | ours, s | peer, s | peer / ours | ours, MB | peer, MB | peer / ours |")
    print("| --- | ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    seconds, memory = [[pair[side][0] for pair in pairs] for side in (0, 1)], [[pair[side][1] for pair in pairs] for side in (0, 1)]
    print(f"| {options.samples} x {options.length} | {options.rounds} | {options.peer} | {median(seconds[0]):.1f} | {median(seconds[1]):.1f} | "
          f"{median(b / a for a, b in zip(*seconds)):.2f} | {median(memory[0]):.0f} | {median(memory[1]):.0f} | {median(b / a for a, b in zip(*memory)):.2f} |")


if __name__ == "__main__":
    main()
