#!/usr/bin/env python3
"""Writes the tables of counters in docs/kernels.md: between `<!-- counters NAME -->` and `<!-- /counters NAME -->`, from `patchbay profile`.

Counters follow from the kernels' code and are the same on every machine, so --check can compare them: it changes nothing and exits with 1 when a table is
not what the kernels do now.
  scripts/update_kernel_counters.py [--program build/release/bin/patchbay] [--check]
"""
import argparse
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TEXT = ROOT / "docs" / "kernels.md"
sys.path.insert(0, str(ROOT / "scripts" / "gpu_check"))
from kernel_ladders import LADDERS  # noqa: E402


def profile(program: pathlib.Path, arguments: str) -> list[dict]:
    result = subprocess.run([program, "profile", *arguments.split(), "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT)
    if result.returncode != 0:
        sys.exit(f"update_kernel_counters.py: profile {arguments}: {result.stderr.strip()}")
    return json.loads(result.stdout)["cases"][0]["kernels"]


def row(step: str, kernels: list[dict]) -> str:
    def total(*path):
        values = kernels
        for key in path:
            values = [value.get(key, 0) for value in values]
        return sum(values)

    def per(a: float, b: float, form: str) -> str:
        return form.format(a / b) if b else "-"

    sectors = total("global", "sectors")
    instructions = sum(sum(k["instructions"].values()) for k in kernels)
    blocks = ", then ".join(str(k["grid"][0] * k["grid"][1] * k["grid"][2]) for k in kernels)
    cells = [
        f"`{step}`", blocks, f"{instructions:,}", f"{total('instructions', 'mma'):,}", f"{32 * sectors / 1e3:,.0f}", per(sectors, total("global", "requests"), "{:.1f}"),
        per(100 * total("global", "unique_bytes"), 32 * sectors, "{:.0f}%"), f"{total('shared', 'wavefronts'):,}",
        per(total("shared", "wavefronts"), total("shared", "least_wavefronts"), "{:.2f}x")]
    return "| " + " | ".join(cells) + " |"


def table(program: pathlib.Path, steps: list[tuple[str, str]]) -> str:
    lines = ["| step | blocks | instructions | of them `mma` | KB of sectors | sectors/request | used | shared wavefronts | bank conflicts |", "| --- |" + " ---: |" * 8]
    lines += [row(step, profile(program, arguments)) for step, arguments in steps]
    commands = "\n".join(f"patchbay profile {arguments}" for _, arguments in steps)
    return "\n".join(lines) + f"\n\n```\n{commands}\n```"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "build" / "release" / "bin" / "patchbay")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    text = TEXT.read_text()
    for name, steps in LADDERS.items():
        begin, end = f"<!-- counters {name} -->\n", f"<!-- /counters {name} -->"
        if text.count(begin) != 1 or text.count(end) != 1:
            sys.exit(f"update_kernel_counters.py: {TEXT.name} has no place for the counters '{name}' ({begin.strip()} ... {end})")
        before, rest = text.split(begin)
        _, after = rest.split(end)
        text = before + begin + table(options.program.resolve(), steps) + "\n" + end + after
    if text == TEXT.read_text():
        return 0
    if options.check:
        print("update_kernel_counters.py: docs/kernels.md is not what the kernels do: run scripts/update_kernel_counters.py", file=sys.stderr)
        return 1
    TEXT.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
