#!/usr/bin/env python3
"""The bundle and gpu_check.sh, as far as a machine without a GPU can show them: made from this build, moved, run on the emulator; and what the script
says of a section that fails, one that is cut off, and a machine without a GPU. Called with the build folder."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent
SECTIONS = ("machine", "tests", "sanitizer", "kernels", "torch_kernels", "models", "ncu", "summary")


def check(condition, text):
    if not condition:
        sys.exit(f"gpu_check_test: {text}")


def run(*command, **more):
    """With nothing of this shell but a way to programs: what the bundle needs is in it."""
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, env={"PATH": os.environ["PATH"], "HOME": more.pop("home", "/nonexistent"), **more})


def reports(folder):
    return {name: json.loads((folder / f"{name}.json").read_text()) for name in SECTIONS if (folder / f"{name}.json").exists()}


def dry_run(bundle, scratch):
    done = run(bundle / "gpu_check.sh", "--backend", "simt", "--quick", "--out", scratch / "dry", home=scratch)
    found = reports(scratch / "dry")
    check(done.returncode == 0, f"a dry run ended with {done.returncode}:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    check(set(found) == set(SECTIONS), f"only {sorted(found)} were written")
    check({path.name for path in (scratch / "dry").iterdir()} == {f"{name}.json" for name in SECTIONS}, "other files lie beside the JSON")
    check(found["tests"]["passed"] == 3 and found["tests"]["failed"] == 0, f"tests: {found['tests']}")
    timed = [result for result in found["kernels"]["results"] if "seconds" in result]
    kinds = {result["kind"] for result in timed}
    check(kinds == {"copy", "matmul", "attention", "operation"} and len(timed) > 80, f"kernels: {len(timed)} of {kinds}")
    check([result["weights"] for result in found["models"]["results"] if result["program"] == "patchbay"] == ["fp16", "q4_k"], "models: not both weights")
    kernels = found["kernels"]
    check(kernels["failed"] == 0 and kernels["ended"] and kernels["complete"] == (kernels["not_run_for_lack_of_time"] + kernels["left_out"] == 0), f"kernels: {kernels['run']}")
    check([result["step"] for result in found["ncu"]["results"]] == ["naive", "gemv"] and found["ncu"]["results"][1]["emulator"][0]["launches"] == 1, f"ncu: {found['ncu']}")
    rows = {name: report["state"] for name, report in found["summary"]["sections"].items()}
    check(rows["machine"] == rows["tests"] == "whole" and (rows["kernels"] == "whole") == kernels["complete"] and rows["ncu"].startswith("skipped"), f"states: {rows}")
    check("whole model" in done.stdout and "matmul fp16" in done.stdout, "the table at the end lacks something")


def alone(bundle, scratch):
    """A section that is chosen alone is all that counts: neither what was not asked for, nor what an earlier check left."""
    (scratch / "alone").mkdir()
    for name in ("machine", "kernels"):
        (scratch / "alone" / f"{name}.json").write_text(json.dumps({"section": name, "ended": True, "complete": True, "passed": 0, "failed": 7, "results": []}))
    done = run(bundle / "gpu_check.sh", "--backend", "simt", "--quick", "--out", scratch / "alone", "machine", home=scratch)
    found = reports(scratch / "alone")
    check(done.returncode == 0, f"machine alone ended with {done.returncode}:\n{done.stdout[-1500:]}{done.stderr[-1500:]}")
    check(list(found["summary"]["sections"]) == ["machine"] and found["machine"]["failed"] == 0, f"machine alone: {found['summary']}")
    done = run(sys.executable, bundle / "gpu_check/summary.py", scratch / "alone")
    check(done.returncode == 1 and "not all is well in: kernels" in done.stderr, "summary.py FOLDER does not count all that lies there")


def states(bundle, scratch):
    """What summary.py calls whole, in part, cut off."""
    folder = scratch / "states"
    folder.mkdir()
    ended = {"ended": True, "complete": True, "passed": 3, "failed": 0, "results": []}
    cases = {"machine": (ended, "whole"), "tests": ({**ended, "passed": 0}, "nothing ran"), "sanitizer": ({**ended, "complete": False, "not_run_for_lack_of_time": 2}, "in part, without 2 for lack of time"),
             "kernels": ({**ended, "complete": False, "not_run_for_lack_of_time": 1, "left_out": 4, "results": []}, "in part, without 1 for lack of time and 4 that would take long"),
             "torch_kernels": ({"ended": False, "results": []}, "cut off"), "models": ({**ended, "passed": 0, "skipped": "no"}, "skipped: no")}
    for name, (report, _) in cases.items():
        (folder / f"{name}.json").write_text(json.dumps(report))
    done = run(sys.executable, bundle / "gpu_check/summary.py", folder, *cases)
    rows = json.loads((folder / "summary.json").read_text())["sections"]
    check({name: row["state"] for name, row in rows.items()} == {name: wanted for name, (_, wanted) in cases.items()}, f"states: {rows}")
    check(done.returncode == 1 and "not all is well in: tests, torch_kernels" in done.stderr, f"states: {done.stderr}")


def limits(bundle):
    """All sections, each of them killed, and the rest: less than 8 minutes."""
    script = (bundle / "gpu_check.sh").read_text()
    seconds = [int(number) for number in re.findall(r"\[[a-z_]+\]=([0-9]+)", script)]
    grace = int(re.search(r"^grace=([0-9]+)$", script, re.M)[1])
    check(len(seconds) == 7 and sum(seconds) + grace * len(seconds) <= 470, f"the sections may take {sum(seconds)} s and {grace} s each to end")


NCU_CSV = """==PROF== Connected to process 4711 (/bundle/bin/bench_gpu)
==PROF== Profiling "add_fast" - 0: 0%....50%....100% - 8 passes
==PROF== Disconnected from process 4711
"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC","dram__bytes_read.sum","gpu__time_duration.sum","l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum","launch__registers_per_thread","sm__maximum_warps_per_active_cycle_pct"
"","","","","","","","","","","","byte","ns","sector","register/thread","%"
"0","4711","bench_gpu","127.0.0.1","{kernel}","1","7","({block})","({grid})","0","9.0","4,608","2,496","128","24","100"
"""  # the columns that `ncu --csv --page raw` writes before the metrics; no GPU measured the numbers


def ncu(bundle, scratch):
    """A stand-in for ncu prints its CSV: the file of the section is one that `patchbay profile --ncu` reads, and its figures stand beside the emulator's."""
    case = ["--op", "add", "--tokens", "4", "--cols", "256"]
    counted = json.loads(run(bundle / "bin/patchbay", "profile", "backends/simt", *case, "--json", home=scratch).stdout)["cases"][0]["kernels"][0]
    shapes = {key: ", ".join(str(number) for number in counted[key]) for key in ("grid", "block")}
    text = NCU_CSV.format(kernel="void patchbay::cuda::<unnamed>::" + counted["kernel"] + "(T1 *, const T1 *, Rows)", **shapes)
    code = ("import json, sys; sys.path.insert(0, sys.argv[1]); import ncu; launches = ncu.launches_of(sys.stdin.read()); "
            "json.dump({'section': 'ncu', 'kernels': launches, 'results': []}, open(sys.argv[2], 'w'))")
    done = subprocess.run([sys.executable, "-c", code, bundle / "gpu_check", scratch / "ncu.json"], input=text, capture_output=True, text=True)
    check(done.returncode == 0, f"ncu.py: {done.stderr}")
    done = run(bundle / "bin/patchbay", "profile", "backends/simt", *case, "--json", "--ncu", scratch / "ncu.json", home=scratch)
    check(done.returncode == 0, f"profile --ncu: {done.stderr}")
    beside = json.loads(done.stdout)["cases"][0]["kernels"][0].get("ncu", {})
    found = {name: row["ncu"] for name, row in beside.items()}
    check(found == {"dram__bytes_read.sum": 4608, "gpu__time_duration.sum": 2.496, "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": 128,
                    "launch__registers_per_thread": 24, "sm__maximum_warps_per_active_cycle_pct": 100}, f"profile --ncu: {beside}")
    shown = run(sys.executable, "-c", "import sys; sys.path.insert(0, sys.argv[1]); import ncu; print(*ncu.METRICS)", bundle / "gpu_check").stdout.split()
    known = set(re.findall(r'"([a-z0-9_]+__[a-z0-9_.]+)"', (SOURCE / "core/app/ncu_figures.cpp").read_text()))
    check(set(shown) == known, f"ncu.py counts {sorted(set(shown) ^ known)}, which `patchbay profile` does not show, or the other way round")
    bad = text.replace('"byte"', '"Kbyte"')
    done = subprocess.run([sys.executable, "-c", code, bundle / "gpu_check", scratch / "bad.json"], input=bad, capture_output=True, text=True)
    check("dram__bytes_read.sum in Kbyte" in done.stderr, "a unit that is not ncu's base unit")


