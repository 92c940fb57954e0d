// The command line: one function per command fills its options. The only home of CLI11.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <cctype>
#include <charconv>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <exception>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <new>

#include "commands.h"
#include "common.h"
#include "config.h"
#include "configuration.h"
#include "experiment/environment.h"
#include "experiment/run_reference.h"
#include "failures.h"
#include "model_file.h"
#include "patchbay/build_id.h"
#include "patchbay/error.h"
#include "run_config.h"
#include "short_forms.h"

namespace patchbay::app {
namespace {

constexpr int kFailure = 1, kUsage = 2;

/// What the chosen command returned; commands run as callbacks of the parser.
struct Outcome {
  int code = 0;
};

/// Adds a command whose options live as long as the parser: `fill` declares them, `run` gets them when the command is chosen.
template <class Options>
void add(CLI::App& app, Outcome& outcome, const char* name, const char* what,
         const std::function<void(CLI::App&, Options&)>& fill, int (*run)(const Options&)) {
  CLI::App* command = app.add_subcommand(name, what);
  auto options = std::make_shared<Options>();
  fill(*command, *options);
  command->callback([options, run, &outcome] { outcome.code = run(*options); });
}

CLI::Option* json_flag(CLI::App& command, bool& json) { return command.add_flag("--json", json, "Machine-readable output"); }
/// A file or folder. "" is refused: it would be taken for none given.
template <class Text>
CLI::Option* path(CLI::App& command, const char* name, Text& value, const char* what) {
  return command.add_option(name, value, what)->check([](const std::string& text) { return text.empty() ? "is empty; a file's or folder's name" : std::string(); });
}
void assignments(CLI::App& command, std::vector<std::string>& list) {
  command.add_option("key=value", list, "Settings, as under base: in YAML (kv_store.format=int8)");
}
/// Checked before CLI11 converts: it takes "" as 0, -1 as the largest unsigned number, and what is too large as the largest.
template <class Number>
std::string not_a_number(const std::string& text, Number low = std::numeric_limits<Number>::min(), Number high = std::numeric_limits<Number>::max()) {
  Number value{};
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code == std::errc() && end == text.data() + text.size() && value >= low && value <= high) return {};
  return "'" + text + "' is not a whole number from " + std::to_string(low) + " to " + std::to_string(high);
}
template <class Number>
CLI::Option* number(CLI::App& command, const char* name, Number& value, const char* what, Number low = std::numeric_limits<Number>::min(),
                    Number high = std::numeric_limits<Number>::max()) {
  return command.add_option(name, value, what)->check([low, high](const std::string& text) { return not_a_number(text, low, high); });
}
void threads(CLI::App& command, int& count, const char* what = "Threads; 0: all cores") { number(command, "--threads", count, what, 0, kMaxThreads); }
std::string not_a_tolerance(const std::string& text) {
  double value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool good = code == std::errc() && end == text.data() + text.size() && std::isfinite(value) && value >= 0;
  return good ? std::string() : "'" + text + "' is no number of 0 or more";
}
/// The names that an option knows.
std::function<std::string(const std::string&)> one_of(std::vector<std::string> names) {
  return [names = std::move(names)](const std::string& text) {
    if (std::ranges::find(names, text) != names.end()) return std::string();
    std::string all;
    for (const std::string& name : names) all += (all.empty() ? "" : ", ") + name;
    const std::string near = suggestion(text, names);
    return "'" + text + "' is none of " + all + (near.empty() ? "" : "; did you mean " + near + "?");
  };
}
void model(CLI::App& command, ModelOptions& options) {
  command.add_option("--model", options.model, "A GGUF file, a Hugging Face folder, or the name of a file in configs/models")->required();
  threads(command, options.threads);
  json_flag(command, options.json);
}
/// One argument, "1,2,3", split here: it must not swallow the key=value that follow, and CLI11 drops empty numbers.
void token_list(CLI::App& command, std::vector<int>& list) {
  const auto each = [](const std::string& text, const auto& number) {
    for (std::size_t begin = 0; begin <= text.size();) {
      const std::size_t end = std::min(text.find(',', begin), text.size());
      number(text.substr(begin, end - begin));
      begin = end + 1;
    }
  };
  const auto fault = [each](const std::string& text) {
    std::string first;
    each(text, [&](const std::string& number) { first = first.empty() ? not_a_number<int>(number) : first; });
    return first;
  };
  const auto take = [each, &list](const std::string& text) { each(text, [&](const std::string& number) { list.push_back(std::stoi(number)); }); };
  command.add_option_function<std::string>("--tokens", take, "The prompt as token numbers: 1,2,3")->check(fault);
}

void add_list(CLI::App& app, Outcome& outcome) {
  add<ListOptions>(
      app, outcome, "list", "The plugins, by kind; `list kernels`: every kernel",
      [](CLI::App& command, ListOptions& options) {
        command.add_option("what", options.what, "A kind of plugin, or kernels");
        command.add_flag("--verbose", options.verbose, "Each refused plugin by itself");
        json_flag(command, options.json);
      },
      list);
}

void add_describe(CLI::App& app, Outcome& outcome) {
  add<DescribeOptions>(
      app, outcome, "describe", "One plugin: its parameters and kernels",
      [](CLI::App& command, DescribeOptions& options) {
        command.add_option("name", options.name, "kind/name, or a name that is unique")->required();
        CLI::Option* json = json_flag(command, options.json);
        command.add_flag("--markdown", options.markdown, "The parameter table of the plugin's README")->excludes(json);
      },
      describe);
}

void add_logits(CLI::App& app, Outcome& outcome) {
  add<LogitsOptions>(
      app, outcome, "logits", "The likeliest next tokens after a prompt",
      [](CLI::App& command, LogitsOptions& options) {
        model(command, options.model);
        command.add_option("--prompt", options.prompt, "Text; special tokens are parsed, no chat template is applied");
        token_list(command, options.tokens);
        number(command, "--top", options.top, "How many tokens to show", 1, 1 << 30);
        assignments(command, options.model.assignments);
      },
      logits);
}

void add_check(CLI::App& app, Outcome& outcome) {
  add<CheckOptions>(
      app, outcome, "check", "Whether a model file or an experiment is sound: 0, or 1 and the reason",
      [](CLI::App& command, CheckOptions& options) {
        path(command, "file", options.file,
             "A model (GGUF, a Hugging Face folder, safetensors), its name, an experiment or a description in configs/models (.yaml), a tokenizer.json")
            ->required();
        json_flag(command, options.json);
      },
      check);
}

void add_inspect(CLI::App& app, Outcome& outcome) {
  add<InspectOptions>(
      app, outcome, "inspect", "What a model file or folder holds",
      [](CLI::App& command, InspectOptions& options) {
        command.add_option("model,--model", options.model.model, "Required, here or as --model: a GGUF file, a Hugging Face folder, or the name of a file in configs/models")
            ->required()->option_text("TEXT");
        threads(command, options.model.threads);
        json_flag(command, options.model.json);
        command.add_flag("--tensors", options.tensors, "Every tensor, its type, size and shape");
        assignments(command, options.model.assignments);
      },
      inspect);
}

void add_convert(CLI::App& app, Outcome& outcome) {
  add<ConvertCommandOptions>(app, outcome, "convert", "A Hugging Face folder as a GGUF file, or a GGUF file as a folder",
                             [](CLI::App& command, ConvertCommandOptions& options) {
                               path(command, "in", options.in, "A Hugging Face folder, or a GGUF file (or its name in configs/models)")->required();
                               path(command, "out", options.out, "What to write: of a folder a GGUF file, of a GGUF file a folder")->required();
                               command.add_option("--type", options.type, "Of the weight matrices: f32, f16 or bf16; else as they are stored, quantised ones rounded to f16")
                                   ->check(CLI::IsMember({"f32", "f16", "bf16"}));
                               command.add_flag("--force", options.force, "Replace what is there");
                               json_flag(command, options.json);
                             }, convert);
}

void add_tokenize(CLI::App& app, Outcome& outcome) {
  add<TokenizeOptions>(
      app, outcome, "tokenize", "The tokens of a text",
      [](CLI::App& command, TokenizeOptions& options) {
        model(command, options.model);
        command.get_option("--model")->required(false);
        path(command, "--tokenizer", options.tokenizer, "Instead of --model: a tokenizer.json, a folder that holds one, or a GGUF file");
        command.add_option("text", options.text, "The text");
        path(command, "--file", options.file, "A file that holds the text");
        command.add_flag("--parse-special", options.parse_special, "Text of special tokens becomes those tokens");
        command.add_flag("--add-special", options.add_special, "Begin and end as the model says (BOS, EOS)");
        assignments(command, options.model.assignments);
      },
      tokenize);
}

/// Options of a command that samples.
template <class Options>
struct Sampling {
  Options options;
  std::map<std::string, std::string> short_forms;  ///< --temperature and the like, as given
};

template <class Options, int (*run)(const Options&)>
int with_sampling(const Sampling<Options>& command) {
  Options options = command.options;
  options.model.assignments = with_short_forms(command.short_forms, options.model.assignments);
  return run(options);
}

/// Only when this command is the one chosen: reading the schemas loads the processors.
void short_form_options(CLI::App& command, std::map<std::string, std::string>& given) {
  command.preparse_callback([&command, &given](std::size_t) {
    for (const ShortForm& form : short_forms()) {
      const auto keep = [&given, option = form.option](const std::string& value) { given[option] = value; };
      command.add_option_function<std::string>(form.option, keep, form.help);
    }
  });
}

void add_generate(CLI::App& app, Outcome& outcome) {
  add<Sampling<GenerateOptions>>(
      app, outcome, "generate", "Continues a prompt",
      [](CLI::App& command, Sampling<GenerateOptions>& given) {
        GenerateOptions& options = given.options;
        model(command, options.model);
        command.add_option("--prompt", options.prompt, "Text; special tokens are parsed, no chat template is applied");
        path(command, "--prompt-file", options.prompt_file, "A file that holds the prompt");
        token_list(command, options.tokens);
        number(command, "--max-tokens", options.max_tokens, "Longest output, in tokens");
        number(command, "--seed", options.seed, "Seed of the random draws");
        command.add_flag("--ignore-end", options.ignore_end, "Go on past end-of-generation tokens");
        assignments(command, options.model.assignments);
        short_form_options(command, given.short_forms);
      },
      with_sampling<GenerateOptions, generate>);
}

void add_chat(CLI::App& app, Outcome& outcome) {
  add<Sampling<ChatOptions>>(
      app, outcome, "chat", "A conversation: each line of input is a message",
      [](CLI::App& command, Sampling<ChatOptions>& given) {
        ChatOptions& options = given.options;
        model(command, options.model);
        command.add_option("--system", options.system, "The system message");
        command.add_option("--message", options.message, "One message, answered once; else messages come from standard input");
        path(command, "--tools", options.tools, "A JSON file with the tools that the model may call");
        path(command, "--template", options.chat_template, "A file with a chat template, instead of the model's own");
        number(command, "--max-tokens", options.max_tokens, "Longest answer, in tokens");
        number(command, "--context", options.context, "Room for the conversation, in tokens; 0: the model's context, at most 4096");
        number(command, "--seed", options.seed, "Seed of the random draws");
        assignments(command, options.model.assignments);
        short_form_options(command, given.short_forms);
      },
      with_sampling<ChatOptions, chat>);
}

void add_template(CLI::App& app, Outcome& outcome) {
  add<TemplateOptions>(app, outcome, "template", "What a chat template makes of messages: the text and its tokens",
                       [](CLI::App& command, TemplateOptions& options) {
                         model(command, options.model);
                         path(command, "--messages", options.messages, "A JSON file, or - for standard input: [{\"role\": \"user\", \"content\": \"...\"}, ...]")->required();
                         path(command, "--tools", options.tools, "A JSON file with tools");
                         path(command, "--variables", options.variables, "A JSON file with more names for the template (enable_thinking)");
                         path(command, "--template", options.chat_template, "A file with a chat template, instead of the model's own");
                         command.add_flag("--no-generation-prompt", options.no_generation_prompt, "Leave out what opens the answer");
                       }, show_template);
}

void add_perplexity(CLI::App& app, Outcome& outcome) {
  add<PerplexityOptions>(app, outcome, "perplexity", "Perplexity of a text under a named protocol",
                         [](CLI::App& command, PerplexityOptions& options) {
                           model(command, options.model);
                           path(command, "--text", options.text, "The text file")->required();
                           command.add_option("--protocol", options.protocol, "patchbay or llama.cpp: which tokens of a window are scored");
                           number(command, "--window", options.window, "Tokens in a window");
                           number(command, "--chunks", options.chunks, "Windows to score; 0: all");
                           assignments(command, options.model.assignments);
                         }, perplexity);
}

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
        command.add_option("--op", options.op, "The operation of a backend");
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
        path(command, "--picture", options.picture, "Write one warp's access pattern: .svg for one line of the source, .html for the costliest");
        command.add_option("--line", options.line, "Which line of the source the picture shows (gemm.cu:31)");
        threads(command, options.model.threads);
        json_flag(command, options.model.json);
        assignments(command, options.model.assignments);
      },
      profile);
}

