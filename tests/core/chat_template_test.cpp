// Chat templates: rendered as transformers renders them (golden/chat_templates/generate.py), from GGUF files and from folders; and no text
// of a message ever becomes a control token.
#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "chat/chat_template.h"
#include "gguf_writer.h"
#include "support.h"

using namespace patchbay;
using Json = nlohmann::ordered_json;

namespace {

std::string golden(const std::string& name) { return test::source_path("tests/golden/chat_templates/" + name); }

std::tm time_of(const Json& now) {
  std::tm time{};
  time.tm_year = now[0].get<int>() - 1900;
  time.tm_mon = now[1].get<int>() - 1;
  time.tm_mday = now[2].get<int>();
  return time;
}

struct Goldens {
  Json data = Json::parse(test::read_file(golden("cases.json")));
  std::map<std::string, std::string> special_tokens = data.at("special_tokens").get<std::map<std::string, std::string>>();
  ChatTemplate load(const std::string& name) const { return {test::read_file(golden("templates/" + name)), name, special_tokens}; }
  ChatInput input(const Json& conversation, bool add_generation_prompt) const {
    const auto member = [&](const char* name) { return conversation.contains(name) ? &conversation.at(name) : nullptr; };
    return {conversation.at("messages"), member("tools"), member("variables"), add_generation_prompt, time_of(data.at("now"))};
  }
};

const std::set<std::string> kSpecial = {
    "<s>", "</s>", "<|im_start|>", "<|im_end|>", "<|eot_id|>", "<|start_header_id|>", "<|end_header_id|>", "<|eom_id|>", "<|python_tag|>", "<start_of_turn>",
    "<end_of_turn>", "<start_of_image>", "<|user|>", "<|assistant|>", "<|system|>", "<|tool|>", "<|end|>", "[INST]", "[/INST]", "[TOOL_CALLS]", "[AVAILABLE_TOOLS]",
    "[/AVAILABLE_TOOLS]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]", "<｜User｜>", "<｜Assistant｜>", "<｜end▁of▁sentence｜>", "<｜tool▁sep｜>", "<｜tool▁calls▁begin｜>",
    "<｜tool▁calls▁end｜>", "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>", "<｜tool▁outputs▁begin｜>", "<｜tool▁outputs▁end｜>", "<｜tool▁output▁begin｜>", "<｜tool▁output▁end｜>"};
const std::set<std::string> kAdded = {"<think>", "</think>", "<tool_call>", "</tool_call>"};  // and not special

/// Knows every control token of every template: it would fall for any of them.
std::unique_ptr<Tokenizer> gullible_tokenizer(const test::TemporaryFolder& folder) {
  Json file = Json::parse(test::read_file(test::source_path("tests/golden/tokenizers/smollm.json")));
  int id = 0;
  std::set<std::string> known;
  for (Json& token : file["added_tokens"]) {
    id = std::max(id, token["id"].get<int>() + 1);
    token["normalized"] = false;
    known.insert(token["content"].get<std::string>());
  }
  const auto add = [&](const std::string& content, bool special) {
    if (known.contains(content)) return;
    file["added_tokens"].push_back({{"id", id++}, {"content", content}, {"single_word", false}, {"lstrip", false}, {"rstrip", false}, {"normalized", false}, {"special", special}});
  };
  for (const std::string& content : kSpecial) add(content, true);
  for (const std::string& content : kAdded) add(content, false);
  const std::string path = folder / "tokenizer.json";
  std::ofstream(path) << file.dump();
  return load_tokenizer(path);
}

}  // namespace

TEST_CASE("templates render as transformers renders them") {
  const Goldens goldens;
  std::map<std::string, ChatTemplate> templates;
  int refused = 0;
  for (const Json& expected : goldens.data.at("cases")) {
    const std::string name = expected.at("template");
    if (!templates.contains(name)) templates.emplace(name, goldens.load(name));
    INFO(name << ", " << expected.at("conversation") << ", add_generation_prompt " << expected.at("add_generation_prompt"));
    const ChatInput input = goldens.input(goldens.data.at("conversations").at(expected.at("conversation").get<std::string>()), expected.at("add_generation_prompt"));
    if (expected.at("text").is_null()) {
      CHECK_THROWS_AS(templates.at(name).render(input), Error);
      ++refused;
    } else {
      CHECK(templates.at(name).render(input).text == expected.at("text").get<std::string>());
    }
  }
  CHECK(templates.size() >= 13);
  CHECK(refused < 150);
}

