// The strict YAML layer: what is refused and why, what is accepted, assignments, JSON, suggestions.
#include "config.h"

#include <catch2/catch.hpp>
#include <fstream>

#include "settings_reader.h"
#include "support.h"

using namespace patchbay;
using Catch::Contains;

namespace {

std::string refusal(const std::string& text) {
  try {
    parse_yaml(text, "a.yaml");
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

std::string repeated(const std::string& text, int times) {
  std::string result;
  for (int i = 0; i < times; ++i) result += text;
  return result;
}

struct Case {
  std::string text, expected;
};

}  // namespace

TEST_CASE("settings know their place and path") {
  const Settings root =
      parse_yaml("name: x\nbase:\n  weights: {format: {type: int_grouped, bits: 4}}\n  list: [1, {k: 2}]\n", "a.yaml");
  CHECK(root.where == "a.yaml:1");
  const Settings* bits = root.find("base")->find("weights")->find("format")->find("bits");
  REQUIRE(bits != nullptr);
  CHECK(bits->where == "a.yaml:3: base.weights.format.bits");
  CHECK(bits->text == "4");
  CHECK(root.find("base")->find("list")->items[1].find("k")->where == "a.yaml:4: base.list[1].k");
}

TEST_CASE("faults of syntax and structure are refused with their place") {
  const std::vector<Case> cases = {
      {"", "a.yaml: empty config"},
      {"# nothing\n", "a.yaml: empty config"},
      {"---\n...\n", "a.yaml: empty config"},
      {"- a\n", "top level is not a map"},
      {"just text\n", "top level is not a map"},
      {"a: 1\n---\nb: 2\n", "a.yaml:2: more than one document"},
      {"a: 1\n---\n", "more than one document"},
      {"a: 1\nb: \"open\n", "a.yaml:2: b: syntax error: a quote that is never closed"},
      {"a: 'open", "a.yaml:1: a: syntax error: a quote that is never closed"},
      {"a: \"x\\qy\"\n", "a.yaml:1: a: syntax error: unknown escape character"},
      {"a: \"\\x4\"\n", "syntax error"},
      {"a: \"\\ud83d\"\n", "bad UTF-8"},
      {"a: \"\\U00110000\"\n", "bad UTF-8"},
      {"b: 1\na: caf\xE9\n", "a.yaml:2: bad UTF-8: byte 0xe9"},
      {"a: \xED\xA0\x80\n", "bad UTF-8"},
      {"a: \xC0\xAF\n", "bad UTF-8"},
      {std::string("a: x\0y\n", 7), "a.yaml:1: bad character: control byte 0x00"},
      {"a: x\x1b[2J\n", "control byte 0x1b"},
      {"a: \"\\e[2J\"\n", "a.yaml:1: a: bad character: control byte 0x1b"},
      {"a: \"\\0\"\n", "bad character"},
      {"a: 1\rb: 2\n", "control byte 0x0d"},
      {"a: 1\nb: 2\na: 3\n", "a.yaml:3: a: duplicate key; it stands first in line 1"},
      {"q:\n  a: 1\n  'a': 2\n", "a.yaml:3: q.a: duplicate key"},
      {"a: {b: 1, b: 2}\n", "a.b: duplicate key"},
      {"a: &a\n  - *a\n", "a.yaml:2: a: recursive alias"},
      {"a: &a {b: *a}\n", "recursive alias"},
      {"a: *nosuch\n", "unknown anchor"},
      {"d: &d {x: 1}\ne:\n  <<: *d\n", "a.yaml:3: e: merge keys (<<) are not supported"},
      {"a: " + repeated("[", 65) + repeated("]", 65) + "\n", "nested too deep"},
      {"a: " + repeated("[", 100000), "nested too deep"},
      {repeated("- ", 100000), "nested too deep"},
      {repeated("{a: ", 100000), "nested too deep"},
      {repeated("? ", 100000), "nested too deep"},
      {"a: !!python/object/apply:os.system ['true']\n", "a.yaml:1: a: unknown tag"},
      {"a: !!binary aGk=\n", "bad value"},
      {"a: !mine x\n", "unknown tag"},
      {"{a: 1}: b\n", "bad key: a map used as a key"},
      {"[a]: b\n", "bad key: a list used as a key"},
      {"~: 1\n", "bad key: null used as a key"},
      {"null: 1\n", "bad key"},
      {": 1\n", "bad key"},
      {"a: &x k\nb: {*x : 1}\n", "bad key: an alias used as a key"},
      {"%YAML 9.9\n---\na: 1\n", "a.yaml:1: unsupported YAML version"},
      {"%YAML 1.3\n---\na: 1\n", "unsupported YAML version"},
      {"%FOO\n---\na: 1\n", "unsupported directive"},
      {"a: " + std::string(5000, 'x') + "\n", "a.yaml:1: a: value too long"},
      {"m:\n\tp: a\n", "syntax error"},
      {"m:\n    p: a\n  n: b\n", "a.yaml:3: syntax error"},
      {"a: [4\nb: 2\n", "syntax error"},
      {"a: {b: 1\n", "syntax error"},
      {"{a:", "syntax error"},
      {"[:", "bad key: null"},
      {"a: !<\n", "syntax error"},
      {"a: \"x\" y\n", "syntax error"},
      {"include: b.yaml\na: 1\n", "a.yaml:1: include: include is not supported"},
      {"plugins: [x.so]\n", "plugin paths are not taken from configs"},
      {std::string(std::size_t{1} << 21, ' '), "too large for a config"},
  };
  for (const Case& each : cases) {
    INFO(each.text.substr(0, 80));
    CHECK_THAT(refusal(each.text), Contains(each.expected));
  }
}

TEST_CASE("anchors and aliases have limits") {
  std::string many, bomb = "x0: &a0 [1,1,1,1,1,1,1,1,1]\n";
  for (int i = 0; i < 200; ++i) many += "k" + std::to_string(i) + ": &n" + std::to_string(i) + " 1\n";
  for (int i = 1; i < 10; ++i) {
    const std::string below = "*a" + std::to_string(i - 1);
    bomb += "x" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + below + repeated("," + below, 8) + "]\n";
  }
  CHECK_THAT(refusal(many), Contains("too many anchors"));
  CHECK_THAT(refusal(bomb), Contains("alias expansion too large"));
  const Settings honest = parse_yaml("a: &x {k: 1}\nb: *x\n", "a.yaml");
  CHECK(honest.find("b")->find("k")->text == "1");
  CHECK(honest.find("b")->find("k")->where == "a.yaml:1: b.k");  // the line of the anchor, the path of the use
}

TEST_CASE("what is accepted") {
  CHECK(parse_yaml("\xEF\xBB\xBF"
                   "a: 1\n",
                   "f")
            .find("a")
            ->text == "1");
  CHECK(parse_yaml("a: 1\r\nb:\r\n  c: x\r\n", "f").find("b")->find("c")->text == "x");
  CHECK(parse_yaml(R"({"a": "x", "b": [1, 2]})", "f").find("b")->items.size() == 2);
  CHECK(parse_yaml("%YAML 1.2\n---\na: 1\n...\n", "f").find("a")->text == "1");
  CHECK(parse_yaml("a: 1 #" + std::string(20000, 'c') + "\n", "f").find("a")->text == "1");
  CHECK(parse_yaml("note: 'costs $5, not ${HOME}'\n", "f").find("note")->text == "costs $5, not ${HOME}");
  CHECK(parse_yaml("größe: 界\n", "f").find("größe")->text == "界");
  CHECK(parse_yaml("a: |\n  two\n  lines\n", "f").find("a")->text == "two\nlines\n");
  CHECK(parse_yaml("a: \"4\"\nb: 4\nc: !!str 4\n", "f").find("a")->quoted);
  CHECK_FALSE(parse_yaml("a: \"4\"\nb: 4\nc: !!str 4\n", "f").find("b")->quoted);
  CHECK(parse_yaml("a: \"4\"\nb: 4\nc: !!str 4\n", "f").find("c")->quoted);
  CHECK(parse_yaml("a:\nb: ~\n", "f").find("b")->kind == Settings::Kind::null);
  CHECK(parse_yaml("a: \"\"\n", "f").find("a")->kind == Settings::Kind::scalar);
}

TEST_CASE("files: missing ones, folders and large ones are refused before they are read") {
  const auto refused = [](const std::string& path) {
    try {
      parse_yaml_file(path);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  CHECK_THAT(refused("/no/such/file.yaml"), Contains("/no/such/file.yaml: cannot be read"));
  CHECK_THAT(refused(test::source_path("core")), Contains("is a folder"));
  const std::string large = std::string(PATCHBAY_BINARY_DIR) + "/large.yaml";
  std::ofstream(large) << std::string((1 << 20) + 1, ' ');
  CHECK_THAT(refused(large), Contains("too large for a config"));
}

TEST_CASE("assignments set paths, and a name in the way becomes the type") {
  Settings map = parse_yaml("kv_store: paged\nweights: {format: {type: q8_0}}\nlist: [{a: 1}]\n", "a.yaml");
  apply_assignment(map, "kv_store.format=int8");
  CHECK(map.find("kv_store")->find("type")->text == "paged");
  CHECK(map.find("kv_store")->find("format")->text == "int8");
  CHECK(map.find("kv_store")->find("format")->where == "command line: kv_store.format");
  apply_assignment(map, "weights.format={type: int_grouped, bits: 4}");
  CHECK(map.find("weights")->find("format")->find("bits")->where == "command line: weights.format.bits");
  apply_assignment(map, "list.0.a=2");
  CHECK(map.find("list")->items[0].find("a")->text == "2");
  apply_assignment(map, "match=*.ffn=x");
  CHECK(map.find("match")->text == "*.ffn=x");
  apply_assignment(map, "new.deep.key=[1, 2]");
  CHECK(map.find("new")->find("deep")->find("key")->items.size() == 2);
  CHECK(map.find("new")->find("deep")->where == "command line: new.deep");  // not ...deep.key: messages build on it
  apply_assignment(map, "quoted=\"4\"");
  CHECK(map.find("quoted")->quoted);
  for (const char* bad :
       {"nothing", "=x", "a..b=1", ".a=1", "list.7.a=1", "list.x=1", "a={b: 1", "a=\"open", "a={b: 1, b: 2}", "a=[1] 2"}) {
    INFO(bad);
    CHECK_THROWS_AS(apply_assignment(map, bad), Error);
  }
}

TEST_CASE("JSON is canonical and typed by the core schema") {
  const Settings map =
      parse_yaml("b: 0x10\na: [1, 2.50, true, ~, text, \"4\", 1e3, 0o17, +3, .nan, no, 99999999999999999999]\n", "f");
  CHECK(to_json(map) == R"({"a":[1,2.5,true,null,"text","4",1000.0,15,3,".nan","no","99999999999999999999"],"b":16})");
}

TEST_CASE("suggestions: one slip per three letters, a replaced one being two; letter case free") {
  const std::vector<std::string> names = {"group_size", "bits", "symmetric", "GPTQ", "none", "flash"};
  CHECK(suggestion("group_sise", names) == "group_size");
  CHECK(suggestion("gruop_size", names) == "group_size");
  CHECK(suggestion("bit", names) == "bits");
  CHECK(suggestion("gptq", names) == "GPTQ");
  CHECK(suggestion("flish", names) == "flash");
  CHECK(suggestion("noen", names) == "none");
  for (const char* far : {"temperature", "nope", "bids", "x", ""}) CHECK(suggestion(far, names).empty());
  CHECK(suggestion(std::string(100000, 'x'), names).empty());
}
