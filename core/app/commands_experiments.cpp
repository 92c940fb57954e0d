// Commands about experiments and their records: plan, run, report, diff, bisect, tokens.
#include <charconv>
#include <cmath>

#include "command_line.h"
#include "configuration.h"
#include "experiment/run_reference.h"

namespace patchbay::app {
namespace {

std::string not_a_tolerance(const std::string& text) {
  double value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool good = code == std::errc() && end == text.data() + text.size() && std::isfinite(value) && value >= 0;
  return good ? std::string() : "'" + text + "' is no number of 0 or more";
}
void experiment(CLI::App& command, std::string& file, std::vector<std::string>& list) {
  path(command, "file", file, "The experiment's YAML")->required();
  command.add_option("key=value", list, "Changes the experiment (seed=1, evaluation.chunks=2) or its base (kv_store.format=int8)");
}

}  // namespace

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

void add_report(CLI::App& app, Outcome& outcome) {
  add<ReportOptions>(app, outcome, "report", "The table of finished runs, again; several folders in one table",
                     [](CLI::App& command, ReportOptions& options) {
                       path(command, "folders", options.folders, "The result folder or folders, as `run` wrote them")->required();
                       path(command, "--csv", options.csv, "Write all metrics with their intervals to this file");
                       path(command, "--html", options.html, "Write a page with tables and plots that needs nothing else to this file");
                       CLI::Option* json = json_flag(command, options.json);
                       command.add_flag("--markdown", options.markdown, "Print the table as Markdown")->excludes(json);
                       CLI::Option* by_kind = command.add_flag("--by-kind", options.by_kind, "Each run once for each kind of prompt, with what was decoded of that kind");
                       command.add_option("--against", options.against, "RUN: each run's quality against this run's instead of the baseline's, paired by token")
                           ->excludes(by_kind);
                       command.footer(std::string("RUN is ") + kRunForms + ".\nA label that several runs have stands for a setting: each run is then put against the one that has it and the same other labels.");
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

}  // namespace patchbay::app
