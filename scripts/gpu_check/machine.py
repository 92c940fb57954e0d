#!/usr/bin/env python3
"""Section machine: the GPU, its driver and clocks, the machine's software, and how fast a kernel copies in the GPU's memory."""
import json
import os
import platform
import shutil
import sys

import common

QUERY = "name,driver_version,memory.total,clocks.sm,clocks.mem,clocks.max.sm,clocks.max.mem,power.limit,temperature.gpu,ecc.mode.current,pstate"


def versions():
    found = {"python": platform.python_version(), "kernel": platform.release(), "libc": " ".join(platform.libc_ver()), "cpus": os.cpu_count()}
    for module in ("torch", "transformers", "triton"):
        asked = common.run([sys.executable, "-c", f"import {module}; print({module}.__version__)"], 20)
        found[module] = asked["output"].strip() if asked["status"] == 0 else None
    for tool in ("nvcc", "ncu", "compute-sanitizer"):
        found[tool] = shutil.which(tool)
    return found


def main():
    given = common.options(__doc__)
    section = common.Section("machine", given)
    asked = common.run(["nvidia-smi", f"--query-gpu={QUERY}", "--format=csv,noheader,nounits"], 10)
    if asked["status"] == 0:
        lines = [[value.strip() for value in line.split(",")] for line in asked["output"].strip().splitlines()]
        section.report["gpus"] = [dict(zip(QUERY.split(","), line)) for line in lines]
    else:
        section.report["gpus"] = []
        section.report["nvidia_smi"] = asked
    copied = section.path.with_name("copy.part")
    bench = common.run([common.BUNDLE / "bin/bench_gpu", "--backend", given.backend, "--only", "copy", "--out", copied]
                       + (["--quick"] if given.quick else []), section.left() / 2)
    if copied.exists():
        measured = json.loads(copied.read_text())
        copied.unlink()
        section.report.update({"device": measured["device"], "copy_gb_per_s": measured.get("copy_gb_per_s")})
    section.add(bench)
    section.report["software"] = versions()
    section.end(passed=int(bench["status"] == 0), failed=int(bench["status"] != 0))


if __name__ == "__main__":
    main()
