#!/usr/bin/env python3
"""Section ncu: what Nsight Compute counts of the kernels of docs/kernels.md, beside what the emulator counts of the same launches. ncu.json is itself a file
for `patchbay profile --ncu` (its key "kernels": docs/profiling.md), which sets one beside the other here too."""
import csv
import io
import re
import shutil

import common
from kernel_ladders import LADDERS, ONCE

# Those that `patchbay profile` shows: the table of docs/profiling.md.
METRICS = ("l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum", "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum", "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",
           "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum", "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum", "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum",
           "sm__inst_executed_pipe_tensor.sum", "smsp__sass_branch_targets_threads_divergent.sum", "smsp__inst_executed.sum", "dram__bytes_read.sum",
           "dram__bytes_write.sum", "sm__maximum_warps_per_active_cycle_pct", "sm__warps_active.avg.pct_of_peak_sustained_active", "launch__registers_per_thread",
           "gpu__time_duration.sum")
BASE_UNITS = ("", "byte", "nsecond", "ns", "sector", "inst", "%", "register/thread", "request", "threads")


def launches_of(text):
    """From `ncu --csv --page raw --print-units base`: one object per launch, in the form of `patchbay profile --ncu`."""
    lines = text.splitlines()
    begin = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), len(lines))  # the profiled program's own output may come before
    rows = list(csv.DictReader(io.StringIO("\n".join(line for line in lines[begin:] if not line.startswith("==")))))
    if not rows:
        return []
    units, launches = rows[0], []
    scaled = [f"{name} in {units[name]}" for name in METRICS if units.get(name, "") not in BASE_UNITS]
    if scaled:
        raise ValueError("ncu ignored --print-units base: " + ", ".join(scaled))
    for row in rows[1:]:
        numbers = {name: row[name].replace(",", "") for name in METRICS if row.get(name)}
        launches.append({"kernel": row["Kernel Name"], "grid": shape_of(row["Grid Size"]), "block": shape_of(row["Block Size"]),
                         "metrics": {name: float(value) for name, value in numbers.items() if re.fullmatch(r"-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?", value)}})
    return launches


def shape_of(text):
    """ "(8, 1, 1)" """
    return [int(number) for number in re.findall(r"[0-9]+", text)]


def count(section, ncu, ladder):
    """Every step of the ladder once under ncu; its launches go into the file. Returns what went wrong, or None."""
    shape, only = ONCE[ladder]
    bench = [common.BUNDLE / "bin/bench_gpu", "--backend", section.given.backend, "--once", shape, "--only", only, "--out", section.given.out / "case.part"]
    counting = [ncu, "--clock-control", "none", "--csv", "--page", "raw", "--print-units", "base", "--metrics", ",".join(METRICS)] if ncu else []
    asked = common.run(counting + bench, min(30, section.left()), tail=2000000)
    section.given.out.joinpath("case.part").unlink(missing_ok=True)
    wrong = {key: asked[key] for key in ("command", "status", "seconds")} | {"output": (asked["output"] + asked["errors"])[-1500:]}
    if not ncu:
        return wrong if asked["status"] != 0 else None
    try:
        launches = launches_of(asked["output"])
    except (ValueError, KeyError) as error:
        return wrong | {"why": str(error)}
    section.report["kernels"] += launches
    section.write()
    return None if launches else wrong


def emulate(section, ladder, step, arguments):
    """The step on the emulator, with ncu's figures beside where there are any."""
    beside = ["--ncu", section.path] if section.report["kernels"] else []
    asked = common.run([common.BUNDLE / "bin/patchbay", "profile", *arguments.split(), "--json", *beside], min(20, section.left()), tail=4000000)
    report = common.json_of(asked["output"])
    result = {"ladder": ladder, "step": step, "profile": arguments}
    if not report:
        return section.add(result | {"refused": {key: asked[key] for key in ("status", "errors")}})
    kernels = report["cases"][0]["kernels"]
    for kernel in kernels:  # the lines of the source are for `patchbay profile`
        kernel.pop("lines"), kernel.pop("divergent_lines")
    result["emulator"] = kernels
    absent = [kernel["kernel"] for kernel in kernels if beside and "ncu" not in kernel]
    return section.add(result | ({"refused": "ncu counted no launch of " + ", ".join(absent)} if absent else {}))


def main():
    given = common.options(__doc__)
    section = common.Section("ncu", given)
    section.report["kernels"] = []
    ncu = shutil.which("ncu") if given.backend == "cuda" else None
    ladders = ["packed"] if given.quick else list(ONCE)
    left_out = 0
    for ladder in ladders:
        wrong = count(section, ncu, ladder) if section.left() > 6 else None
        if wrong:
            section.add({"ladder": ladder, "refused": wrong})
    for ladder in ladders:
        for step, arguments in LADDERS[ladder]:
            if section.left() < 3:
                left_out += 1
            else:
                emulate(section, ladder, step, arguments)
    refused = sum("refused" in result for result in section.report["results"])
    section.end(left_out=left_out, passed=len(section.report["results"]) - refused, failed=refused, **({} if ncu else {"skipped": "ncu is not here"}))


if __name__ == "__main__":
    main()