void experiment(CLI::App& command, std::string& file, std::vector<std::string>& list) {
  path(command, "file", file, "The experiment's YAML")->required();
  command.add_option("key=value", list, "Changes the experiment (seed=1, evaluation.chunks=2) or its base (kv_store.format=int8)");
}

void add_plan(CLI::App& app, Outcome& outcome) {
  add<PlanOptions>(app, outcome, "plan", "What an experiment would run, and its sizes; checks all of it, loads nothing",
                   [](CLI::App& command, PlanOptions& options) {
                     experiment(command, options.file, options.assignments);
                     json_flag(command, options.json);
                   }, plan);
}

void add_run(CLI::App& app, Outcome& outcome) {
  add<RunOptions>(app, outcome, "run", "Runs an experiment: records in a folder, a table here",
                  [](CLI::App& command, RunOptions& options) {
                    experiment(command, options.file, options.assignments);
                    path(command, "--out", options.out, "Folder of the results; else the experiment's `out`, or results/NAME");
                    command.add_flag("--resume", options.resume, "Go on in a folder: what is finished is kept");
                    command.add_flag("--dry-run", options.dry_run, "Only plan");
                    command.add_flag("--quiet", options.quiet, "No progress: the table alone");
                    command.add_flag("--recalibrate", options.recalibrate, "Measure the machine's limits now, whatever `calibrate` kept");
                    threads(command, options.threads);
                    json_flag(command, options.json);
                  }, run);
}

