#!/usr/bin/env python3
"""The bundle and gpu_check.sh, as far as a machine without a GPU can show them: made from this build, moved, run on the emulator; and what the script
says of a section that fails, one that is cut off, and a machine without a GPU. Called with the build folder."""
import json
import os
import pathlib
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
    check("launches" in str(found["ncu"]["results"][0]["emulator"]), "ncu: nothing of the emulator's stands there")
    check("whole model" in done.stdout and "matmul fp16" in done.stdout, "the table at the end lacks something")


def failures(bundle, scratch):
    """A copy in which one program fails and one never ends; the other sections' files are there all the same."""
    for name, text in (("gpu_tests", "#!/bin/sh\necho '1 [#kernels_test]'\necho 'a kernel is wrong'\nexit 1\n"), ("bench_gpu", "#!/bin/sh\nexec sleep 600\n")):
        (bundle / "bin" / name).unlink()
        (bundle / "bin" / name).write_text(text)
        (bundle / "bin" / name).chmod(0o755)
    script = (bundle / "gpu_check.sh").read_text()
    check("[machine]=15" in script and "[kernels]=90" in script, "gpu_check.sh: the sections' times stand elsewhere")
    (bundle / "gpu_check.sh").write_text(script.replace("[machine]=15", "[machine]=20").replace("[kernels]=90", "[kernels]=8"))
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
        without_gpu(scratch / "elsewhere", scratch)
        failures(scratch / "elsewhere", scratch)


if __name__ == "__main__":
    main()