def failures(bundle, scratch):
    """A copy in which one program fails and one never ends; the other sections' files are there all the same."""
    for name, text in (("gpu_tests", "#!/bin/sh\necho '1 [#kernels_test]'\necho 'a kernel is wrong'\nexit 1\n"), ("bench_gpu", "#!/bin/sh\nexec sleep 600\n")):
        (bundle / "bin" / name).unlink()
        (bundle / "bin" / name).write_text(text)
        (bundle / "bin" / name).chmod(0o755)
    script = (bundle / "gpu_check.sh").read_text()
    check("[machine]=15" in script and "[kernels]=85" in script, "gpu_check.sh: the sections' times stand elsewhere")
    (bundle / "gpu_check.sh").write_text(script.replace("[machine]=15", "[machine]=20").replace("[kernels]=85", "[kernels]=8"))
    done = run(bundle / "gpu_check.sh", "--backend", "simt", "--quick", "--out", scratch / "bad", "machine", "tests", "kernels", home=scratch)
    found = reports(scratch / "bad")
    check(done.returncode == 1, "failures end with status " + str(done.returncode))
    check(found["machine"]["results"][0]["status"] == "timed out" and found["machine"]["failed"] == 1, f"machine: {found['machine']}")
    wrong = [result for result in found["tests"]["results"] if not result["passed"]]
    check([result["test"] for result in wrong] == ["[#kernels_test]"] and "a kernel is wrong" in wrong[0]["output"], f"tests: {wrong}")
    check("failed: tests: [#kernels_test]" in done.stdout and "not all is well in: machine" in done.stderr, f"the table: {done.stdout[-1500:]}{done.stderr}")


