#!/usr/bin/env python3
"""Section sanitizer: compute-sanitizer's memcheck, racecheck, synccheck and initcheck over the tests of kernels, on their small shapes."""
import concurrent.futures
import re
import shutil

import common

TOOLS = ("memcheck", "racecheck", "synccheck", "initcheck")
# initcheck reports reads of memory that no kernel and no copy wrote: the tests leave NaN there on purpose, by a fill that it counts as a write.


def check(sanitizer, tool, file, seconds):
    asked = common.run([sanitizer, "--tool", tool, "--error-exitcode", "88", "--print-limit", "20", common.BUNDLE / "bin/gpu_tests", "-#", file + "~[emulator]"], seconds, tail=6000, PATCHBAY_TEST_GPU_WORLD="cuda")
    output = asked["output"] + asked["errors"]
    counted = re.search(r"(?:ERROR SUMMARY|RACECHECK SUMMARY): (\d+)", output)
    refused = "Device not supported" in output or "not supported" in output.lower() and asked["status"] != 0 and not counted
    result = {"tool": tool, "test": file, "status": asked["status"], "seconds": asked["seconds"], "found": int(counted[1]) if counted else None,
              "passed": asked["status"] == 0 and counted is not None and int(counted[1]) == 0}
    if refused:
        result["refused"] = True
    if not result["passed"]:
        result["output"] = output[-6000:]
    return result


def main():
    given = common.options(__doc__)
    section = common.Section("sanitizer", given)
    sanitizer = shutil.which("compute-sanitizer")
    if given.backend != "cuda" or not sanitizer:
        section.end(passed=0, failed=0, skipped="compute-sanitizer is not here" if not sanitizer else "the emulator has its own checks (tests: simt_checked)")
        return
    files = common.test_files()
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        jobs = [pool.submit(lambda tool=tool, file=file: check(sanitizer, tool, file, min(40, section.left() - 2)) if section.left() > 6 else None)
                for tool in TOOLS for file in files]
        for job in concurrent.futures.as_completed(jobs):
            if job.result():
                section.add(job.result())
    results = section.report["results"]
    passed = sum(result["passed"] for result in results)
    section.end(left_out=len(TOOLS) * len(files) - len(results), passed=passed, failed=len(results) - passed)


if __name__ == "__main__":
    main()