void add_calibrate(CLI::App& app, Outcome& outcome) {
  add<CalibrateOptions>(app, outcome, "calibrate", "Measures what the machine can move and compute at most; predictions rest on it",
                        [](CLI::App& command, CalibrateOptions& options) {
                          threads(command, options.threads, "Measure 1 to so many threads; 0: all cores");
                          path(command, "--out", options.out, "Write this file; else one in the user's cache folder, which `run` and `bench` read");
                          json_flag(command, options.json);
                        }, calibrate);
}

void add_new(CLI::App& app, Outcome& outcome) {
  add<NewOptions>(app, outcome, "new", "A folder for a new plugin, made from the simplest of its kind",
                  [](CLI::App& command, NewOptions& options) {
                    command.add_option("kind", options.kind, "A kind of plugin, as `patchbay list` heads them (quantizers)")->required();
                    command.add_option("name", options.name, "The plugin's name: a-z, 0-9 and _")->required();
                    path(command, "--dir", options.dir, "Where KIND/NAME is made; else plugins, in the current folder");
                  }, new_plugin);
}

void add_report(CLI::App& app, Outcome& outcome) {
  add<ReportOptions>(app, outcome, "report", "The table of finished runs, again; several folders in one table",
                     [](CLI::App& command, ReportOptions& options) {
                       path(command, "folders", options.folders, "The result folder or folders, as `run` wrote them")->required();
                       path(command, "--csv", options.csv, "Write all metrics with their intervals to this file");
                       path(command, "--html", options.html, "Write a page with tables and plots that needs nothing else to this file");
                       CLI::Option* json = json_flag(command, options.json);
                       command.add_flag("--markdown", options.markdown, "Print the table as Markdown")->excludes(json);
                       command.add_flag("--by-kind", options.by_kind, "Each run once for each kind of prompt, with what was decoded of that kind");
                     }, report);
}

