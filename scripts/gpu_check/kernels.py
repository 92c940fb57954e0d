#!/usr/bin/env python3
"""Section kernels: bench_gpu over every kernel, in kernels.json (its own format: docs/measurements/gpu.md)."""
import json

import common


def main():
    given = common.options(__doc__)
    path = given.out / "kernels.json"
    bench = common.run([common.BUNDLE / "bin/bench_gpu", "--backend", given.backend, "--seconds", given.seconds - 12, "--out", path]
                       + (["--quick"] if given.quick else []), given.seconds - 2)
    report = json.loads(path.read_text()) if path.exists() else {"results": []}
    timed, failed = (sum(key in result for result in report["results"]) for key in ("seconds", "failed"))
    report.update(section="kernels", run={key: bench[key] for key in ("command", "status", "seconds", "errors")}, passed=timed,
                  failed=failed or int(bench["status"] != 0))
    path.write_text(json.dumps(report, indent=1) + "\n")
    path.with_name("kernels.json.part").unlink(missing_ok=True)


if __name__ == "__main__":
    main()
