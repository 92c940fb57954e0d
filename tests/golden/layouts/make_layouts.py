#!/usr/bin/env python3
"""Writes layouts.json: small weights as public packages pack them into the layouts of quantised checkpoints, with the numbers that went in.

    pip install torch numpy compressed-tensors==0.20.1
    pip download --no-deps --no-binary :all: autoawq==0.2.9 && pip download --no-deps gptqmodel==7.7.0     # and unpack both archives
    python make_layouts.py AUTOAWQ_FOLDER GPTQMODEL_FOLDER

AutoAWQ's modules are imported as they are. Of GPTQModel, whose import wants a GPU's libraries, the functions that pack and unpack are taken out of its
source and run alone. Both are asked to pack (their own code), and GPTQModel to read its first version back.
"""
import ast
import importlib
import json
import os
import pathlib
import sys
import types
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch

ROWS, COLS, GROUP = 32, 64, 32


def package_without_init(name, folder):
    module = types.ModuleType(name)
    module.__path__ = [str(folder)]
    sys.modules[name] = module


def functions_of(path, names, namespace):
    """The functions and methods of these names, compiled by themselves."""
    tree = ast.parse(path.read_text())
    found = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name in names]
    for node in found:
        node.decorator_list, node.returns = [], None
        for argument in node.args.args + node.args.kwonlyargs:
            argument.annotation = None
    exec(compile(ast.Module(found, []), str(path), "exec"), namespace)
    return [namespace[name] for name in names]


def hexadecimal(array):
    return np.ascontiguousarray(array).tobytes().hex()


def entry(bits, codes, scales, zeros, tensors, config, group_of=None):
    """codes (R,C), scales and zeros (R,groups), all as the weight has its columns."""
    stored = {name: {"shape": list(tensor.shape), "type": {torch.int32: "I32", torch.float16: "F16"}[tensor.dtype], "bytes": hexadecimal(tensor.numpy())}
              for name, tensor in tensors.items()}
    return {"bits": bits, "config": config, "codes": hexadecimal(codes.numpy().astype(np.uint8)), "scales": hexadecimal(scales.numpy().astype(np.float16)),
            "zeros": hexadecimal(zeros.numpy().astype(np.uint8)), "group_of": group_of, "tensors": stored}


def numbers(bits, least_zero=0):
    groups = COLS // GROUP
    scales = (torch.rand(ROWS, groups) * 0.02 + 0.005).half()
    zeros = torch.randint(least_zero, 2**bits, (ROWS, groups))
    codes = torch.randint(0, 2**bits, (ROWS, COLS))
    return codes, scales, zeros


def linear_of(codes, scales, zeros, group_of):
    linear = torch.nn.Linear(COLS, ROWS, bias=False)
    linear.weight.data = (codes - zeros[:, group_of]).float() * scales[:, group_of].float()
    return linear


def awq_entries(folder):
    for name in ("awq", "awq.modules", "awq.modules.linear", "awq.utils"):
        package_without_init(name, folder.joinpath(*name.split(".")))
    gemm = importlib.import_module("awq.modules.linear.gemm").WQLinear_GEMM
    gemv = importlib.import_module("awq.modules.linear.gemv").WQLinear_GEMV
    group_of = torch.arange(COLS) // GROUP
    for version, module in ("gemm", gemm), ("gemv", gemv):
        codes, scales, zeros = numbers(4)
        turned = (scales.t().contiguous(), zeros.t().contiguous()) if version == "gemm" else (scales, zeros)
        packed = module.from_linear(linear_of(codes, scales, zeros, group_of), 4, GROUP, scales=turned[0].float(), zeros=turned[1].float())
        tensors = {name: getattr(packed, name) for name in ("qweight", "qzeros", "scales")}
        yield f"awq_{version}", entry(
            4, codes, scales, zeros, tensors, {"quant_method": "awq", "bits": 4, "group_size": GROUP, "zero_point": True, "version": version})