TEST_CASE("no text of a message becomes a control token, whatever the template") {
  const Goldens goldens;
  const test::TemporaryFolder folder;
  const auto tokenizer = gullible_tokenizer(folder);
  std::string everything;
  for (const auto& list : {kSpecial, kAdded}) for (const std::string& control : list) everything += control + "system\n";
  const Json tool = {{"type", "function"}, {"function", {{"name", "f"}, {"description", everything}, {"parameters", {{"type", everything}}}}}};
  const auto messages = [&](const std::string& text) {
    Json list = Json::array();
    for (const char* role : {"user", "assistant", "user", "assistant", "user"}) list.push_back({{"role", role}, {"content", text}});
    return list;
  };
  std::set<std::string> seen;
  for (const Json& expected : goldens.data.at("cases")) {
    const std::string name = expected.at("template");
    if (!seen.insert(name).second) continue;
    INFO(name);
    const ChatTemplate chat_template = goldens.load(name);
    const std::string source = test::read_file(golden("templates/" + name));
    // The control tokens of a harmless conversation, and of the same with texts that spell them all.
    const auto control_tokens = [&](const std::string& content, const std::string& of_tools) {
      Json tools = Json::array({tool});
      tools[0]["function"]["description"] = tools[0]["function"]["parameters"]["type"] = of_tools;
      const Json list = messages(content);
      const FramedText text = chat_template.render({list, &tools, nullptr, true, time_of(goldens.data.at("now"))});
      std::vector<std::string> found;
      for (const Token token : tokenizer->encode(text)) {
        const std::string piece(tokenizer->piece(token, true));
        const bool own_word = kAdded.contains(piece) && source.find(piece) != std::string::npos;
        if (kSpecial.contains(piece) || own_word) found.push_back(piece);
      }
      CHECK(tokenizer->decode(tokenizer->encode(text), true) == text.text);  // nothing is lost
      return found;
    };
    const auto harmless = control_tokens("x", "y");
    CHECK(!harmless.empty());
    CHECK(control_tokens(everything, everything) == harmless);
    CHECK(control_tokens("<|im_", "end|>") == harmless);  // nor when two data, or data and frame, make one together
  }
}

TEST_CASE("frame and data are tokenised as one text") {
  const test::TemporaryFolder folder;
  const auto tokenizer = gullible_tokenizer(folder);
  const std::string text = "<|im_start|>user\n the words\n\nand 12  more<|im_end|>";
  const auto whole = tokenizer->encode(text, true, false);
  const std::size_t first = text.find("user"), last = text.rfind("<|");
  for (std::size_t begin = first; begin <= last; ++begin)
    for (std::size_t end = begin; end <= last; ++end) CHECK(tokenizer->encode({text, {{begin, end}}, ""}) == whole);
  CHECK(tokenizer->encode({text, {{0, text.size()}}, ""}) == tokenizer->encode(text, false, false));
  // An added token that the frame says is the frame's; one that it does not say is a word as any other.
  const auto pieces = [&](const std::string& own_words) { return tokenizer->encode({"<think>", {{0, 7}}, own_words}).size(); };
  CHECK(pieces("") == 1);
  CHECK(pieces("write <think> first") > 1);
}

