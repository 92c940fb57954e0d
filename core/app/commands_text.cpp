// Commands that run a model on a text: logits, generate, chat, perplexity.
#include "command_line.h"
#include "short_forms.h"

namespace patchbay::app {
namespace {

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

}  // namespace

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

}  // namespace patchbay::app
