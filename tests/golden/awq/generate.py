#!/usr/bin/env python3
"""Writes cases.json: random matrices, and the factors and clamping bounds that AutoAWQ's own functions find for them.

    pip install autoawq==0.2.9 --no-deps && pip install torch transformers numpy && python generate.py

AutoAWQ's quantizer.py is run as it is; what it imports beside torch (model classes, packed layers, calibration data) is replaced by empty
modules, since it does not load beside today's transformers. Factors come from _search_best_scale on a module that hands out the outputs of
all layers side by side, which is the error that patchbay sums up; bounds from _compute_best_clip on the scaled layers.
"""
import importlib.metadata
import importlib.util
import json
import pathlib
import sys
import types

import numpy
import torch

HERE = pathlib.Path(__file__).resolve().parent
TOKENS, COLS, ROWS = 64, 64, (64, 64)  # _compute_best_clip takes rows by 64


class Anything(types.ModuleType):
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *arguments, **more: None


def load_quantizer():
    folder = pathlib.Path(importlib.util.find_spec("awq").origin).parent
    for name in ("awq", "awq.utils", "awq.utils.calib_data", "awq.utils.utils", "awq.utils.module", "awq.quantize", "awq.quantize.scale", "awq.modules", "awq.modules.linear"):
        sys.modules[name] = Anything(name)
    spec = importlib.util.spec_from_file_location("awq.quantize.quantizer", folder / "quantize/quantizer.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.get_best_device = lambda: torch.device("cpu")
    return module.AwqQuantizer


class SideBySide(torch.nn.Module):
    def __init__(self, weights):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(COLS, len(w), bias=False) for w in weights)
        for layer, w in zip(self.layers, weights):
            layer.weight.data = w.clone()

    def state_dict(self, *arguments, **more):
        """AutoAWQ keeps state_dict() of a model on a GPU by .cpu(), a copy. On the CPU that is no copy, and its search would go on with rounded weights."""
        return {name: value.clone() for name, value in super().state_dict(*arguments, **more).items()}

    def forward(self, x):
        return torch.cat([layer(x) for layer in self.layers], dim=-1)


def case(Quantizer, seed, bits, group, duo):
    random = numpy.random.default_rng(seed)
    size = numpy.exp(random.normal(0, 1.2, COLS))
    x = numpy.round(random.normal(0, 32, (TOKENS, COLS)) * size).astype(int)
    weights = [numpy.round(random.standard_t(4, (rows, COLS)) * 60).astype(int) for rows in ROWS]
    inputs = torch.tensor(x, dtype=torch.float32) / 32
    floats = [torch.tensor(w, dtype=torch.float32) / 1024 for w in weights]
    quantizer = Quantizer.__new__(Quantizer)
    quantizer.w_bit, quantizer.group_size, quantizer.zero_point, quantizer.duo_scaling = bits, group, True, duo
    quantizer.max_chunk_memory = 1 << 30
    module = SideBySide(floats)
    with torch.no_grad():
        quantizer._module_forward = lambda x, module, kwargs: module(x)
        quantizer._sanitize_kwargs = lambda kwargs, module: {}
        _, _, scales = quantizer._search_best_scale(module, torch.nn.Identity(), list(module.layers), inputs, module2inspect=module)
        bounds = [quantizer._compute_best_clip(w * scales, inputs / scales).reshape(len(w), -1) for w in floats]
    return {"bits": bits, "group_size": group, "duo_scaling": duo, "inputs_times_32": x.tolist(), "weights_times_1024": [w.tolist() for w in weights],
            "factors": [float(s) for s in scales], "bounds": [[[float(v) for v in row] for row in b] for b in bounds]}


def main():
    Quantizer = load_quantizer()
    cases = [case(Quantizer, 1, 4, 32, True), case(Quantizer, 2, 3, 64, True), case(Quantizer, 3, 3, 32, False)]
    versions = {name: importlib.metadata.version(name) for name in ("autoawq", "torch", "numpy")}
    (HERE / "cases.json").write_text(json.dumps({"versions": versions, "cases": cases}, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
