#!/usr/bin/env python3
"""How long a browser takes to open the report of many runs: time_report_page.py FOLDER [--runs 500].

The runs of FOLDER are repeated under other names, with figures that differ, until there are so many. A page is opened by headless Chromium
until it is painted, five times in turn with an empty one; the difference of the medians is the page's own time.
"""
import argparse
import json
import os
import pathlib
import random
import statistics
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent


def many(records: list[dict], runs: int) -> list[dict]:
    drawn = random.Random(0)
    result = []
    for i in range(runs):
        record = json.loads(json.dumps(records[i % len(records)]))
        if i >= len(records):
            record.update(run=f"{record['run']}, again={i}", hash=f"{i:016x}", baseline=False)
            record["labels"]["again"] = i
            factor = drawn.uniform(0.8, 1.25)
            for name, value in record["metrics"].items():
                if isinstance(value, float):
                    record["metrics"][name] = value * factor
                elif isinstance(value, list):
                    record["metrics"][name] = [v * factor for v in value]
        result.append(record)
    return result


def seconds_to_paint(page: pathlib.Path, work: pathlib.Path) -> float:
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
    started = time.monotonic()
    subprocess.run(["chromium", "--headless=new", *sandbox, "--disable-gpu", f"--user-data-dir={work / 'profile'}", "--window-size=1400,1000",
                    f"--screenshot={work / 'page.png'}", page.as_uri()], check=True, stderr=subprocess.DEVNULL)
    return time.monotonic() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "build/release/bin/patchbay")
    arguments = parser.parse_args()
    records = [json.loads(line) for line in (arguments.folder / "records.jsonl").open()]
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        (work / "many").mkdir()
        (work / "many/records.jsonl").write_text("".join(json.dumps(record) + "\n" for record in many(records, arguments.runs)))
        page, empty = work / "page.html", work / "empty.html"
        empty.write_text("<!DOCTYPE html><title>empty</title>")
        started = time.monotonic()
        subprocess.run([arguments.program, "report", work / "many", "--html", page], check=True, stdout=subprocess.DEVNULL)
        print(f"{arguments.runs} runs: {page.stat().st_size / 1e6:.2f} MB, written in {time.monotonic() - started:.1f} s")
        seconds_to_paint(empty, work)  # the profile is made
        times = {page: [], empty: []}
        for _ in range(5):
            for each in times:
                times[each].append(seconds_to_paint(each, work))
        whole, bare = (statistics.median(times[each]) for each in (page, empty))
        print(f"opened in {whole:.2f} s with the browser's start, {whole - bare:.2f} s without (medians of 5)")


if __name__ == "__main__":
    main()
