#include "chat_session.h"

#include <algorithm>

#include "chat_inputs.h"
#include "common.h"
#include "patchbay/decoder.h"
#include "session_generation.h"
#include "utf8_prefix.h"

namespace patchbay::app {

PrefixMatch LastSequence::match(std::span<const std::int32_t> tokens) {
  if (kept_ < 0 || tokens.empty()) return {};
  const auto common = std::ranges::mismatch(tokens.first(tokens.size() - 1), tokens_).in1 - tokens.begin();
  return common > 0 ? PrefixMatch{kept_, common} : PrefixMatch{};
}

bool LastSequence::donate(SeqId seq, std::span<const std::int32_t> tokens) {
  clear();
  kept_ = seq;
  tokens_.assign(tokens.begin(), tokens.end());
  return true;
}

void LastSequence::clear() {
  if (kept_ >= 0) runner_.close(kept_);
  kept_ = -1;
  tokens_.clear();
}

ChatSession::ChatSession(std::unique_ptr<Session> session, ChatTemplate chat_template, Settings settings)
    : session_(std::move(session)), template_(std::move(chat_template)), settings_(std::move(settings)),
      end_of_turn_(template_.end_of_turn(session_->tokenizer())), last_(session_->runner()) {
  reset();
}

void ChatSession::reset() {
  messages_ = nlohmann::ordered_json::array();
  if (settings_.system) messages_.push_back({{"role", "system"}, {"content", *settings_.system}});
}

std::vector<Token> ChatSession::prompt() {
  const auto* tools = settings_.tools.is_null() ? nullptr : &settings_.tools;
  ChatInput input{messages_, tools, nullptr, true, local_time()};
  input.messages_from = "conversation";
  input.tools_from = settings_.tools_from;
  const std::vector<Token> tokens = session_->tokenizer().encode(template_.render(input));
  const auto length = static_cast<std::int64_t>(tokens.size()), room = session_->runner().context_length();
  if (tokens.empty()) throw Error("chat template", "it makes nothing of the messages");
  if (length > room) {
    throw Error("conversation", "has " + std::to_string(length) + " tokens and the context " + std::to_string(room), "",
                settings_.to_begin_anew + "give it more room (--context)");
  }
  return tokens;
}

ChatAnswer ChatSession::say(const std::string& message, const std::function<void(const std::string&)>& on_text, const std::function<bool()>& stop) {
  if (const std::size_t good = utf8_prefix(message); good < message.size()) throw Error("message", "is not UTF-8 at byte " + std::to_string(good), "UTF-8");
  messages_.push_back({{"role", "user"}, {"content", message}});
  try {
    ChatAnswer answer;
    answer.prompt = prompt();
    answer.reused = last_.match(answer.prompt).tokens;
    answer.result = generate(answer.prompt, [&](const std::string& text) { answer.text += text, on_text(text); }, stop);
    messages_.push_back({{"role", "assistant"}, {"content", answer.text}});
    return answer;
  } catch (const std::exception&) {
    messages_.erase(messages_.size() - 1);
    throw;
  }
}

GenerationResult ChatSession::generate(const std::vector<Token>& prompt, const std::function<void(const std::string&)>& on_text,
                                       const std::function<bool()>& stop) {
  const Tokenizer& tokenizer = session_->tokenizer();
  Utf8Stream stream;
  GenerationRequest request = generation_request(*session_, prompt, settings_.max_tokens);
  request.seed = settings_.seed;
  request.stream = answers_++;
  request.is_end = [&](Token token) { return token == end_of_turn_ || tokenizer.is_end_of_generation(token) || stop(); };
  request.on_token = [&](Token token) {
    if (const std::string text = stream.push(tokenizer.piece(token, false)); !text.empty()) on_text(text);
  };
  GenerationOptions engine = generation_options(*session_);
  if (session_->config().kv_prefix.type == "none") engine.prefix = &last_;
  const GenerationResult result = patchbay::generate(session_->runner(), {&request, 1}, engine)[0];
  if (const std::string rest = stream.finish(); !rest.empty()) on_text(rest);
  return result;
}

}  // namespace patchbay::app
