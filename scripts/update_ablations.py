#!/usr/bin/env python3
"""Runs the experiments that docs/ablations/*.md speak of and writes their tables there, between `<!-- table NAME -->` and
`<!-- /table -->`, where NAME is that of configs/ablations/NAME.yaml. `<!-- table NAME --by-kind -->` gives `patchbay report` that option, and
`<!-- table NAME against RUN -->` is the table of `patchbay report --against RUN`; a page may have several tables of one experiment.

Like the results of plugins' READMEs (update_readmes.py), a table ends in a digest of its YAML and of itself, so that --check finds a changed
experiment or figure without running anything.
  scripts/update_ablations.py                        all; runs that results/ablations/NAME already holds are kept
  scripts/update_ablations.py bits_by_group_tiny     only this one
  scripts/update_ablations.py --check                change nothing; exit 1 when a table is stale or an experiment has none
"""
import argparse
import json
import pathlib
import re
import shlex
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from update_readmes import ROOT, digest_of  # noqa: E402

BLOCK = re.compile(r"(<!-- table ([a-z0-9_]+)((?: --[a-z-]+)*(?: against [^\n]+?)?) -->\n)(.*?)(<!-- /table -->)", re.DOTALL)


def pages() -> dict[pathlib.Path, str]:
    return {page: page.read_text(encoding="utf-8") for page in sorted((ROOT / "docs/ablations").glob("*.md"))}


def experiments() -> list[str]:
    return sorted(yaml.stem for yaml in (ROOT / "configs/ablations").glob("*.yaml"))


def options_of(words: str) -> list[str]:
    """What a marker's words after the name ask of `patchbay report`: " against a, b" is --against "a, b"."""
    flags, _, run = words.partition(" against ")
    return flags.split() + (["--against", run] if run else [])


def output_of(program: pathlib.Path, *arguments) -> str:
    result = subprocess.run([program, *arguments], stdout=subprocess.PIPE, text=True, cwd=ROOT, check=False)
    if result.returncode != 0:
        sys.exit(f"update_ablations.py: {' '.join(map(str, arguments))}: exit status {result.returncode}")
    return result.stdout.strip()


def digest_line(name: str, body: str) -> str:
    return f"<!-- made by scripts/update_ablations.py from {name}.yaml: {digest_of(ROOT / f'configs/ablations/{name}.yaml', body)} -->"


def is_generated(name: str, table: str) -> bool:
    """Whether the table is as it was made, from the experiment as it is."""
    body, _, last = table.strip("\n").rpartition("\n")
    return last == digest_line(name, body)


def table_of(program: pathlib.Path, name: str, options: list[str]) -> str:
    config, folder = f"configs/ablations/{name}.yaml", f"results/ablations/{name}"
    print(f"{name}: running {config}", flush=True)
    output_of(program, "run", config, "--out", folder, "--resume", "--quiet")
    report = json.loads(output_of(program, "report", folder, "--json"))
    made = report["records"][0]["environment"]
    then = f", then `patchbay report {folder} {shlex.join(options)}`" if options else ""
    body = (f"{report['sources'][0]['note']}\n\n{output_of(program, 'report', folder, '--markdown', *options)}\n\n"
            f"By `scripts/update_ablations.py {name}`, which is `patchbay run {config} --out {folder}`{then}; {made['cpu']}, "
            f"{made['threads']} threads, commit {made['commit'][:12]}, {made['started'][:10]}.")
    return f"{body}\n{digest_line(name, body)}\n"


def faults() -> list[str]:
    blocks = [(page, block) for page, text in pages().items() for block in BLOCK.finditer(text)]
    found = [f"configs/ablations/{name}.yaml: no page of docs/ablations has its table"
             for name in experiments() if name not in {block[2] for _, block in blocks}]
    for page, block in blocks:
        if block[2] not in experiments():
            found.append(f"docs/ablations/{page.name}: there is no configs/ablations/{block[2]}.yaml")
        elif not is_generated(block[2], block[4]):
            found.append(f"docs/ablations/{page.name}: the table is not that of {block[2]}.yaml: run scripts/update_ablations.py {block[2]}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="of configs/ablations/NAME.yaml; none: all")
    parser.add_argument("--check", action="store_true", help="only say what is stale")
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "build/release/bin/patchbay")
    arguments = parser.parse_args()
    if arguments.check:
        print("\n".join(faults()), end="\n" if faults() else "")
        return 1 if faults() else 0
    known = sorted({block[2] for text in pages().values() for block in BLOCK.finditer(text)})
    if unknown := set(arguments.names) - set(known):
        sys.exit(f"update_ablations.py: {', '.join(sorted(unknown))}: no such table in docs/ablations; there are: {', '.join(known)}")

    def renewed(block: re.Match) -> str:
        wanted = not arguments.names or block[2] in arguments.names
        return f"{block[1]}{table_of(arguments.program, block[2], options_of(block[3]))}{block[5]}" if wanted else block[0]
    for page, text in pages().items():
        page.write_text(BLOCK.sub(renewed, text), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