def without_gpu(bundle, scratch):
    done = run(bundle / "gpu_check.sh", "--out", scratch / "none", "tests", home=scratch)
    check(done.returncode == 1, "without a GPU the tests end with status 0")
    check("no GPU is at hand" in (scratch / "none/tests.json").read_text() or "no code for GPUs" in (scratch / "none/tests.json").read_text(), "tests: the reason is missing")
    done = run(bundle / "gpu_check.sh", "nonsense")
    check(done.returncode == 2 and "'nonsense' is no section" in done.stderr, "an unknown section")


def main():
    with tempfile.TemporaryDirectory() as name:
        scratch = pathlib.Path(name)
        made = subprocess.run([sys.executable, SOURCE / "scripts/make_bundle.py", sys.argv[1], scratch / "made"], capture_output=True, text=True)
        check(made.returncode == 0, f"make_bundle.py: {made.stdout}{made.stderr}")
        print(made.stdout.strip())
        shutil.move(scratch / "made", scratch / "elsewhere")
        dry_run(scratch / "elsewhere", scratch)
        alone(scratch / "elsewhere", scratch)
        states(scratch / "elsewhere", scratch)
        limits(scratch / "elsewhere")
        ncu(scratch / "elsewhere", scratch)
        without_gpu(scratch / "elsewhere", scratch)
        failures(scratch / "elsewhere", scratch)


if __name__ == "__main__":
    main()