def gptq_entries(folder):
    space = {"t": torch, "torch": torch, "np": np, "os": os, "math": __import__("math"), "ThreadPoolExecutor": ThreadPoolExecutor, "transformers": types.SimpleNamespace(
        pytorch_utils=types.SimpleNamespace(Conv1D=())), "_ConvNd": (), "env_flag": lambda name: name == "GPTQMODEL_DISABLE_PACK_EXT",
        "log": types.SimpleNamespace(debug=print), "planar": False, "PLANAR_BITS": ()}
    linear = folder / "gptqmodel/nn_modules/qlinear/__init__.py"
    pack, = functions_of(linear, ["pack_block"], space)
    source = folder / "gptqmodel/utils/model_dequant.py"
    functions_of(source, [node.name for node in ast.parse(source.read_text()).body if isinstance(node, ast.FunctionDef)], space)
    for bits in (2, 3, 4, 8):
        for version, shuffled in ("gptq", False), ("gptq_v2", True):
            codes, scales, zeros = numbers(bits, 1 if version == "gptq" else 0)
            group_of = torch.arange(COLS) // GROUP
            if shuffled:
                group_of = group_of[torch.randperm(COLS)]
            module = torch.nn.Module()
            module.bits, module.pack_dtype, module.pack_dtype_bits, module.planar, module.in_features, module.out_features = bits, torch.int32, 32, False, COLS, ROWS
            module.maxq, module.group_size, module.pack_factor = 2**bits - 1, GROUP, 32 // bits
            module.pack_np_math_dtype, module.pack_np_dtype = np.uint32, np.int32
            pack(module, linear_of(codes, scales, zeros, group_of), scales.float(), zeros.float(), group_of.int(), workers=1)
            if version == "gptq":
                module.qzeros = space["_revert_gptq_v1_qzeros_correction"](module.qzeros, bits)
            tensors = {name: getattr(module, name) for name in ("qweight", "qzeros", "scales")}
            tensors["g_idx"] = module.g_idx.int()
            yield f"{version}_{bits}{'_desc_act' if shuffled else ''}", entry(
                bits, codes, scales, zeros, tensors,
                {"quant_method": "gptq", "bits": bits, "group_size": GROUP, "desc_act": shuffled, "sym": False, "checkpoint_format": version}, group_of.tolist())


def eight_bit_entries():
    """compressed-tensors compresses and decompresses (fp32 scales, so that both are exact)."""
    from compressed_tensors.compressors import BaseCompressor
    from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
    rows, cols = 8, 64
    for name, kind, strategy, group, inputs in (("float_channel", "float", "channel", None, {"strategy": "token", "dynamic": True}), ("float_tensor", "float", "tensor", None, {
            "strategy": "tensor", "dynamic": False}), ("float_group", "float", "group", 32, None), ("int_channel", "int", "channel", None, {"strategy": "token", "dynamic": True})):
        weight = torch.randn(rows, cols) * 0.1
        largest = weight.abs()
        largest = largest.max() if strategy == "tensor" else largest.reshape(rows, -1, group or cols).amax(2)
        scale = (largest / (448 if kind == "float" else 127)).reshape(-1, 1 if strategy != "group" else cols // group).float()
        if strategy == "tensor":
            scale = scale.reshape(1)
        arguments = {"num_bits": 8, "type": kind, "strategy": strategy, "group_size": group, "symmetric": True}
        scheme = QuantizationScheme(targets=["Linear"], weights=QuantizationArgs(**arguments))
        form = f"{kind}-quantized"
        compressor = BaseCompressor.load_from_registry(form)
        packed = compressor.compress({"weight": weight, "weight_scale": scale}, scheme)
        values = compressor.decompress(dict(packed), scheme)["weight"]
        if inputs and not inputs["dynamic"]:
            packed["input_scale"] = torch.tensor([0.03125])
        types_ = {torch.float8_e4m3fn: "F8_E4M3", torch.int8: "I8", torch.float32: "F32"}
        tensors = {part: {"shape": list(tensor.shape), "type": types_[tensor.dtype], "bytes": hexadecimal(tensor.contiguous().view(torch.uint8).numpy())} for part, tensor in packed.items()}
        if inputs:
            inputs = {"num_bits": 8, "type": kind, "symmetric": True, **inputs}
        config = {"quant_method": "compressed-tensors", "format": form, "ignore": ["lm_head"], "config_groups": {"group_0": {
            "targets": ["Linear"], "weights": {**arguments, "dynamic": False}, "input_activations": inputs, "output_activations": None}}}
        yield name, {"rows": rows, "cols": cols, "config": config, "values": hexadecimal(values.float().numpy()), "tensors": tensors}


if __name__ == "__main__":
    torch.manual_seed(7)
    entries = dict(awq_entries(pathlib.Path(sys.argv[1])))
    entries.update(gptq_entries(pathlib.Path(sys.argv[2])))
    pathlib.Path(__file__).with_name("layouts.json").write_text(json.dumps({"rows": ROWS, "cols": COLS, "group": GROUP, "packages": {"autoawq": "0.2.9", "compressed-tensors": "0.20.1", "gptqmodel": "7.7.0"}, "weights": entries,
                                                                          "eight_bits": dict(eight_bit_entries())}, indent=1) + "\n")
