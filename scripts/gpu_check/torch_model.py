#!/usr/bin/env python3
"""A Llama of transformers with random weights and a static cache: tokens per second of prefill and of decoding. Called by models.py.

    torch_model.py MODEL PROMPT GENERATE cuda|simt plain|compiled OUT.json      (simt: on the CPU)
"""
import json
import pathlib
import statistics
import sys
import time

import torch
import transformers

import random_gguf


def config_of(name):
    layers, width, feed_forward, heads, kv_heads, vocabulary, context, tied, theta = random_gguf.SHAPES[name]
    return transformers.LlamaConfig(vocab_size=vocabulary, hidden_size=width, intermediate_size=feed_forward, num_hidden_layers=layers,
                                    num_attention_heads=heads, num_key_value_heads=kv_heads, max_position_embeddings=context, tie_word_embeddings=tied,
                                    rope_parameters={"rope_type": "default", "rope_theta": theta}, bos_token_id=None, eos_token_id=None)


class Model:
    def __init__(self, name, prompt, generate, device):
        self.prompt, self.generate, self.device = prompt, generate, device
        torch.manual_seed(0)
        kind = torch.float16 if device == "cuda" else torch.float32
        torch.set_default_dtype(kind)
        without_first_values = getattr(getattr(transformers, "initialization", None), "no_init_weights", torch.no_grad)
        with torch.device(device), without_first_values():
            self.model = transformers.LlamaForCausalLM(config_of(name)).eval()
        for weight in self.model.parameters():
            weight.data.normal_(0, 0.02) if weight.dim() > 1 else weight.data.fill_(1)
        torch.set_default_dtype(torch.float32)
        self.decoder = self.model  # what a step calls
        self.tokens = torch.randint(self.model.config.vocab_size, (1, prompt), device=device)
        self.next = torch.zeros((1, 1), dtype=torch.long, device=device)
        self.position = torch.zeros(1, dtype=torch.long, device=device)
        self.cache = transformers.StaticCache(config=self.model.config, max_cache_len=prompt + generate + 16)

    def wait(self):
        if self.device == "cuda":
            torch.cuda.synchronize()

    def prefill(self):
        self.cache.reset()
        positions = torch.arange(self.prompt, device=self.device)
        logits = self.model(self.tokens, past_key_values=self.cache, position_ids=positions[None], cache_position=positions, logits_to_keep=1).logits
        self.next.copy_(logits[:, -1:].argmax(-1))
        self.position.fill_(self.prompt)

    def step(self):
        logits = self.decoder(self.next, past_key_values=self.cache, position_ids=self.position[None], cache_position=self.position).logits
        self.next.copy_(logits[:, -1:].argmax(-1))
        self.position.add_(1)

    def speeds(self, step, repeat=3):
        """Tokens per second, medians: of prefill, and of `generate` steps after it."""
        prefill, decode = [], []
        for i in range(repeat + 1):
            self.wait()
            began = time.perf_counter()
            self.prefill()
            self.wait()
            middle = time.perf_counter()
            for _ in range(self.generate):
                step()
            self.wait()
            if i > 0:
                prefill.append(self.prompt / (middle - began))
                decode.append(self.generate / (time.perf_counter() - middle))
        return {"prefill_tokens_per_s": statistics.median(prefill), "decode_tokens_per_s": statistics.median(decode)}

    def recorded_step(self):
        """The step as a CUDA graph."""
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for _ in range(2):
                self.step()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.step()
        return graph.replay


def main():
    name, prompt, generate, backend, style, out = sys.argv[1:]
    device = "cuda" if backend == "cuda" else "cpu"
    results = []

    def add(how, **more):
        results.append({"program": "transformers", "version": transformers.__version__, "torch": torch.__version__, "model": name, "weights": "fp16", "how": how,
                        "prompt": int(prompt), "generate": int(generate), **more})
        pathlib.Path(out).write_text(json.dumps(results))

    with torch.inference_mode():
        model = Model(name, int(prompt), int(generate), device)
        if style == "plain":
            add("static cache", **model.speeds(model.step))
            if device == "cuda":
                try:
                    model.prefill()
                    add("static cache, step as a CUDA graph", **model.speeds(model.recorded_step()))
                except Exception as error:  # what cannot be captured ends no measurement
                    add("static cache, step as a CUDA graph", refused=str(error)[:500])
        else:
            began = time.perf_counter()
            model.prefill()  # lays out the cache
            model.decoder = torch.compile(model.model, mode="reduce-overhead" if device == "cuda" else None)
            for _ in range(3):
                model.step()
            model.wait()
            add("static cache, torch.compile of decoding", compile_s=time.perf_counter() - began, **model.speeds(model.step))


if __name__ == "__main__":
    main()