void add_diff(CLI::App& app, Outcome& outcome) {
  add<DiffOptions>(app, outcome, "diff", "Two runs side by side: settings, machine, metrics, and the text token by token",
                   [](CLI::App& command, DiffOptions& options) {
                     const char* what = "FOLDER (its baseline) or FOLDER:RUN, see below";
                     command.footer(std::string("RUN is ") + kRunForms + ".");
                     command.add_option("a", options.first, what)->required();
                     command.add_option("b", options.second, what)->required();
                     json_flag(command, options.json);
                   }, diff);
}

void add_bisect(CLI::App& app, Outcome& outcome) {
  add<BisectOptions>(app, outcome, "bisect", "Where two configurations part: every step of a forward pass of both, side by side",
                     [](CLI::App& command, BisectOptions& options) {
                       command.footer("A and B are each " + std::string(kConfigurationForms) + ". RUN is " + kRunForms +
                                      ".\nExit code 0 whether they differ or not; --json says so in \"equal\".");
                       command.add_option("a", options.first, "A configuration: settings, an experiment's run or a finished one")->required();
                       command.add_option("b", options.second, "Another configuration")->required();
                       command.add_option("--model", options.model, "The model of both, or of sides that do not say model=FILE");
                       command.add_option("--prompt", options.prompt, "What both read; special tokens are parsed, no chat template is applied");
                       path(command, "--prompt-file", options.prompt_file, "A file that holds the prompt");
                       token_list(command, options.tokens);
                       command.add_option("--tolerance", options.tolerance, "Relative RMSE from which on a difference counts as large")
                           ->check(not_a_tolerance);
                       command.add_flag("--all", options.all, "Every operation of every layer in the table");
                       threads(command, options.threads);
                       json_flag(command, options.json);
                       command.add_option("key=value", options.assignments, "Settings of both sides (activations=fp32)");
                     }, bisect);
}

