#!/usr/bin/env python3
"""The table at the end, from the JSON of the sections named (of none: of all that are there): what ran, what it found, and the fractions that a reader
looks for first. Also as summary.json."""
import json
import sys
import pathlib

SECTIONS = ("machine", "tests", "sanitizer", "kernels", "torch_kernels", "models", "ncu")


def read(folder, name):
    path = folder / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else None


def state(report):
    if report is None:
        return "nothing written"
    if "skipped" in report:
        return "skipped: " + report["skipped"]
    if not report.get("ended"):
        return "cut off"
    if not report.get("passed") and not report.get("failed"):
        return "nothing ran"
    if report.get("complete"):
        return "whole"
    left_out = [f"{report[name]} {text}" for name, text in (("not_run_for_lack_of_time", "for lack of time"), ("left_out", "that would take long")) if report.get(name)]
    return "in part, without " + " and ".join(left_out)


def key(result):
    return tuple(result.get(name) for name in ("kind", "model", "tokens", "rows", "cols", "sequences", "context"))


def kernel_lines(kernels, torch):
    """Each shape's fastest kernel of ours by format, and PyTorch's time for the same shape."""
    theirs = {}
    for result in (torch or {}).get("results", []):
        if "seconds" in result and (result["kind"] != "matmul" or result["name"] == "fp16"):
            same = key(result) + ((result["name"],) if result["kind"] == "operation" else ())
            theirs[same] = result["seconds"]
    best = {}
    for result in kernels["results"]:
        if "seconds" not in result or result.get("kernel") == "cublas" or result["kind"] == "copy" or result.get("kv_format", "fp16") != "fp16":
            continue
        name = (result["kind"], "attention" if result["kind"] == "attention" else result["name"]) + key(result)[1:]
        if name not in best or result["seconds"] < best[name]["seconds"]:
            best[name] = result
    for result in best.values():
        same = key(result) + ((result["name"],) if result["kind"] == "operation" else ())
        yield {"what": " ".join(str(result[word]) for word in ("kind", "name", "kernel")), "model": result.get("model"),
               "shape": "x".join(str(result[word]) for word in ("tokens", "rows", "cols", "sequences", "context") if word in result),
               "microseconds": round(1e6 * result["seconds"], 2), "of_copy": result.get("of_copy"), "of_cublas_peak": result.get("of_cublas_peak"),
               "torch_over_ours": theirs[same] / result["seconds"] if same in theirs else None}


def percent(value):
    return "" if value is None else f"{100 * value:.0f}%"


def main():
    folder = pathlib.Path(sys.argv[1])
    found = {name: read(folder, name) for name in sys.argv[2:] or SECTIONS}
    reports = found if sys.argv[2:] else {name: report for name, report in found.items() if report}
    summary = {"section": "summary", "sections": {}, "kernels": []}
    print(f"\n{'section':<14} {'passed':>7} {'failed':>7} {'seconds':>8}  state")
    for name, report in reports.items():
        row = {"passed": (report or {}).get("passed"), "failed": (report or {}).get("failed"), "seconds": (report or {}).get("seconds"), "state": state(report)}
        summary["sections"][name] = row
        shown = ["-" if row[word] is None else f"{row[word]:.0f}" for word in ("passed", "failed", "seconds")]
        print(f"{name:<14} {shown[0]:>7} {shown[1]:>7} {shown[2]:>8}  {row['state']}")
    for name in ("tests", "sanitizer"):
        for result in (reports.get(name) or {}).get("results", []):
            if not result["passed"]:
                print(f"  failed: {name}: {' '.join(filter(None, [result.get('tool'), result.get('test')]))} ({result.get('status', 'a distance')})")
    if reports.get("kernels"):
        device = reports["kernels"].get("device", {}).get("name", "?")
        print(f"\n{device}: copies at {reports['kernels'].get('copy_gb_per_s', 0):.0f} GB/s, cuBLAS at {reports['kernels'].get('cublas_tflops') or 0:.0f} TFLOP/s (8192 x 8192 x 8192)")
        print(f"{'fastest kernel':<44} {'model':<13} {'shape':<18} {'us':>10} {'of copy':>8} {'of peak':>8} {'torch/ours':>10}")
        summary["kernels"] = list(kernel_lines(reports["kernels"], reports.get("torch_kernels")))
        for line in summary["kernels"]:
            if line["model"] in ("Llama-3.1-8B", "quick"):
                ratio = "" if line["torch_over_ours"] is None else f"{line['torch_over_ours']:.2f}"
                print(f"{line['what']:<44} {line['model']:<13} {line['shape']:<18} {line['microseconds']:>10.1f} {percent(line['of_copy']):>8} "
                      f"{percent(line['of_cublas_peak']):>8} {ratio:>10}")
    if reports.get("models"):
        print(f"\n{'whole model':<52} {'prefill tokens/s':>17} {'decode tokens/s':>16}")
        for result in reports["models"]["results"]:
            def speed(name):
                value = result.get(name)
                return "-" if value is None else f"{value['median'] if isinstance(value, dict) else value:.0f}"
            print(f"{result['model'] + ', ' + result['program'] + ', ' + result.get('how', result.get('weights', '')):<52} {speed('prefill_tokens_per_s'):>17} "
                  f"{speed('decode_tokens_per_s'):>16}")
    (folder / "summary.json").write_text(json.dumps(summary, indent=1) + "\n")
    bad = [name for name, row in summary["sections"].items() if row["failed"] or row["state"] in ("nothing written", "cut off", "nothing ran")]
    if bad:
        sys.exit("gpu_check: not all is well in: " + ", ".join(bad))


if __name__ == "__main__":
    main()