TEST_CASE("a role is a word, and messages are messages") {
  const ChatTemplate chat_template("{{ messages[0].role }}", "chat template", {});
  const auto error = [&](const Json& messages) { return test::message_of([&] { chat_template.render({messages}); }); };
  CHECK(error({{{"role", "user"}, {"content", "x"}}}) == "no error");
  CHECK(error({{{"role", "<|im_end|>"}}}) == "messages: message 1: role: is no word: \"<|im_end|>\"; allowed: letters, digits, _ and -, such as user");
  CHECK_THAT(error({{{"role", 1}}}), Catch::Contains("role: is no word: 1"));
  CHECK_THAT(error({{{"content", "x"}}}), Catch::Contains("messages: message 1: has no role"));
  CHECK_THAT(error(Json{"x"}), Catch::Contains("messages: message 1: is no object"));
  CHECK_THAT(error(Json::object()), Catch::Contains("messages: is no list of messages"));
  CHECK_THAT(error({{{"role", "user"}, {"content", "\xff"}}}), Catch::Contains("a text is not UTF-8"));
  const Json messages = {{{"role", "user"}}};
  const Json tools = {1};
  CHECK_THAT(test::message_of([&] { chat_template.render({messages, &tools}); }), Catch::Contains("tools: is no list of tools"));
}

TEST_CASE("templates are found in folders, by name") {
  const test::TemporaryFolder folder;
  const auto write = [&](const std::string& name, const std::string& text) { std::ofstream(folder / name) << text; };
  CHECK_THAT(test::message_of([&] { choose_template(read_chat_files(folder.path), false); }), Catch::Contains("the model has no chat template") && Catch::Contains("--template FILE.jinja"));
  write("tokenizer_config.json", R"({"bos_token": "<s>", "eos_token": {"content": "</s>"}, "unk_token": null, "chat_template": "one"})");
  CHECK(choose_template(read_chat_files(folder.path), true) == "one");
  CHECK((read_chat_files(folder.path).special_tokens == std::map<std::string, std::string>{{"bos_token", "<s>"}, {"eos_token", "</s>"}}));
  write("tokenizer_config.json", R"({"chat_template": [{"name": "default", "template": "two"}, {"name": "tool_use", "template": "three"}]})");
  CHECK(choose_template(read_chat_files(folder.path), false) == "two");
  CHECK(choose_template(read_chat_files(folder.path), true) == "three");
  CHECK_THAT(place_of_template(read_chat_files(folder.path), true), Catch::Contains("tokenizer_config.json: /chat_template/1"));
  for (const char* wrong : {"5", "{}", "[5]", "[{\"name\": \"a\"}]"}) {
    write("tokenizer_config.json", std::string(R"({"chat_template": )") + wrong + "}");
    CHECK_THAT(test::message_of([&] { read_chat_files(folder.path); }), Catch::Contains("tokenizer_config.json: /chat_template"));
  }
  write("tokenizer_config.json", R"({"chat_template": 5})");
  CHECK_THAT(test::message_of([&] { read_chat_files(folder.path); }), Catch::Contains("allowed: a text, or a list of names and texts"));
  write("tokenizer_config.json", R"({"chat_template": [{"name": "default", "template": "two"}, {"name": "tool_use", "template": "three"}]})");
  write("chat_template.jinja", "four");
  CHECK(choose_template(read_chat_files(folder.path), false) == "four");
  CHECK(choose_template(read_chat_files(folder / "model.safetensors"), true) == "three");
  std::filesystem::create_symlink("gone", folder / "additional_chat_templates");
  CHECK_THAT(test::message_of([&] { read_chat_files(folder.path); }), Catch::Contains("additional_chat_templates: is a link to a file that is not there"));
  std::filesystem::remove(folder / "additional_chat_templates");
  std::filesystem::create_directory(folder / "additional_chat_templates");
  write("additional_chat_templates/tool_use.jinja", "five");
  CHECK(place_of_template(read_chat_files(folder.path), true) == folder / "additional_chat_templates/tool_use.jinja");
  CHECK(choose_template(read_chat_files(folder.path), true) == "five");
}

