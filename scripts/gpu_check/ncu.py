#!/usr/bin/env python3
"""Section ncu: what Nsight Compute counts of a few kernels, beside what the emulator counts of the same launches (`patchbay profile`)."""
import csv
import io
import shutil

import common

METRICS = {
    "gpu__time_duration.sum": "nanoseconds",
    "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum": "global_load_requests",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": "global_load_sectors",
    "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum": "global_store_requests",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum": "global_store_sectors",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum": "shared_wavefronts",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum": "shared_bank_conflicts",
    "dram__bytes_read.sum": "dram_bytes_read",
    "dram__bytes_write.sum": "dram_bytes_written",
    "sm__inst_executed_pipe_tensor.sum": "tensor_instructions",
    "sm__warps_active.avg.pct_of_peak_sustained_active": "occupancy_percent",
    "launch__registers_per_thread": "registers",
    "launch__shared_mem_per_block_static": "static_shared_bytes",
}
# bench_gpu's case, its shape (tokens, rows, cols, context), and the emulator's command: those of docs/kernels.md.
CASES = [(f"matmul/fp16/{kernel}", "64,128,128,0", ["formats/fp16", "--tokens", "64", "--rows", "128", "--cols", "128", "--kernel", kernel])
         for kernel in ("naive", "tiled", "vectorised", "tensor_core")]
CASES += [(f"matmul/q4_k/{kernel}", "1,64,512,0", ["formats/q4_k", "--tokens", "1", "--rows", "64", "--cols", "512", "--kernel", kernel]) for kernel in ("naive", "gemv")]
CASES += [(f"attention/flash/{kernel}", "1,256,512,511", ["attention/flash", "--kernel", kernel, "--tokens", "1", "--context", "511", "--heads", "8", "--kv-heads", "2",
                                                          "--head-size", "64", "kv_store.format=fp16"]) for kernel in ("tiled", "flash", "split_kv")]
NOT_THE_CASE = ("write_", "copy_", "quantize")  # what fills the cache before


def counted(text):
    """Launches from ncu's CSV (--page raw): kernel, and each metric as a number."""
    lines = text.splitlines()
    begin = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
    if begin is None:
        return []
    launches = []
    for row in csv.DictReader(io.StringIO("\n".join(lines[begin:]))):
        if not row.get("ID"):  # the line of units
            launches.append({"units": {METRICS[name]: row[name] for name in METRICS if row.get(name)}})
            continue
        values = {METRICS[name]: row[name].replace(",", "") for name in METRICS if row.get(name)}
        launches.append({"kernel": row.get("Kernel Name", ""), "grid": row.get("Grid Size"), "block": row.get("Block Size"),
                         **{name: float(value) if value.replace(".", "", 1).isdigit() else value for name, value in values.items()}})
    return [launch for launch in launches if not any(word in launch.get("kernel", "") for word in NOT_THE_CASE)]


def main():
    given = common.options(__doc__)
    section = common.Section("ncu", given)
    ncu = shutil.which("ncu")
    for case, shape, emulated in CASES[:1] if given.quick else CASES:
        if section.left() < 5:
            break
        bench = [common.BUNDLE / "bin/bench_gpu", "--backend", given.backend, "--once", shape, "--only", case, "--out", given.out / "case.part"]
        result = {"case": case, "shape": shape}
        if ncu and given.backend == "cuda":
            asked = common.run([ncu, "--clock-control", "none", "--csv", "--page", "raw", "--metrics", ",".join(METRICS), *bench], min(30, section.left()), tail=200000)
            result["ncu"] = counted(asked["output"])
            if not any("kernel" in launch for launch in result["ncu"]):
                result["refused"] = {"status": asked["status"], "output": (asked["output"] + asked["errors"])[-1500:]}
        else:
            asked = common.run(bench, min(30, section.left()))
            result["without_ncu"] = {key: asked[key] for key in ("status", "seconds", "errors")}
        profile = common.run([common.BUNDLE / "bin/patchbay", "profile", *emulated, "--json"], min(20, section.left()), tail=1000000)
        report = common.json_of(profile["output"])
        result["emulator"] = report if report else {key: profile[key] for key in ("status", "errors")}
        section.add(result)
    given.out.joinpath("case.part").unlink(missing_ok=True)
    results = section.report["results"]
    refused = sum("refused" in result or result.get("without_ncu", {}).get("status", 0) != 0 for result in results)
    section.end(passed=len(results) - refused, failed=refused, **({} if ncu else {"skipped": "ncu is not here"}))


if __name__ == "__main__":
    main()
