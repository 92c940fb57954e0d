/// @file commands.h
/// The program's commands: options in, exit code out. commands_*.cpp (with CLI11) fill the options.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace patchbay::app {

/// What every command that touches a model takes.
struct ModelOptions {
  std::string model;
  int threads = 0;                       ///< 0: all cores
  std::vector<std::string> assignments;  ///< key=value
  bool json = false;
};
struct ConvertCommandOptions { std::string in, out, type; bool force = false, json = false; };   ///< type: f32, f16, bf16; "": as stored
struct QuantizeCommandOptions { ModelOptions model; std::string out, layout; bool force = false, quiet = false; };   ///< assignments: keys of weights, without that word
struct ListOptions { std::string what, of; bool json = false, verbose = false; };   ///< what: "" all, a kind, or "kernels"; of: of what
struct DescribeOptions { std::string name; bool json = false; bool markdown = false; };
struct CheckOptions { std::string file; bool json = false; };
struct InspectOptions { ModelOptions model; bool tensors = false; };
struct TokenizeOptions {
  ModelOptions model;
  std::string tokenizer;                 ///< a file or folder apart from the model; "": the model's own
  std::optional<std::string> text, file;
  bool parse_special = false, add_special = false;
};
struct LogitsOptions { ModelOptions model; std::optional<std::string> prompt; std::vector<int> tokens; int top = 10; };
struct GenerateOptions {
  ModelOptions model;
  std::optional<std::string> prompt, prompt_file;
  std::vector<int> tokens;
  std::int64_t max_tokens = 128;
  std::uint64_t seed = 0;
  bool ignore_end = false;               ///< go on past end-of-generation tokens
};
struct ChatOptions {
  ModelOptions model;
  std::optional<std::string> system, message;
  std::optional<std::string> tools, chat_template;  ///< files
  std::int64_t max_tokens = 1024, context = 0;      ///< context 0: the model's, at most 4096
  std::uint64_t seed = 0;
};
struct TemplateOptions {
  ModelOptions model;
  std::string messages;                             ///< files, all of them
  std::optional<std::string> tools, variables, chat_template;
  bool no_generation_prompt = false;
};
struct PerplexityOptions {
  ModelOptions model;
  std::string text;                      ///< file
  std::string protocol = "patchbay";
  std::int64_t window = 512, chunks = 0; ///< chunks 0: all
};
struct BenchOptions { ModelOptions model; std::int64_t prompt = 256, generate = 128; int repeat = 5; };
struct ProfileOptions {
  using Count = std::optional<std::int64_t>;  ///< empty: not given, which is told apart from a default that does not apply
  std::string technique;                 ///< kind/name of a plugin with kernels; "": the steps of model.model
  std::string kernel, op;                ///< which of its kernels; which operation of a backend
  Count rows, cols, tokens;                    ///< of a format, an operation
  Count heads, kv_heads, head_size, context;   ///< of an attention, of the cache
  Count prompt, generate;                      ///< of a model
  ModelOptions model;                    ///< its assignments: of the technique, or of the run
  std::string gpu = "H100", picture, line;   ///< picture: a file; line: of the source, "gemm.cu:31"; "": the costliest
  std::string ncu;                       ///< a file of figures that ncu measured; "": docs/measurements/ncu_GPU.json, if it is there
  int registers = 0;                     ///< of a thread; 0: what nvcc says, if it built the kernel
};
struct PlanOptions { std::string file; std::vector<std::string> assignments; bool json = false; std::string out; };
struct RunOptions { std::string file; std::vector<std::string> assignments; std::string out; bool resume = false, dry_run = false, quiet = false, recalibrate = false, json = false; int threads = 0; };
struct CalibrateOptions { int threads = 0; std::string out; bool json = false; };   ///< threads 0: all cores
struct NewOptions { std::string kind, name, dir = "plugins"; };
struct ReportOptions {
  std::vector<std::string> folders;
  std::string csv, html;
  std::optional<std::string> against;  ///< the run, or the setting, that takes the baseline's place
  bool json = false, markdown = false, by_kind = false;
};
struct DiffOptions { std::string first, second; bool json = false; };   ///< each FOLDER or FOLDER:RUN
struct BisectOptions {
  std::string first, second;             ///< configurations: see configuration.h
  std::string model;                     ///< of sides that do not say model=FILE
  std::vector<std::string> assignments;  ///< of both sides
  std::optional<std::string> prompt, prompt_file;
  std::vector<int> tokens;
  double tolerance = 1e-3;               ///< on the relative RMSE
  int threads = 0;
  bool all = false, json = false;
};
struct TokensOptions {
  std::string run;                       ///< FOLDER or FOLDER:RUN
  std::string by = "nll", text, model;   ///< text, model: where the record's are now
  std::int64_t top = 20;
  bool json = false;
};

int convert(const ConvertCommandOptions&);
int quantize(const QuantizeCommandOptions&);
int list(const ListOptions&);
int describe(const DescribeOptions&);
int check(const CheckOptions&);
int inspect(const InspectOptions&);
int tokenize(const TokenizeOptions&);
int logits(const LogitsOptions&);
int generate(const GenerateOptions&);
int chat(const ChatOptions&);
int show_template(const TemplateOptions&);
int perplexity(const PerplexityOptions&);
int bench(const BenchOptions&);
int profile(const ProfileOptions&);
int plan(const PlanOptions&);
int run(const RunOptions&);
int calibrate(const CalibrateOptions&);
int new_plugin(const NewOptions&);
int report(const ReportOptions&);
int diff(const DiffOptions&);
int bisect(const BisectOptions&);
int tokens(const TokensOptions&);

}  // namespace patchbay::app