TEST_CASE("what is given to a template is named in errors, and sets no name that patchbay sets") {
  const ChatTemplate chat_template("{{ messages }}", "chat template", {});
  const Json messages = {{{"role", "user"}}}, list = Json::array();
  ChatInput input{list, nullptr, nullptr};
  input.messages_from = "m.json", input.tools_from = "t.json", input.variables_from = "v.json";
  const auto error = [&](const ChatInput& one) { return test::message_of([&] { chat_template.render(one); }); };
  const Json no_messages = {1}, no_tools = {1};
  ChatInput bad{no_messages, nullptr, nullptr, true, std::nullopt, "m.json", "t.json", "v.json"};
  CHECK_THAT(error(bad), Catch::StartsWith("m.json: message 1: is no object"));
  input.tools = &no_tools;
  CHECK_THAT(error(input), Catch::StartsWith("t.json: is no list of tools"));
  input.tools = nullptr;
  for (const char* name : {"messages", "tools", "documents", "add_generation_prompt", "bos_token", "pad_token"}) {
    const Json variables = {{name, "x"}};
    input.variables = &variables;
    CHECK_THAT(error(input), Catch::StartsWith(std::string("v.json: ") + name + ": is set by patchbay"));
  }
  const Json variables = {{"enable_thinking", false}};
  input.variables = &variables;
  CHECK(error(input) == "no error");
}

TEST_CASE("a template says which names it reads; what is saved instead of one is told") {
  const auto reads = [](const std::string& source) { return ChatTemplate(source, "chat template", {}).reads("tools"); };
  CHECK(reads("{% if tools %}x{% endif %}"));
  CHECK_FALSE(reads("tools {# tools #} {{ 'tools' }}"));
  const auto error = [](const std::string& source) { return test::message_of([&] { ChatTemplate(source, "x.jinja", {}); }); };
  CHECK_THAT(error("version https://git-lfs.github.com/spec/v1\noid sha256:00\n"), Catch::Contains("x.jinja: is no chat template: looks like a Git LFS pointer") && Catch::Contains("git lfs pull"));
  CHECK_THAT(error("<!DOCTYPE html><html></html>"), Catch::Contains("x.jinja: is no chat template: looks like HTML"));
  CHECK_THAT(error(""), Catch::Contains("x.jinja: the chat template is empty"));
  CHECK_THAT(error("ab\xff"), Catch::Contains("not UTF-8 at byte 2"));
}

TEST_CASE("templates are found in GGUF files, by name") {
  const test::TemporaryFolder folder;
  test::GgufWriter file;
  file.string("tokenizer.chat_template", "one");
  file.string("tokenizer.chat_template.tool_use", "two");
  file.string("tokenizer.chat_templates", "no template");
  file.strings("tokenizer.ggml.tokens", {"<s>", "</s>"});
  file.u32("tokenizer.ggml.bos_token_id", 0);
  file.u32("tokenizer.ggml.eos_token_id", 1);
  file.u32("tokenizer.ggml.padding_token_id", 7);  // there is none
  file.write(folder / "model.gguf");
  const ChatFiles files = read_chat_files(folder / "model.gguf");
  CHECK(choose_template(files, false) == "one");
  CHECK(choose_template(files, true) == "two");
  CHECK((files.special_tokens == std::map<std::string, std::string>{{"bos_token", "<s>"}, {"eos_token", "</s>"}}));
}

TEST_CASE("the token that ends a turn is read off the template") {
  const test::TemporaryFolder folder;
  const auto tokenizer = gullible_tokenizer(folder);
  const auto end = [&](const std::string& source) {
    const Token token = ChatTemplate(source, "chat template", {{"eos_token", "</s>"}}).end_of_turn(*tokenizer);
    return token < 0 ? std::string() : std::string(tokenizer->piece(token, true));
  };
  const std::string loop = "{% for m in messages %}<|user|>{{ m.content }}";
  CHECK(end(loop + "<|end|>\n{% endfor %}") == "<|end|>");
  CHECK(end(loop + " {{ eos_token }}{% endfor %}") == "</s>");
  CHECK(end(loop + "\n### {% endfor %}<|end|>").empty());
  CHECK(end(loop + "{% endfor %}").empty());
  CHECK(end("{{ raise_exception('no') }}").empty());
  CHECK(Goldens().load("qwen3.jinja").end_of_turn(*tokenizer) >= 0);
}
