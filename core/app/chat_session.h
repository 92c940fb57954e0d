/// @file chat_session.h
/// A conversation with a model: each answer continues the cache of the one before.
#pragma once
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "chat/chat_template.h"
#include "generation.h"
#include "session.h"

namespace patchbay::app {

/// Keeps the cache of the sequence that ended last: the next one begins with as much of it as its text has in common.
class LastSequence : public KvPrefix {
 public:
  explicit LastSequence(ModelRunner& runner) : runner_(runner) {}
  PrefixMatch match(std::span<const std::int32_t> tokens) override;
  bool donate(SeqId seq, std::span<const std::int32_t> tokens) override;
  void clear();

 private:
  ModelRunner& runner_;
  SeqId kept_ = -1;
  std::vector<std::int32_t> tokens_;
};

struct ChatAnswer {
  std::string text;
  std::vector<Token> prompt;
  std::int64_t reused = 0;  ///< tokens of the prompt whose cache was there already
  GenerationResult result;
};

class ChatSession {
 public:
  struct Settings {
    std::optional<std::string> system;
    nlohmann::ordered_json tools;  ///< null: none
    std::int64_t max_tokens = 1024;
    std::uint64_t seed = 0;
    std::string tools_from = "tools";      ///< the file, for messages
    std::string to_begin_anew = "";        ///< how the user forgets a conversation: begins the remedy where it is full
  };
  ChatSession(std::unique_ptr<Session> session, ChatTemplate chat_template, Settings settings);

  /// Says something to the model. What it answers is kept, whole or as far as `stop` let it come.
  /// @param on_text what is complete of the answer, in UTF-8; @param stop asked after each token
  /// @throws Error where the conversation does not fit the context; the message is then forgotten.
  ChatAnswer say(const std::string& message, const std::function<void(const std::string&)>& on_text, const std::function<bool()>& stop);
  /// Forgets all but the system's message.
  void reset();
  Session& session() { return *session_; }

 private:
  std::vector<Token> prompt();
  GenerationResult generate(const std::vector<Token>& prompt, const std::function<void(const std::string&)>& on_text, const std::function<bool()>& stop);

  std::unique_ptr<Session> session_;
  ChatTemplate template_;
  Settings settings_;
  Token end_of_turn_;
  LastSequence last_;
  nlohmann::ordered_json messages_;
  std::uint64_t answers_ = 0;  ///< so far: each draws from a random stream of its own
};

}  // namespace patchbay::app