void add_tokens(CLI::App& app, Outcome& outcome) {
  add<TokensOptions>(app, outcome, "tokens", "The tokens that a run predicts worst, in their context",
                     [](CLI::App& command, TokensOptions& options) {
                       command.footer(std::string("RUN is ") + kRunForms + ".");
                       command.add_option("run", options.run, "FOLDER (its baseline) or FOLDER:RUN, see below")->required();
                       command.add_option("--by", options.by, "nll; kl: divergence from the baseline; change: nll above the baseline's")
                           ->check(one_of({"nll", "kl", "change"}));
                       number(command, "--top", options.top, "How many tokens to show", std::int64_t{1}, std::int64_t{1} << 30);
                       path(command, "--text", options.text, "Where the scored text is now");
                       path(command, "--model", options.model, "Where the model is now");
                       json_flag(command, options.json);
                     }, tokens);
}

/// CLI11 would only say that an argument was not expected.
std::string unknown_command(const CLI::App& app, int argc, char** argv) {
  std::vector<std::string> names;
  std::string all;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
    all += (all.empty() ? "" : ", ") + command->get_name();
  }
  if (argc < 2) return "a command is missing; one of: " + all + "; patchbay --help says what they do";
  const std::string given = argv[1];
  if (given.starts_with("-") || std::find(names.begin(), names.end(), given) != names.end()) return {};
  const std::string near = suggestion(given, names);
  return printable(given) + ": unknown command; one of: " + all + "; " +
         (near.empty() ? "patchbay --help says what they do" : "did you mean " + near + "?");
}

/// The first argument that the chosen command still needs: its name and what is meant; "" for none.
std::string missing_argument(const CLI::App& command) {
  for (const CLI::Option* option : command.get_options()) {
    if (!option->get_required() || option->count() > 0) continue;
    std::string name = option->get_name();
    if (!name.starts_with("-")) std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::toupper(c); });
    return name + " is missing: " + option->get_description();
  }
  return {};
}

/// The first argument that the chosen command has no use for: "-resume" may have been meant as --resume.
std::string unexpected_argument(const CLI::App& app, const CLI::App& command) {
  const std::vector<std::string> rest = app.remaining(true);
  if (rest.empty()) return {};
  const std::string& given = rest.front();
  if (!given.starts_with("-")) return "'" + given + "' is one argument too many";
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  const std::string near = suggestion("--" + given.substr(std::min(given.find_first_not_of('-'), given.size())), names);
  return given + ": unknown option" + (near.empty() ? "" : "; did you mean " + near + "?");
}

