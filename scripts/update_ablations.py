#!/usr/bin/env python3
"""Runs the experiments that docs/ablations/*.md speak of and writes their tables there, between `<!-- table NAME -->` and
`<!-- /table -->`, where NAME is that of configs/ablations/NAME.yaml.

  scripts/update_ablations.py                        all; runs that results/ablations/NAME already holds are kept
  scripts/update_ablations.py bits_by_group_tiny     only this one
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"(<!-- table ([a-z0-9_]+) -->\n).*?(<!-- /table -->)", re.DOTALL)


def output_of(program, *arguments):
    result = subprocess.run([program, *arguments], stdout=subprocess.PIPE, text=True, cwd=ROOT, check=False)
    if result.returncode != 0:
        sys.exit(f"update_ablations.py: {' '.join(map(str, arguments))}: exit status {result.returncode}")
    return result.stdout.strip()


def table_of(program, name):
    config, folder = f"configs/ablations/{name}.yaml", f"results/ablations/{name}"
    output_of(program, "run", config, "--out", folder, "--resume", "--quiet")
    made = json.loads(output_of(program, "report", folder, "--json"))["records"][0]["environment"]
    return (f"{output_of(program, 'report', folder, '--markdown')}\n\n"
            f"By `scripts/update_ablations.py {name}`, which is `patchbay run {config} --out {folder}`; {made['cpu']}, "
            f"{made['threads']} threads, commit {made['commit'][:12]}, {made['started'][:10]}.\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="of configs/ablations/NAME.yaml; none: all")
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "build/release/bin/patchbay")
    arguments = parser.parse_args()
    pages = {page: page.read_text(encoding="utf-8") for page in sorted((ROOT / "docs/ablations").glob("*.md"))}
    known = [match[2] for text in pages.values() for match in BLOCK.finditer(text)]
    if unknown := set(arguments.names) - set(known):
        sys.exit(f"update_ablations.py: {', '.join(sorted(unknown))}: no such table in docs/ablations; there are: {', '.join(known)}")

    def renewed(match):
        wanted = not arguments.names or match[2] in arguments.names
        return f"{match[1]}{table_of(arguments.program, match[2])}{match[3]}" if wanted else match[0]
    for page, text in pages.items():
        page.write_text(BLOCK.sub(renewed, text), encoding="utf-8")


if __name__ == "__main__":
    main()
