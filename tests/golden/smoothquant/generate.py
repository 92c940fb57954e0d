#!/usr/bin/env python3
"""Writes cases.json: random layers, and the smoothing factors that formula (4) of the SmoothQuant paper (arXiv:2211.10438) gives for them, by numpy in fp64.

    pip install numpy && python generate.py
"""
import json
import pathlib

import numpy

HERE = pathlib.Path(__file__).resolve().parent
TOKENS, COLS, ROWS = 12, 16, (6, 4)


def case(seed: int, alpha: float) -> dict:
    random = numpy.random.default_rng(seed)
    x = numpy.round(random.normal(0, 16, (TOKENS, COLS)) * numpy.where(random.random(COLS) < 0.2, 40, 1)).astype(int)
    weights = [numpy.round(random.normal(0, 60, (rows, COLS))).astype(int) for rows in ROWS]
    largest_input = numpy.abs(x / 32).max(axis=0)
    largest_weight = numpy.abs(numpy.concatenate(weights) / 1024).max(axis=0)
    factors = largest_input**alpha / largest_weight ** (1 - alpha)
    return {"alpha": alpha, "inputs_times_32": x.tolist(), "weights_times_1024": [w.tolist() for w in weights], "factors": factors.tolist(),
            "largest_before": largest_input.max(), "largest_after": (largest_input / factors).max()}


if __name__ == "__main__":
    cases = [case(1, 0.5), case(2, 0.5), case(3, 0.75), case(4, 0.0), case(5, 1.0)]
    (HERE / "cases.json").write_text(json.dumps({"numpy": numpy.__version__, "cases": cases}, separators=(",", ":")) + "\n", encoding="utf-8")