/// CLI11's own words, but for what it only calls "required" or not expected, and with the command that they are about.
int usage_error(const CLI::App& app, const CLI::ParseError& error) {
  std::string name = "patchbay", words;
  for (const CLI::App* command : app.get_subcommands()) {
    name += " " + command->get_name();
    if (error.get_name() == "RequiredError") words = missing_argument(*command);
    if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError)) words = unexpected_argument(app, *command);
  }
  std::fprintf(stderr, "%s: %s; %s --help says more\n", name.c_str(), printable(words.empty() ? error.what() : words).c_str(), name.c_str());
  return kUsage;
}

/// The program's build and that of the core library that it runs with: they differ in a tree that was rebuilt in part.
std::string version_text() {
  const Environment core = environment();
  return "patchbay " PATCHBAY_VERSION " (" PATCHBAY_BUILD_ID ")\ncore library " + core.version + " (" + core.build_id + "), commit " + core.commit;
}

int run_command(int argc, char** argv) {
  CLI::App app("patchbay: a laboratory for LLM inference");
  Outcome outcome;
  app.require_subcommand(1);
  app.set_version_flag("--version", version_text);
  add_list(app, outcome);
  add_describe(app, outcome);
  add_check(app, outcome);
  add_inspect(app, outcome);
  add_convert(app, outcome);
  add_tokenize(app, outcome);
  add_logits(app, outcome);
  add_generate(app, outcome);
  add_chat(app, outcome);
  add_template(app, outcome);
  add_perplexity(app, outcome);
  add_bench(app, outcome);
  add_profile(app, outcome);
  add_plan(app, outcome);
  add_run(app, outcome);
  add_calibrate(app, outcome);
  add_new(app, outcome);
  add_report(app, outcome);
  add_diff(app, outcome);
  add_bisect(app, outcome);
  add_tokens(app, outcome);
  if (const std::string wrong = unknown_command(app, argc, argv); !wrong.empty()) {
    std::fprintf(stderr, "patchbay: %s\n", wrong.c_str());
    return kUsage;
  }
  try {
    app.parse(argc, argv);
    if (std::fflush(stdout) != 0 || std::ferror(stdout)) throw Error("standard output", "writing failed", "", "is the disk full?");
    return outcome.code;
  } catch (const CLI::ParseError& error) {
    return error.get_exit_code() == 0 ? app.exit(error) : usage_error(app, error);  // help and version are "errors" of code 0
  }
}

constexpr char kOutOfMemory[] = "patchbay: out of memory: a smaller model, cache or context needs less\n";  // needs none to be said

const std::terminate_handler standard_terminate = std::get_terminate();
std::atomic<bool> memory_ran_out{false};
void on_no_memory() {
  memory_ran_out = true;
  throw std::bad_alloc();
}

/// Some functions that may not throw take memory all the same (nlohmann::json's destructor, the file system library's iterators). Where that
/// fails the language ends the process: with our words, then.
[[noreturn]] void on_terminate() {
  if (!memory_ran_out) standard_terminate();
  [[maybe_unused]] const auto ignored = ::write(STDERR_FILENO, kOutOfMemory, sizeof kOutOfMemory - 1);
  ::_exit(kFailure);  // results are written so that this loses none
}

int main(int argc, char** argv) {
  report_shortened_models();
  std::set_new_handler(on_no_memory);
  std::set_terminate(on_terminate);
  std::signal(SIGXFSZ, SIG_IGN);  // a write beyond `ulimit -f` is then an error like that of a full disk
  try {
    return run_command(argc, argv);
  } catch (const std::bad_alloc&) {
    std::fflush(stdout);
    std::fputs(kOutOfMemory, stderr);
  } catch (const std::exception& error) {
    std::fflush(stdout);
    std::fprintf(stderr, "patchbay: %s\n", reason_of(error).c_str());
  }
  return kFailure;
}

}  // namespace
}  // namespace patchbay::app

int main(int argc, char** argv) { return patchbay::app::main(argc, argv); }
