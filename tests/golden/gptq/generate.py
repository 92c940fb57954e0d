#!/usr/bin/env python3
"""Writes codes.json: small random layers, and the codes that GPTQ chooses for them, computed by numpy in fp64 as the paper says: the explicit
inverse of the Hessian, its Cholesky factor, and column after column without blocks (Frantar et al. 2023, algorithm 1).

    pip install numpy && python generate.py codes.json

The grid is that of format int_grouped, written again from its README: (I1)...(I5). `weights` and `inputs` are the hex of fp16 rows
(little-endian); `codes` has one hex digit per weight, row by row, each column in its own place.
"""
import itertools
import json
import sys

import numpy

SEED, ROWS, COLUMNS, TOKENS = 20261130, 8, 96, 112


def stored_scale(exact):
    """(I4) Rounded up to fp16."""
    nearest = exact.astype(numpy.float16)
    return numpy.where(nearest.astype(numpy.float32) >= exact, nearest, numpy.nextafter(nearest, numpy.float16(numpy.inf))).astype(numpy.float32)


def fitted(w, bits):
    """(I3): scale and zero point of each row of a group."""
    w = w.astype(numpy.float32)
    low, high = numpy.minimum(w.min(1), 0), numpy.maximum(w.max(1), 0)
    scale = stored_scale((high - low) / numpy.float32(2**bits - 1))
    inverse = numpy.divide(1, scale, out=numpy.zeros_like(scale), where=scale > 0)
    return scale, numpy.clip(numpy.floor(-low * inverse + numpy.float32(0.5)), 0, 2**bits - 1)


def order_of(diagonal, group, order):
    """The columns in the order of rounding: as they lie, all by their inputs' size, or so within groups that come by their largest."""
    if order == "desc_act":
        return numpy.argsort(-diagonal, kind="stable")
    if order == "act_group_aware":
        groups = numpy.argsort(-diagonal.reshape(-1, group).max(1), kind="stable")
        return numpy.concatenate([g * group + numpy.argsort(-diagonal[g * group:(g + 1) * group], kind="stable") for g in groups])
    return numpy.arange(len(diagonal))


def gptq(w, x, bits, group, damp, ordering, static_groups):
    w, x = w.astype(numpy.float64), x.astype(numpy.float64)
    columns = w.shape[1]
    group = columns if group < 0 else group
    hessian = 2 / len(x) * x.T @ x
    mean = numpy.diag(hessian).mean()
    dead = numpy.diag(hessian) == 0
    hessian[dead, dead] = 1
    order = order_of(numpy.diag(2 / len(x) * x.T @ x).astype(numpy.float32), group, ordering)
    hessian = (hessian + damp * mean * numpy.eye(columns))[order][:, order]
    upper = numpy.linalg.cholesky(numpy.linalg.inv(hessian)).T
    before = [fitted(w[:, first:first + group], bits) for first in range(0, columns, group)]
    w, codes = w[:, order].copy(), numpy.zeros(w.shape, int)
    for turn, column in enumerate(order):
        if not static_groups and turn % group == 0:
            current = fitted(w[:, turn:turn + group], bits)
        scale, zero = before[column // group] if static_groups else current
        inverse = numpy.divide(1, scale, out=numpy.zeros_like(scale), where=scale > 0)
        codes[:, column] = numpy.floor(numpy.clip(w[:, turn] * inverse + zero, 0, 2**bits - 1) + 0.5)
        error = (w[:, turn] - scale * (codes[:, column] - zero)) / upper[turn, turn]
        w[:, turn + 1:] -= numpy.outer(error, upper[turn, turn + 1:])
    return codes


def main():
    rng = numpy.random.default_rng(SEED)
    weights = rng.normal(0, 0.05, (ROWS, COLUMNS)).astype("<f2")
    inputs = rng.normal(0, 1, (TOKENS, COLUMNS))
    for column in range(1, COLUMNS):
        inputs[:, column] = 0.6 * inputs[:, column - 1] + 0.8 * inputs[:, column]
    inputs[:, ::17] *= 6
    inputs[:, 40] = 0  # a dead column
    inputs = inputs.astype("<f2")
    cases = []
    for bits, group, damp, order, static in itertools.product([2, 3, 4], [32, -1], [0.001, 0.01, 0.1], ["none", "act_group_aware", "desc_act"], [False, True]):
        codes = gptq(weights, inputs, bits, group, damp, order, static)
        cases.append({"bits": bits, "group_size": group, "damp_percent": damp, "order": order, "static_groups": static,
                      "codes": "".join("%x" % code for code in codes.ravel())})
    golden = {"made_by": f"tests/golden/gptq/generate.py with numpy {numpy.__version__}", "rows": ROWS, "columns": COLUMNS, "tokens": TOKENS,
              "weights": weights.tobytes().hex(), "inputs": inputs.tobytes().hex(), "cases": cases}
    with open(sys.argv[1], "w") as out:
        json.dump(golden, out, indent=1)
        out.write("\n")


if __name__ == "__main__":
    main()
