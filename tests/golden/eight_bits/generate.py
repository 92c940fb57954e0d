#!/usr/bin/env python3
"""What torch and ml_dtypes make of 8-bit numbers, for the tests of the formats fp8 and w8a8.

  generate.py > eight_bits.json        needs torch, numpy and ml_dtypes

halves: FNV-1a (64 bits) of the codes of all 65536 fp16 numbers, saturated first, in the order of their bit patterns; every NaN counts as 0x7F. Both packages
must agree, and both must give back every code's value.
products: y(T,R) of x(T,C) and w(R,C), both rounded as the formats say: weights per row, inputs per token; int8 summed in int32, fp8 in fp64.
"""
import json, math

import ml_dtypes, numpy, torch

LARGEST = {"int8": 127.0, "e4m3": 448.0, "e5m2": 57344.0}
TORCH = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}
NUMPY = {"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2}


def fnv(codes):
    digest = 0xCBF29CE484222325
    for code in codes:
        digest = (digest ^ int(code)) * 0x100000001B3 % 2**64
    return "%016x" % digest


def halves(kind):
    values = torch.arange(65536, dtype=torch.int32).to(torch.uint16).view(torch.float16).to(torch.float32)
    values = values.clamp(-LARGEST[kind], LARGEST[kind])
    from_torch = values.to(TORCH[kind]).view(torch.uint8).numpy().copy()
    from_numpy = values.numpy().astype(NUMPY[kind]).view(numpy.uint8).copy()
    nan = torch.isnan(values).numpy()
    for codes in (from_torch, from_numpy):
        codes[nan] = 0x7F
    assert (from_torch == from_numpy).all()
    every = numpy.arange(256, dtype=numpy.uint8)
    a, b = torch.from_numpy(every).view(TORCH[kind]).to(torch.float32).numpy(), every.view(NUMPY[kind]).astype(numpy.float32)
    assert ((a == b) | (numpy.isnan(a) & numpy.isnan(b))).all()
    return {"fnv": fnv(from_torch), "values": [None if not math.isfinite(v) else float(v) for v in a]}


def numbers(rows, cols, seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(rows, cols, generator=generator, dtype=torch.float32)


def product(kind):
    x, w = numbers(3, 40, 1), numbers(5, 40, 2) * 0.1
    x[1] *= 30
    w[2, 7] = 4
    def rounded(m, divide):
        scale = m.abs().amax(dim=1, keepdim=True) / LARGEST[kind]
        m = m / scale if divide else m * (LARGEST[kind] / m.abs().amax(dim=1, keepdim=True))
        m = m.clamp(-LARGEST[kind], LARGEST[kind])
        return (m.round().to(torch.int8) if kind == "int8" else m.to(TORCH[kind])), scale
    (xq, xs), (wq, ws) = rounded(x, False), rounded(w, True)
    wide = torch.int32 if kind == "int8" else torch.float64
    y = (xq.to(wide) @ wq.to(wide).T).to(torch.float64) * xs.double() * ws.double().T
    return {"x": x.flatten().tolist(), "w": w.flatten().tolist(), "y": y.flatten().tolist()}


print(json.dumps({"torch": torch.__version__, "ml_dtypes": ml_dtypes.__version__, "halves": {kind: halves(kind) for kind in TORCH},
                  "products": {kind: product(kind) for kind in LARGEST}}))
