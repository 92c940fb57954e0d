// Strict YAML on yaml-cpp's event interface, which neither loops nor explodes on aliases. The only home of yaml-cpp.
//
// Refused here, where yaml-cpp is silent: a quote that the end of the file leaves open, duplicate keys, keys that are no text,
// merge keys, a second document, an empty one, tags, recursive aliases, aliases that expand without end, deep nesting, long
// values.
#include "config.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <sstream>

#include "files.h"
#include "settings_reader.h"
#include "yaml_check.h"

namespace patchbay {
namespace {

constexpr std::size_t kMaxDepth = 64, kMaxAnchors = 100, kMaxNodes = 100'000;

[[noreturn]] void fail_depth(const std::string& where) {
  throw Error(where, "nested too deep", "at most " + std::to_string(kMaxDepth) + " levels");
}

/// Builds Settings from events, and throws Error as soon as something is not to be had.
class Builder : public YAML::EventHandler {
 public:
  /// `lines`: places are "file:line"; else (the command line) they are the file name alone.
  Builder(std::string file_name, bool lines) : file_name_(std::move(file_name)), lines_(lines) {}

  int documents = 0;
  Settings root;

  /// Where the parser stands, for its own errors: the line of the key being read, and its path.
  std::string place(int line) const {
    std::string where = lines_ ? file_name_ + ":" + std::to_string(line + 1) : file_name_;
    for (const Frame& frame : open_)
      if (!frame.key.empty()) where = join_where(where, frame.key);
    return where;
  }
  int key_line() const { return open_.empty() ? 0 : open_.back().key_line; }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents > 1)
      throw Error(place(mark.line), "more than one document", "one", "move the second one to a file of its own");
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    refuse_as_key(mark.line, "null");
    finish(node(Settings::Kind::null, mark, anchor), anchor);
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, const std::string& text) override {
    check_scalar_text(text, place(mark.line));
    Settings scalar = node(Settings::Kind::scalar, mark, anchor);
    scalar.text = text;
    scalar.quoted = check_tag(tag, mark) || tag == "!";  // yaml-cpp marks quoted and block scalars with "!"
    if (expects_key()) {
      take_key(scalar, mark);
    } else {
      if (scalar_type(scalar) == ScalarType::null) scalar.kind = Settings::Kind::null;
      finish(std::move(scalar), anchor);
    }
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    refuse_as_key(mark.line, "an alias");
    const auto target = anchors_.find(anchor);
    if (target == anchors_.end()) throw Error(place(mark.line), "recursive alias: it contains itself", "", "write the value out");
    count_nodes(target->second.nodes, mark);
    finish(Settings(target->second.node), 0, target->second.nodes);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    start(Settings::Kind::list, mark, tag, anchor);
  }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, YAML::EmitterStyle::value) override {
    start(Settings::Kind::map, mark, tag, anchor);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapEnd() override { close(); }

 private:
  /// A list or map whose end has not come yet.
  struct Frame {
    Settings node;
    YAML::anchor_t anchor = 0;
    std::string key;  ///< of a map: the key whose value comes next
    bool has_key = false;
    int key_line = 0;
    int line = 0;  ///< where it begins
    std::size_t nodes_before = 0;
  };
  struct Anchored {
    Settings node;
    std::size_t nodes = 1;
  };

  bool expects_key() const { return !open_.empty() && open_.back().node.kind == Settings::Kind::map && !open_.back().has_key; }

  void refuse_as_key(int line, const char* what) const {
    if (!expects_key()) return;
    throw Error(place(line), std::string("bad key: ") + what + " used as a key", "text", "put it in quotes if text is meant");
  }

  void count_nodes(std::size_t more, const YAML::Mark& mark) {
    nodes_ += more;
    if (nodes_ > kMaxNodes) {
      throw Error(place(mark.line), "alias expansion too large", "at most " + std::to_string(kMaxNodes) + " values in all");
    }
  }

  Settings node(Settings::Kind kind, const YAML::Mark& mark, YAML::anchor_t anchor) {
    if (anchor > kMaxAnchors) throw Error(place(mark.line), "too many anchors", "at most " + std::to_string(kMaxAnchors));
    count_nodes(1, mark);
    Settings made;
    made.kind = kind;
    made.where = lines_ ? file_name_ + ":" + std::to_string(mark.line + 1) : file_name_;
    return made;
  }

  /// True for !!str. Other tags ask for types that settings don't have.
  bool check_tag(const std::string& tag, const YAML::Mark& mark) const {
    if (tag.empty() || tag == "?" || tag == "!") return false;
    if (tag == "tag:yaml.org,2002:str") return true;
    if (tag == "tag:yaml.org,2002:binary") {
      throw Error(place(mark.line), "bad value: !!binary is not supported", "text, numbers, booleans");
    }
    throw Error(place(mark.line), "unknown tag " + printable(tag), "no tags", "remove the tag");
  }

  void take_key(const Settings& key, const YAML::Mark& mark) {
    if (scalar_type(key) == ScalarType::null) refuse_as_key(mark.line, "null");
    if (!key.quoted && key.text == "<<") {
      throw Error(place(mark.line), "merge keys (<<) are not supported: which value wins would be hard to see", "",
                  "write the settings out, or give each run its own in sweep:");
    }
    Frame& frame = open_.back();
    if (frame.node.find(key.text) != nullptr) {
      const std::string first = lines_ ? "; it stands first in line " + frame.node.find(key.text)->where.substr(file_name_.size() + 1) : "";
      throw Error(join_where(place(mark.line), key.text), "duplicate key" + first, "", "remove one");
    }
    frame.key = key.text;
    frame.has_key = true;
    frame.key_line = mark.line;
  }

  void start(Settings::Kind kind, const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    if (open_.size() >= kMaxDepth) fail_depth(open_.front().node.where);
    if (tag != "tag:yaml.org,2002:map" && tag != "tag:yaml.org,2002:seq") check_tag(tag, mark);
    const std::size_t before = nodes_;
    open_.push_back({node(kind, mark, anchor), anchor, {}, false, mark.line, mark.line, before});
  }

  /// A list or map is seen to stand as a key only when it ends: one that never ends is a fault of syntax.
  void close() {
    Frame frame = std::move(open_.back());
    open_.pop_back();
    refuse_as_key(frame.line, frame.node.kind == Settings::Kind::map ? "a map" : "a list");
    finish(std::move(frame.node), frame.anchor, nodes_ - frame.nodes_before);
  }

  /// A value is complete: it goes to its anchor, and into the list or map it stands in.
  void finish(Settings value, YAML::anchor_t anchor, std::size_t nodes = 1) {
    if (anchor != 0) anchors_[anchor] = {value, nodes};
    if (open_.empty()) {
      root = std::move(value);
      return;
    }
    Frame& parent = open_.back();
    if (parent.node.kind == Settings::Kind::list) {
      parent.node.items.push_back(std::move(value));
      return;
    }
    parent.node.entries.emplace_back(std::move(parent.key), std::move(value));
    parent.key.clear();
    parent.has_key = false;
  }

  std::string file_name_;
  bool lines_;
  std::vector<Frame> open_;
  std::map<YAML::anchor_t, Anchored> anchors_;
  std::size_t nodes_ = 0;
};

