#!/usr/bin/env python3
"""Section tests: every test of kernels with its references, on the device; then the tiny model, whole, against the host in fp32."""
import concurrent.futures
import re

import common

MODEL = "tiny-shakespeare"
PROMPT = "ROMEO: What light"
# What runs on the device, each with the largest distance of a logit from the host's in fp32: the tolerances of tests/e2e/simt_test.cpp.
WHOLE_MODEL = [
    ("fp16", [], 0.01),
    ("bf16", ["backend.activations=bf16"], 0.06),
    ("int8 cache, paged", ["kv_store=paged", "kv_store.format=int8", "kv_store.block_size=8"], 0.06),
    ("naive attention", ["attention=naive"], 0.01),
    ("two layers on the host", ["gpu_layers=2", "activations=fp32"], 0.01),
]


def settings_of(backend, more):
    return [f"device={backend}", f"backend={backend}"] + more


def logits(settings, seconds):
    """Logits after the prompt by token, and what was run."""
    asked = common.run([common.BUNDLE / "bin/patchbay", "logits", "--model", MODEL, "--prompt", PROMPT, "--top", "100", "--json"] + settings, seconds, tail=100000)
    report = common.json_of(asked["output"])
    values = {row["id"]: row["logit"] for row in report["top"]} if report else {}
    return values, asked


def text(settings, seconds, tokens):
    asked = common.run([common.BUNDLE / "bin/patchbay", "generate", "--model", MODEL, "--prompt", PROMPT, "--max-tokens", str(tokens), "--json"] + settings, seconds,
                       tail=100000)
    report = common.json_of(asked["output"])
    return (report or {}).get("tokens"), asked


def failed(asked, **more):
    return {**{key: asked[key] for key in ("command", "status", "seconds")}, "output": asked["output"][-1500:], "errors": asked["errors"][-1500:],
            "passed": False, **more}


def whole_model(section, backend, tokens):
    host = ["device=cpu", "activations=fp32"]
    wanted, asked = logits(host, section.left())
    wanted_text, asked_text = text(host, section.left(), tokens)
    if not wanted or wanted_text is None:
        section.add(failed(asked if not wanted else asked_text, test="the host's logits and text"))
        return
    for name, more, tolerance in WHOLE_MODEL[2:3] if section.given.quick else WHOLE_MODEL:
        settings = settings_of(backend, more)
        found, asked = logits(settings, section.left())
        common_tokens = wanted.keys() & found.keys()
        distance = max((abs(found[token] - wanted[token]) for token in common_tokens), default=None)
        made, asked_text = text(settings, section.left(), tokens)
        if distance is None or made is None:
            section.add(failed(asked if distance is None else asked_text, test=f"whole model: {name}"))
            continue
        same = next((i for i, pair in enumerate(zip(made, wanted_text)) if pair[0] != pair[1]), len(wanted_text))
        section.add({"test": f"whole model: {name}", "passed": distance < tolerance and len(common_tokens) >= 80, "largest_logit_distance": distance,
                     "tolerance": tolerance, "tokens_of_the_host": same, "tokens": len(wanted_text)})


def tests_of(file, world, seconds):
    asked = common.run([common.BUNDLE / "bin/gpu_tests", "-#", file + "~[emulator]"], seconds, PATCHBAY_TEST_GPU_WORLD=world)
    counted = re.search(r"All tests passed \((\d+) assertions in (\d+) test cases\)", asked["output"])
    result = {"test": file, "passed": asked["status"] == 0, "status": asked["status"], "seconds": asked["seconds"]}
    if counted:
        result.update(assertions=int(counted[1]), cases=int(counted[2]))
    if not result["passed"]:
        result.update(output=asked["output"], errors=asked["errors"])
    return result


def main():
    given = common.options(__doc__)
    section = common.Section("tests", given)
    files = common.test_files()
    if given.quick:
        files = [file for file in files if file in ("[#kernels_test]", "[#primitives_test]")]
    with concurrent.futures.ThreadPoolExecutor(6) as pool:  # their references are computed by the host, one thread each
        jobs = [pool.submit(tests_of, file, given.backend, section.left() * 0.7) for file in files]
        for job in concurrent.futures.as_completed(jobs):
            section.add(job.result())
    whole_model(section, given.backend, 2 if given.quick else 32)
    passed = sum(result["passed"] for result in section.report["results"])
    section.end(passed=passed, failed=len(section.report["results"]) - passed)


if __name__ == "__main__":
    main()
