#!/usr/bin/env python3
"""Writes each plugin's parameter table into its README, between `<!-- parameters -->` and `<!-- /parameters -->`.

The tables come from `patchbay describe kind/name --markdown`, so they say what the code says.
  scripts/update_readmes.py            write
  scripts/update_readmes.py --check    change nothing; exit 1 when a table is stale or its markers are missing
"""
import argparse
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BEGIN, END = "<!-- parameters -->", "<!-- /parameters -->"


def table_of(program: pathlib.Path, plugin: str) -> str:
    result = subprocess.run([program, "describe", plugin, "--markdown"], capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"update_readmes.py: {plugin}: {result.stderr.strip()}")
    return result.stdout.strip()


def with_table(text: str, table: str) -> str | None:
    """The text with its table replaced, or None when it does not hold each marker once, in order."""
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        return None
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n{table}\n{END}{rest.split(END)[1]}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="only say which are stale")
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "build/release/bin/patchbay")
    arguments = parser.parse_args()
    if not arguments.program.exists():
        sys.exit(f"update_readmes.py: {arguments.program} is not built: cmake --build build/release")
    faults = 0
    for readme in sorted(ROOT.glob("plugins/*/*/README.md")):
        plugin = f"{readme.parent.parent.name}/{readme.parent.name}"
        old = readme.read_text(encoding="utf-8")
        new = with_table(old, table_of(arguments.program, plugin))
        if new is None:
            print(f"{plugin}/README.md: needs one line {BEGIN} and, below it, one line {END}")
            faults += 1
        elif new != old and arguments.check:
            print(f"{plugin}/README.md: parameter table is stale: run scripts/update_readmes.py")
            faults += 1
        elif new != old:
            readme.write_text(new, encoding="utf-8")
            print(f"{plugin}/README.md: written")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
