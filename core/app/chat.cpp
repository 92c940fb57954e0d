// patchbay chat: a conversation. On a terminal line by line, with commands; else each line of standard input is a message, or --message
// is the only one.
#include <fmt/core.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <iostream>

#include "chat_inputs.h"
#include "chat_session.h"
#include "commands.h"
#include "common.h"
#include "engine/model_spec.h"
#include "files.h"
#include "idle_processors.h"
#include "interrupt.h"

namespace patchbay::app {
namespace {

constexpr const char* kHelp =
    "/reset forgets the conversation (the system message stays), /exit or Ctrl-D ends, /help shows this.\n"
    "Ctrl-C stops an answer.\n";

std::unique_ptr<Session> open_session_for_chat(const ChatOptions& options) {
  const RunConfig config = run_config(options.model.assignments, options.model.threads);
  const auto model = ModelFile::open(find_model(options.model.model));
  const std::int64_t context = read_model_spec(*model).context;
  if (options.context < 0 || options.context > context)
    throw Error("--context", "is " + std::to_string(options.context), "1 to " + std::to_string(context) + ", the model's own; 0: as much as usual");
  return std::make_unique<Session>(model, config, SessionOptions{options.context, 2});  // the sequence at work, and the last one
}

void print_json(const ChatAnswer& answer) {
  const nlohmann::ordered_json line = {{"prompt_tokens", answer.prompt.size()}, {"reused_tokens", answer.reused}, {"tokens", answer.result.tokens},
                                       {"text", answer.text}, {"finish", name_of(answer.result.finish)}};
  fmt::print("{}\n", line.dump());
  std::fflush(stdout);
}

/// Says one thing and shows the answer. False when the program is to end.
bool say(ChatSession& chat, const std::string& message, const ChatOptions& options) {
  const InterruptGuard guard;
  clear_interrupt();
  const auto show = [&](const std::string& text) {
    if (options.model.json) return;
    std::fputs(text.c_str(), stdout);
    std::fflush(stdout);
  };
  const ChatAnswer answer = chat.say(message, show, [] { return interrupt_signal() != 0; });
  if (options.model.json) {
    print_json(answer);
  } else {
    std::fputs("\n", stdout);
    std::fflush(stdout);
  }
  const auto length = static_cast<std::int64_t>(answer.prompt.size() + answer.result.tokens.size());
  const bool stopped = interrupt_signal() != 0;
  if (answer.result.finish == GenerationResult::Finish::full || (!stopped && length > chat.session().runner().context_length())) {
    fmt::print(stderr, "patchbay: the answer was cut off: the context of {} tokens is full; begin anew (/reset), or give it more room (--context)\n",
               chat.session().runner().context_length());
  } else if (!stopped && answer.result.finish == GenerationResult::Finish::length) {
    fmt::print(stderr, "patchbay: the answer was cut off after {} tokens (--max-tokens)\n", answer.result.tokens.size());
  }
  return interrupt_signal() != SIGTERM;
}

void converse(ChatSession& chat, const ChatOptions& options) {
  fmt::print("{}", kHelp);
  std::string line;
  while (fmt::print("> "), std::fflush(stdout), std::getline(std::cin, line)) {
    if (line == "/exit") return;
    if (line.find_first_not_of(" \t") == std::string::npos) continue;
    if (line == "/reset") {
      chat.reset();
    } else if (line.starts_with('/')) {
      fmt::print("{}{}", line == "/help" ? "" : "unknown command: " + printable(line) + "\n", kHelp);
    } else {
      try {
        if (!say(chat, line, options)) return;
      } catch (const Error& error) {  // of this message: the conversation goes on without it
        fmt::print(stderr, "patchbay: {}\n", error.what());
      }
    }
  }
  fmt::print("\n");
}

}  // namespace

int chat(const ChatOptions& options) {
  if (options.max_tokens < 1) throw Error("--max-tokens", "is " + std::to_string(options.max_tokens), "1 or more");
  ChatTemplate chat_template = open_chat_template(options.model.model, options.chat_template, options.tools.has_value());  // before the weights
  ChatSession::Settings settings{options.system, nullptr, options.max_tokens, options.seed};
  if (options.tools) settings.tools = read_json(*options.tools);
  ChatSession chat(open_session_for_chat(options), std::move(chat_template), std::move(settings));
  if (const std::string idle = idle_processors(chat.session()); !idle.empty()) fmt::print(stderr, "patchbay: note: {}\n", idle);
  if (options.message) {
    say(chat, *options.message, options);
  } else if (::isatty(STDIN_FILENO) == 1 && !options.model.json) {
    converse(chat, options);
  } else {
    for (std::string line; std::getline(std::cin, line);)
      if (!line.empty() && !say(chat, line, options)) break;
  }
  return interrupt_signal() == SIGTERM ? 128 + SIGTERM : 0;
}

}  // namespace patchbay::app
