// Commands that measure speed or predict it: bench, profile, calibrate.
#include "command_line.h"

namespace patchbay::app {

void add_bench(CLI::App& app, Outcome& outcome) {
  add<BenchOptions>(app, outcome, "bench", "Speed of prefill and of decoding after it",
                    [](CLI::App& command, BenchOptions& options) {
                      model(command, options.model);
                      number(command, "--prompt", options.prompt, "Tokens of the prompt");
                      number(command, "--generate", options.generate, "Tokens decoded after it");
                      number(command, "--repeat", options.repeat, "How often, after a warm-up");
                      assignments(command, options.model.assignments);
                    }, bench);
}

void add_profile(CLI::App& app, Outcome& outcome) {
  add<ProfileOptions>(
      app, outcome, "profile", "Count what CUDA kernels do on the emulator: memory sectors, bank conflicts, branches; bounds for a GPU",
      [](CLI::App& command, ProfileOptions& options) {
        command.add_option("technique", options.technique, "A plugin with kernels (formats/fp16, attention/flash, backends/cuda); or give --model");
        command.add_option("--kernel", options.kernel, "One of its kernels, as `patchbay list kernels` names it; else the best");
        command.add_option("--op", options.op, "The operation of a backend (rms_norm, add, write_kv, sample, ...)");
        number(command, "--rows", options.rows, "Rows of the weight");
        number(command, "--cols", options.cols, "Columns of the weight, values of a token");
        number(command, "--tokens", options.tokens, "Tokens of the step");
        number(command, "--heads", options.heads, "Query heads");
        number(command, "--kv-heads", options.kv_heads, "Heads of keys and values");
        number(command, "--head-size", options.head_size, "Values of a head");
        number(command, "--context", options.context, "Tokens in the cache before the step");
        command.add_option("--model", options.model.model, "Profile a model's steps: a GGUF file, a folder, or a file in configs/models");
        number(command, "--prompt", options.prompt, "Tokens of the model's prompt");
        number(command, "--generate", options.generate, "Tokens decoded after it");
        command.add_option("--gpu", options.gpu, "Whose limits: A100, H100, H200, RTX 4090, L4");
        number(command, "--registers", options.registers, "Of a thread, where nvcc's figure is not at hand", 0, 255);
        path(command, "--ncu", options.ncu, "What ncu measured, to stand beside: `ncu --csv --page raw`, or JSON; else docs/measurements/ncu_GPU.json");
        path(command, "--picture", options.picture, "Write one warp's access pattern: .svg for one line of the source, .html for the costliest");
        command.add_option("--line", options.line, "Which line of the source the picture shows (gemm.cu:31)");
        threads(command, options.model.threads);
        json_flag(command, options.model.json);
        assignments(command, options.model.assignments);
      },
      profile);
}

void add_calibrate(CLI::App& app, Outcome& outcome) {
  add<CalibrateOptions>(app, outcome, "calibrate", "Measures what the machine can move and compute at most; predictions rest on it",
                        [](CLI::App& command, CalibrateOptions& options) {
                          threads(command, options.threads, "Measure 1 to so many threads; 0: all cores");
                          path(command, "--out", options.out, "Write this file; else one in the user's cache folder, which `run` and `bench` read");
                          json_flag(command, options.json);
                        }, calibrate);
}

}  // namespace patchbay::app