/// Appends to each place the dotted path. An alias's copy keeps the line of its anchor and gets the path of its use.
void add_paths(Settings& node, const std::string& path, std::size_t depth = 0) {
  if (depth > kMaxDepth) fail_depth(node.where);
  const std::string below = path.empty() ? "" : path + ".";
  for (auto& [key, value] : node.entries) add_paths(value, below + printable(key), depth + 1);
  for (std::size_t i = 0; i < node.items.size(); ++i) add_paths(node.items[i], path + "[" + std::to_string(i) + "]", depth + 1);
  if (!path.empty()) node.where += ": " + path;
}

[[noreturn]] void fail_syntax(const Builder& builder, const YAML::Exception& error, std::string_view text) {
  const std::string& what = error.msg;
  const auto last_line = static_cast<int>(std::count(text.begin(), text.end(), '\n')) - (text.ends_with('\n') ? 1 : 0);
  const int line = std::clamp(error.mark.line, 0, std::max(last_line, 0));
  if (what.find("invalid unicode") != std::string::npos) {
    throw Error(builder.place(line), "bad UTF-8: an escape that stands for no character",
                "\\u0000 to \\U0010ffff without surrogates");
  }
  if (what == YAML::ErrorMsg::DOC_IN_SCALAR || what == YAML::ErrorMsg::EOF_IN_SCALAR) {
    throw Error(builder.place(builder.key_line()), "syntax error: a quote that is never closed", "", "close it");
  }
  if (what == YAML::ErrorMsg::UNKNOWN_ANCHOR) throw Error(builder.place(line), "unknown anchor", "", "define it above its use");
  if (what == YAML::ErrorMsg::YAML_MAJOR_VERSION) throw Error(builder.place(line), "unsupported YAML version", "1.1, 1.2");
  const std::string column = error.mark.is_null() ? "" : " (column " + std::to_string(error.mark.column + 1) + ")";
  throw Error(builder.place(line), "syntax error: " + what + column, "",
              "look at the indentation, brackets and colons around it");
}

