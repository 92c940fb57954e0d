#!/usr/bin/env python3
"""Writes the generated parts of each plugin's README: the parameter table between `<!-- parameters -->` and `<!-- /parameters -->`, and the
results of the plugin's own experiment between `<!-- results -->` and `<!-- /results -->`.

Parameters come from `patchbay describe kind/name --markdown`, so they say what the code says. Results come from records: --run makes
them in results/plugins/KIND/NAME (what is there already is kept) and writes the table, with the machine and the commit. A line below it holds
a digest of the experiment's YAML and of the text, so that --check finds a changed experiment, a changed figure or results that were never made without running
anything.
  scripts/update_readmes.py                  write the parameter tables
  scripts/update_readmes.py --run            and run every plugin's experiment, one after the other (20 minutes on two quiet cores)
  scripts/update_readmes.py --run formats/q4_0 attention/flash      only these
  scripts/update_readmes.py --check          change nothing; exit 1 when a part is stale or its markers are missing
"""
import argparse
import hashlib
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
NOT_MEASURED = "Not measured yet: it needs a GPU."
SHOWN_LETTERS = 160  # of a generated text


def output_of(program: pathlib.Path, plugin: str, *arguments) -> str:
    result = subprocess.run([program, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT)
    if result.returncode != 0:
        sys.exit(f"update_readmes.py: {plugin}: {result.stderr.strip()}")
    return result.stdout.strip()


def between(text: str, part: str) -> tuple[str, str, str] | None:
    """What stands before, within and after the part's markers; None when the text does not hold each once, in order."""
    begin, end = f"<!-- {part} -->", f"<!-- /{part} -->"
    if text.count(begin) != 1 or text.count(end) != 1 or text.index(begin) > text.index(end):
        return None
    before, rest = text.split(begin)
    within, after = rest.split(end)
    return before + begin + "\n", within.strip("\n"), end + after


def yaml_of(plugin: str) -> pathlib.Path:
    return ROOT / "plugins" / plugin / f"{plugin.split('/')[1]}.yaml"


def digest_of(yaml: pathlib.Path, body: str) -> str:
    """Of an experiment and of what was written about its results."""
    return hashlib.sha256(yaml.read_bytes() + b"\0" + body.encode()).hexdigest()[:16]


def digest_line(plugin: str, body: str) -> str:
    return f"<!-- made by scripts/update_readmes.py --run from {yaml_of(plugin).name}: {digest_of(yaml_of(plugin), body)} -->"


def is_generated(plugin: str, results: str) -> bool:
    """Whether the results are as they were made, from the experiment as it is."""
    body, _, last = results.rpartition("\n")
    return last == digest_line(plugin, body.rstrip("\n"))


def waits_for_gpu(plugin: str, results: str) -> bool:
    """Whether an experiment has no results because no machine that ran it had what it runs on."""
    return results.strip() == NOT_MEASURED and "device: cuda" in yaml_of(plugin).read_text(encoding="utf-8")


def opening(text: str) -> str:
    """The beginning of a generated text, as Markdown shows it on one line."""
    line = " ".join(text.split())
    line = line if len(line) <= SHOWN_LETTERS else line[:SHOWN_LETTERS].rsplit(" ", 1)[0] + " ..."
    return re.sub(r"([\\|*`])", r"\\\1", line.replace("<", "&lt;").replace(">", "&gt;"))


def texts_table(records: list[dict]) -> str:
    """How the first prompt goes on in each run, where the runs differ in that."""
    texts = [record["outputs"][0]["text"] for record in records if record.get("outputs")]
    if len(set(texts)) < 2:
        return ""
    rows = [f"| {opening(record['run'])} | {opening(text)} |" for record, text in zip(records, texts)]
    return f"How the prompt `{records[0]['outputs'][0]['name']}` goes on:\n\n| run | text |\n| --- | --- |\n" + "\n".join(rows) + "\n\n"


def results_of(program: pathlib.Path, plugin: str) -> str:
    yaml = yaml_of(plugin).relative_to(ROOT)
    folder = f"results/plugins/{plugin}"
    print(f"{plugin}: running {yaml}", flush=True)
    output_of(program, plugin, "run", yaml, "--out", folder, "--resume", "--quiet")
    report = json.loads(output_of(program, plugin, "report", folder, "--json"))
    records = report["records"]
    table = output_of(program, plugin, "report", folder, "--markdown")
    cells, _, legend = table.partition("\n\n")
    # A sampler's records have no figure that a table could show: their texts are the result.
    has_figures = cells.split("\n")[0].count("|") - 1 > max(1, len(records[0]["labels"]))
    figures = f"{cells}\n\n{legend}\n\n" if has_figures else ""
    made = records[0]["environment"]
    body = (f"## Results\n\n{report['sources'][0]['note']}\n\n{figures}{texts_table(records)}"
            f"By `patchbay run {yaml}` on {records[0]['model']}; {made['cpu']}, {made['threads']} threads, commit {made['commit']}, {made['started'][:10]}.")
    return body + "\n" + digest_line(plugin, body)


def update(readme: pathlib.Path, arguments) -> list[str]:
    """Writes the parts that changed, or with --check only names them. What is wrong, in words."""
    plugin = f"{readme.parent.parent.name}/{readme.parent.name}"
    text = readme.read_text(encoding="utf-8")
    if not between(text, "parameters") or not between(text, "results"):
        return [f"{plugin}/README.md: needs each of <!-- parameters -->, <!-- /parameters -->, <!-- results --> and <!-- /results --> once, in this order"]
    faults, new = [], text
    before, old, after = between(new, "parameters")
    table = output_of(arguments.program, plugin, "describe", plugin, "--markdown")
    if old != table and arguments.check:
        faults.append(f"{plugin}/README.md: parameter table is stale: run scripts/update_readmes.py")
    new = f"{before}{table}\n{after}"
    before, old, after = between(new, "results")
    if arguments.run:
        new = f"{before}{results_of(arguments.program, plugin)}\n{after}"
    elif arguments.check and not is_generated(plugin, old) and not waits_for_gpu(plugin, old):
        faults.append(f"{plugin}/README.md: results are not those of {plugin.split('/')[1]}.yaml: run scripts/update_readmes.py --run {plugin}")
    if new != text and not arguments.check:
        readme.write_text(new, encoding="utf-8")
        print(f"{plugin}/README.md: written", flush=True)
    return faults


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plugins", nargs="*", metavar="KIND/NAME", help="only these; else all")
    parser.add_argument("--check", action="store_true", help="only say what is stale")
    parser.add_argument("--run", action="store_true", help="run the experiments and write their results")
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "build/release/bin/patchbay")
    arguments = parser.parse_args()
    if not arguments.program.exists():
        sys.exit(f"update_readmes.py: {arguments.program} is not built: cmake --build build/release")
    if arguments.check and arguments.run:
        sys.exit("update_readmes.py: --check changes nothing, --run does: give one of them")
    readmes = {f"{p.parent.parent.name}/{p.parent.name}": p for p in sorted(ROOT.glob("plugins/*/*/README.md"))}
    if unknown := [plugin for plugin in arguments.plugins if plugin not in readmes]:
        sys.exit(f"update_readmes.py: {', '.join(unknown)}: no such plugin; KIND/NAME as in plugins/")
    faults = [fault for plugin in arguments.plugins or readmes for fault in update(readmes[plugin], arguments)]
    print("\n".join(faults), end="\n" if faults else "")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
