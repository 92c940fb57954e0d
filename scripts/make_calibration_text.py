#!/usr/bin/env python3
"""Writes the second half of data/calibration.txt: documents and sources of patchbay itself, as they were at one commit.

    python scripts/make_calibration_text.py [--check]

The first half, up to the line below, is written by hand and stays as it is. --check changes nothing: it says whether the file is what this script makes, and
exits with 77 where git does not have the commit.
"""
import argparse
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TEXT = ROOT / "data/calibration.txt"
COMMIT = "025bb39b1a3c97df0649b977ee02f50df217d631"
LINE = "\n*\n\nWhat follows are documents and sources of patchbay.\n"
FILES = """docs/architecture.md docs/writing_a_plugin.md docs/emulator.md docs/tokenizers.md docs/chat.md docs/decisions/001-interfaces.md
docs/decisions/002-determinism-by-construction.md docs/decisions/004-rope-and-length.md docs/decisions/006-devices.md CONTRIBUTING.md
plugins/attention/flash/README.md plugins/kv_stores/paged/README.md plugins/formats/q4_k/README.md plugins/drafters/lookup/README.md
plugins/quantizers/rtn/README.md plugins/quantizers/rtn/rtn.cpp plugins/formats/q4_0/q4_0.cpp plugins/drafters/lookup/lookup.cpp
plugins/attention/naive/naive.cpp plugins/kv_stores/contiguous/contiguous.cpp core/src/sampling.cpp core/src/utf8.cpp
core/include/patchbay/tensor.h core/include/patchbay/decoder.h scripts/train_tiny_model.py scripts/export_tiny_model.py configs/quickstart.yaml
""".split()


def at_commit(path):
    shown = subprocess.run(["git", "-C", ROOT, "show", f"{COMMIT}:{path}"], capture_output=True)
    return shown.stdout.decode() if shown.returncode == 0 else None


def without_tables(text):
    """What is generated in a plugin's README would be repeated in every one."""
    return re.sub(r"<!-- (parameters|results) -->.*?<!-- /\1 -->\n?", "", text, flags=re.DOTALL)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", 1)[0])
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    parts = [at_commit(path) for path in FILES]
    if None in parts:
        print(f"git does not have {FILES[parts.index(None)]} of commit {COMMIT}", file=sys.stderr)
        return 77
    before = TEXT.read_text()
    text = before.split(LINE)[0] + LINE + "".join(f"\n*\n\n{path}\n\n{without_tables(part).strip()}\n" for path, part in zip(FILES, parts))
    if options.check:
        print("as it is made" if text == before else "differs from what this script makes")
        return 0 if text == before else 1
    TEXT.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