/// One document of any kind, its places still without paths.
Builder parse(std::string_view text, const std::string& name, bool lines) {
  check_yaml_text(text, name);
  // yaml-cpp takes the end of the file for the end of a quote; a document marker inside a quote is an error to it.
  std::string marked(text);
  if (!marked.ends_with('\n')) marked += '\n';
  std::istringstream in(marked + "...\n");
  Builder builder(name, lines);
  try {
    YAML::Parser parser(in);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const YAML::Exception& error) {
    fail_syntax(builder, error, text);
  }
  return builder;
}

/// Keys that other programs' configs know and this one must not pass over.
void refuse_includes(const Settings& root) {
  if (const Settings* include = root.find("include")) {
    throw Error(include->where, "include is not supported: a run must be whole in one file", "",
                "write the settings out, or give key=value");
  }
  if (const Settings* plugins = root.find("plugins")) {
    throw Error(plugins->where, "plugin paths are not taken from configs", "",
                "name folders in PATCHBAY_PLUGIN_PATH, techniques by type");
  }
}

}  // namespace

Settings parse_yaml(std::string_view text, const std::string& file_name) {
  const std::string name = printable(file_name);
  Builder builder = parse(text, name, true);
  const bool empty = builder.documents == 0 || builder.root.kind == Settings::Kind::null;
  if (empty) throw Error(name, "empty config", "", "see the files in configs/");
  if (builder.root.kind != Settings::Kind::map) throw Error(builder.root.where, "top level is not a map", "key: value");
  add_paths(builder.root, "");
  refuse_includes(builder.root);
  return std::move(builder.root);
}

Settings parse_yaml_file(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) throw Error(printable(path), "is a folder", "a YAML file");
  const auto bytes = std::filesystem::file_size(path, error);
  if (error) throw Error(printable(path), "cannot be read: " + error.message());
  if (bytes > kMaxYamlBytes)
    throw Error(printable(path), std::to_string(bytes) + " bytes is too large for a config", "at most 1 MiB");
  return parse_yaml(read_whole_file(path), path);
}

namespace {

/// For what YAML could not read: whether a bracket or a quote is never closed, which its own words would not say.
void refuse_unclosed(std::string_view text, const std::string& where) {
  std::string open;  // brackets and at most one quote
  for (const char c : text) {
    const bool quoted = !open.empty() && (open.back() == '"' || open.back() == '\'');
    if (quoted ? c == open.back() : !open.empty() && ((c == ']' && open.back() == '[') || (c == '}' && open.back() == '{'))) open.pop_back();
    else if (!quoted && std::string_view("[{\"'").find(c) != std::string_view::npos) open += c;
  }
  if (open.empty()) return;
  throw Error(where, printable(text) + ": " + open.back() + " is never closed", "[a, b], {key: value} or \"text\"",
              "close it, and keep the shell from reading it: put the whole setting in '...'");
}

}  // namespace

Settings parse_value(std::string_view text, const std::string& path) {
  constexpr const char* kPlace = "command line";
  const bool structured = !text.empty() && std::string_view("[{\"'").find(text[0]) != std::string_view::npos;
  Settings value;
  if (structured) {
    try {
      value = parse(text, kPlace, false).root;
    } catch (const Error& error) {
      refuse_unclosed(text, join_where(kPlace, path));
      throw Error(join_where(kPlace, path), error.problem(), error.allowed(), error.remedy());
    }
  } else {
    check_yaml_text(text, join_where(kPlace, path));
    check_scalar_text(text, join_where(kPlace, path));
    value = plain_settings(std::string(text));
    value.where = kPlace;
    if (scalar_type(value) == ScalarType::null) value.kind = Settings::Kind::null;
  }
  add_paths(value, path);
  return value;
}

}  // namespace patchbay
