// patchbay chat: a conversation. On a terminal line by line, with commands; else each line of standard input is a message, or --message
// is the only one.
//
// --json: for each message one line: {"prompt_tokens", "reused_tokens", "tokens": [..], "text", "finish"}, or {"error": why there is no answer}.
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
#include "json_text.h"
#include "utf8.h"

namespace patchbay::app {
namespace {

constexpr const char* kBeginAnew = "begin anew (/reset), or ";
constexpr const char* kHelp =
    "/reset forgets the conversation (the system message stays), /exit or Ctrl-D ends, /help shows this; //text says /text.\n"
    "Ctrl-C stops an answer.\n";

/// So many bytes of a line, and its end, are all that a terminal passes on (Linux's N_TTY_BUF_SIZE): what comes after them is lost.
constexpr std::size_t kTerminalLine = 4095;

bool is_blank(const std::string& line) { return line.find_first_not_of(" \t\r") == std::string::npos; }

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

/// Says one thing and shows the answer.
void answer(ChatSession& chat, const std::string& message, const ChatOptions& options, bool terminal) {
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
  if (terminal && answer.text.empty() && answer.result.finish == GenerationResult::Finish::stop && !stopped) fmt::print("(the model ended its answer at once)\n");
  if (answer.result.finish == GenerationResult::Finish::full || (!stopped && length > chat.session().runner().context_length())) {
    fmt::print(stderr, "patchbay: the answer was cut off: the context of {} tokens is full; {}give it more room (--context)\n",
               chat.session().runner().context_length(), terminal ? kBeginAnew : "");
  } else if (!stopped && answer.result.finish == GenerationResult::Finish::length) {
    fmt::print(stderr, "patchbay: the answer was cut off after {} tokens (--max-tokens)\n", answer.result.tokens.size());
  }
}

void refuse(const Error& error, const ChatOptions& options) {
  if (options.model.json) fmt::print("{}\n", json_text(nlohmann::json({{"error", error.what()}})));
  else fmt::print(stderr, "patchbay: {}\n", error.what());
  std::fflush(stdout);
}

/// The same; what is wrong with this message is told, and the conversation goes on without it. False then.
bool say(ChatSession& chat, const std::string& message, const ChatOptions& options, bool terminal = false) {
  try {
    answer(chat, message, options, terminal);
    return true;
  } catch (const Error& error) {
    refuse(error, options);
    return false;
  }
}

/// A line that a terminal has cut would be another message than the one that was meant.
Error cut_line() {
  return {"message", fmt::format("fills a terminal's line of {} bytes, which passes on no more: its end may be lost", kTerminalLine), {},
          "send it from a file: patchbay chat < FILE, or --message \"$(cat FILE)\""};
}

/// On a terminal: a person sees what goes wrong, so that is no failure of the program.
void converse(ChatSession& chat, const ChatOptions& options) {
  fmt::print("{}", kHelp);
  std::string line;
  while (fmt::print("> "), std::fflush(stdout), std::getline(std::cin, line)) {
    if (line == "/exit") return;
    if (is_blank(line)) continue;
    if (line == "/reset") {
      chat.reset();
    } else if (line.starts_with('/') && !line.starts_with("//")) {
      fmt::print("{}{}", line == "/help" ? "" : "unknown command: " + printable(line) + "\n", kHelp);
    } else if (line.size() >= kTerminalLine) {
      refuse(cut_line(), options);
    } else {
      say(chat, line.starts_with("//") ? line.substr(1) : line, options, true);
      if (interrupt_signal() == SIGTERM) return;
    }
  }
  fmt::print("\n");
}

/// Each line of standard input is a message; with --json each line has an answer, so that the two can be counted against each other. Whether all
/// were answered.
bool answer_lines(ChatSession& chat, const ChatOptions& options) {
  const bool terminal = ::isatty(STDIN_FILENO) == 1;
  bool all = true;
  for (std::string line; interrupt_signal() != SIGTERM && std::getline(std::cin, line);) {
    if (terminal && line.size() >= kTerminalLine) {
      refuse(cut_line(), options);
      all = false;
    } else if (!is_blank(line)) {
      all = say(chat, line, options) && all;
    } else if (options.model.json) {
      refuse({"message", "is empty"}, options);
      all = false;
    }
  }
  return all;
}

}  // namespace

int chat(const ChatOptions& options) {
  if (options.max_tokens < 1) throw Error("--max-tokens", "is " + std::to_string(options.max_tokens), "1 or more");
  ChatTemplate chat_template = open_chat_template(options.model.model, options.chat_template, options.tools.has_value());  // before the weights
  ChatSession::Settings settings{options.system, nullptr, options.max_tokens, options.seed};
  const bool terminal = !options.message && !options.model.json && ::isatty(STDIN_FILENO) == 1;
  if (terminal) settings.to_begin_anew = kBeginAnew;
  if (options.system && !is_utf8(*options.system)) throw Error("--system", "is not UTF-8", "UTF-8");
  if (options.tools) settings.tools = read_json(*options.tools), settings.tools_from = escaped(*options.tools);
  note_unread_tools(chat_template, options.tools.has_value());
  ChatSession chat(open_session_for_chat(options), std::move(chat_template), std::move(settings));
  if (const std::string idle = idle_processors(chat.session()); !idle.empty()) fmt::print(stderr, "patchbay: note: {}\n", idle);
  bool all = true;
  if (terminal) converse(chat, options);
  else all = options.message ? say(chat, *options.message, options) : answer_lines(chat, options);
  return interrupt_signal() == SIGTERM ? 128 + SIGTERM : all ? 0 : 1;
}

}  // namespace patchbay::app
