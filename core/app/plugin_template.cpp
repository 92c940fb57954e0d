#include "plugin_template.h"

#include <fmt/format.h>

#include <regex>
#include <set>

#include "patchbay/error.h"

namespace patchbay::app {
namespace {

std::regex word(const std::string& text) { return std::regex("\\b" + text + "\\b"); }

/// Replaces each match by what `body` makes of it.
template <class Body>
std::string replaced(const std::string& text, const std::regex& pattern, Body body) {
  std::string result;
  auto rest = text.begin();
  for (std::sregex_iterator match(text.begin(), text.end(), pattern), end; match != end; ++match) {
    result.append(rest, text.begin() + match->position());
    result += body(*match);
    rest = text.begin() + match->position() + match->length();
  }
  return result.append(rest, text.end());
}

/// What PATCHBAY_PLUGIN(Interface, Class, ...) at the end of the source says.
struct Declaration {
  std::string interface, made_class;
  std::size_t begin = 0, end = 0;  ///< of the whole macro call
};

Declaration declaration(const std::string& source, const Naming& naming) {
  static const std::regex pattern("PATCHBAY_PLUGIN\\(([\\w:]+),\\s*([\\w:<>]+),[^;]*\"\\)");
  std::smatch match;
  if (std::regex_search(source, match, pattern)) {
    return {match[1], match[2], static_cast<std::size_t>(match.position()),
            static_cast<std::size_t>(match.position() + match.length())};
  }
  throw Error("template " + naming.kind + "/" + naming.from, "its source has no PATCHBAY_PLUGIN(...)");
}

/// The class or struct of the source that the declaration names: Rtn, or Fp32 in FloatFormat<Fp32>.
std::string own_class(const std::string& source, const std::string& made_class) {
  static const std::regex name("\\w+");
  for (std::sregex_iterator match(made_class.begin(), made_class.end(), name), end; match != end; ++match) {
    if (std::regex_search(source, std::regex("\\b(class|struct) " + match->str() + "\\b"))) return match->str();
  }
  return {};
}

/// The name inside string literals: alone where it is what the plugin calls itself, and as a word of a message. A kernel table's
/// "cpu" and a setting's "temperature" are other things of the same name.
std::string renamed_literals(const std::string& source, const Naming& naming) {
  static const std::regex literal(R"re((return |= |#include )?"((?:[^"\\\n]|\\.)*)")re");
  return replaced(source, literal, [&](const std::smatch& match) {
    const std::string before = match[1], text = match[2];
    if (before == "#include ") return text == naming.from + ".h" ? "#include \"" + naming.to + ".h\"" : match.str();
    if (text == naming.from) return before + "\"" + (before.empty() ? naming.from : naming.to) + "\"";
    return before + "\"" + std::regex_replace(text, word(naming.from), naming.to) + "\"";
  });
}

/// The main source: its first comment, names and declaration.
std::string main_source(std::string source, const Naming& naming) {
  const Declaration declared = declaration(source, naming);
  const std::string own = own_class(source, declared.made_class);
  std::string fresh = camel_case(naming.to);
  if (fresh != own && std::regex_search(source, word(fresh))) fresh += "Plugin";  // Sequence, Draft, ...: taken by the interface
  const std::string made = own.empty() ? declared.made_class : std::regex_replace(declared.made_class, word(own), fresh);
  source = source.substr(0, declared.begin) +
           fmt::format("PATCHBAY_PLUGIN({}, {}, \"{}\",\n                \"so far the same as {}: say here in one line what it does\", \"\")",
                       declared.interface, made, naming.to, naming.from) +
           source.substr(declared.end);
  // The declaration stands last: what follows it holds no names.
  std::string body = renamed_literals(source.substr(0, declared.begin), naming);
  if (!own.empty()) body = std::regex_replace(body, word(own), fresh);
  while (body.starts_with("//")) body.erase(0, body.find('\n') + 1);
  return fmt::format("// {}: what it does, in one line. Made from {}/{}. Formulas: README.md.\n", naming.to, naming.kind,
                     naming.from) +
         body + source.substr(declared.begin);
}

/// From a heading to the line before the next one.
std::string section(const std::string& readme, std::size_t begin) {
  return readme.substr(begin, readme.find("\n## ", begin + 1) - begin + 1);
}

/// The sections that hold formulas, which the code's tags refer to. Links into the old plugin's neighbourhood become plain words.
std::string formula_sections(const std::string& readme) {
  static const std::regex tag("(^|\n)\\([A-Z]{1,2}[0-9]+\\)"), neighbour("\\[([^\\]]+)\\]\\(\\.\\.?/[^)]*\\)");
  std::string result;
  for (std::size_t at = readme.find("\n## "); at != std::string::npos; at = readme.find("\n## ", at + 1)) {
    const std::string text = section(readme, at + 1);
    if (std::regex_search(text, tag)) result += text + (text.ends_with("\n\n") ? "" : "\n");
  }
  return std::regex_replace(result, neighbour, "$1");
}

std::string between(const std::string& text, const std::string& begin, const std::string& end) {
  const std::size_t from = text.find(begin), to = text.find(end);
  return from == std::string::npos || to == std::string::npos ? begin + "\n" + end : text.substr(from, to + end.size() - from);
}

std::string readme(const std::string& old, const Naming& naming) {
  return fmt::format(
             "# {0}: what it is, in a few words\n\nThe idea in five lines: what is done, why it works, what it saves and what it "
             "costs.\nSo far the code is that of {1}/{2}: change both together.\n\n",
             naming.to, naming.kind, naming.from) +
         formula_sections(old) +
         "## How it works here\n\nWhat the code does that the formulas do not say: layout, threads, shapes that are refused.\n\n" +
         between(old, "<!-- parameters -->", "<!-- /parameters -->") +
         "\n\n<!-- results -->\n<!-- /results -->\n\n"
         "## Limits\n\n- Where it loses, and what it cannot do.\n\n"
         "Paper: authors, *title*, venue, year; and where this deviates from it.\n\n"
         "## Exercises\n\n1. One to be answered on paper.\n2. One to be answered with the experiment beside this file.\n"
         "3. One that changes the code.\n";
}

/// The experiment: the name wherever it stands for the plugin.
std::string experiment(const std::string& old, const Naming& naming) {
  static const std::regex line("[^\n]*\n?");
  return replaced(old, line, [&](const std::smatch& match) {
    const std::string text = match.str();
    if (text.starts_with("name:")) return "name: " + naming.to + "\n";
    if (text.starts_with("note:")) return fmt::format("note: The question that this experiment answers about {}.\n", naming.to);
    if (std::regex_search(text, std::regex("^\\s*(model|activations):"))) return text;
    return std::regex_replace(text, word(naming.from), naming.to);
  });
}

/// A test that fails when the plugin cannot be loaded, with the headers of its interface.
std::string test_source(const Folder& from, const Naming& naming, const std::string& interface) {
  static const std::regex header("#include (\"patchbay/\\w+\\.h\")");
  std::set<std::string> headers = {"\"patchbay/plugin.h\""};
  for (const auto& [name, text] : from) {
    if (name.ends_with("_test.cpp")) continue;
    for (std::sregex_iterator match(text.begin(), text.end(), header), end; match != end; ++match) headers.insert((*match)[1]);
  }
  std::string includes;
  for (const std::string& each : headers) includes += "#include " + each + "\n";
  return fmt::format(
      "// What is particular to {1}. What every plugin of its kind must do is tested in tests/conformance/.\n"
      "#include <catch2/catch.hpp>\n\n{2}\nTEST_CASE(\"{0}/{1}: is found under its name and made with its defaults\") {{\n"
      "  CHECK(patchbay::make<patchbay::{3}>({{\"{1}\", nullptr}}) != nullptr);\n}}\n",
      naming.kind, naming.to, includes, std::regex_replace(interface, std::regex("^.*::"), ""));
}

/// Launchers of CUDA kernels that carry the plugin's name: fp32_matmul becomes mine_matmul wherever it stands.
std::string renamed_launchers(std::string text, const Folder& from, const Naming& naming) {
  const std::regex launcher("\\bvoid " + naming.from + "(_\\w+)\\(");
  for (const auto& [name, source] : from) {
    if (!name.ends_with(".cu")) continue;
    for (std::sregex_iterator match(source.begin(), source.end(), launcher), end; match != end; ++match)
      text = std::regex_replace(text, word(naming.from + (*match)[1].str()), naming.to + (*match)[1].str());
  }
  return text;
}

/// In the tree one call; elsewhere a project of its own, which may also be a folder of a larger one.
std::string cmake_lists(const std::string& old, const Naming& naming, bool in_tree) {
  std::string call = std::regex_replace(old, std::regex("\\(TEMPLATE\\s*"), "(");
  call = std::regex_replace(call, std::regex("\\b" + naming.from + "\\.cu\\b"), naming.to + ".cu");
  if (in_tree) return call;
  return fmt::format(
             "if(NOT COMMAND patchbay_add_plugin)  # this folder alone, outside patchbay's tree\n"
             "  cmake_minimum_required(VERSION 3.25)\n  project({} CXX)\n  find_package(patchbay REQUIRED)\n"
             "  find_package(Catch2 2.13)  # for {}_test.cpp\n  enable_testing()\nendif()\n",
             naming.to, naming.to) +
         call;
}

}  // namespace

std::string camel_case(const std::string& name) {
  std::string result;
  bool capital = true;
  for (const char c : name) {
    if (c != '_') result += capital ? static_cast<char>(std::toupper(static_cast<unsigned char>(c))) : c;
    capital = c == '_';
  }
  return result;
}

Folder renamed_plugin(const Folder& from, const Naming& naming, bool in_tree) {
  const auto file = [&](const std::string& name) {
    const auto found = from.find(name);
    if (found == from.end()) throw Error("template " + naming.kind + "/" + naming.from, "has no " + name);
    return found->second;
  };
  const std::string source = file(naming.from + ".cpp");
  Folder made;
  for (const auto& [name, text] : from) {
    const bool code = name.ends_with(".cpp") || name.ends_with(".h") || name.ends_with(".cu") || name.ends_with(".cuh");
    const bool gpu_test = in_tree && name == naming.from + "_gpu_test.cpp";  // its scenes are this tree's
    if (gpu_test) made[naming.to + "_gpu_test.cpp"] = renamed_launchers(renamed_literals(text, naming), from, naming);
    if (!code || name.ends_with("_test.cpp")) continue;
    const std::string ending = name.substr(name.rfind('.'));
    made[name == naming.from + ending ? naming.to + ending : name] = renamed_launchers(renamed_literals(text, naming), from, naming);
  }
  made[naming.to + ".cpp"] = renamed_launchers(main_source(source, naming), from, naming);
  made[naming.to + "_test.cpp"] = test_source(from, naming, declaration(source, naming).interface);
  made[naming.to + ".yaml"] = experiment(file(naming.from + ".yaml"), naming);
  made["CMakeLists.txt"] = cmake_lists(file("CMakeLists.txt"), naming, in_tree);
  made["README.md"] = readme(file("README.md"), naming);
  return made;
}

}  // namespace patchbay::app
