// Jinja as chat templates use it. That whole templates render as with transformers is in chat_template_test.cpp; here is what is particular:
// white space, Python's ways of printing, origins of bytes, and that hostile templates end with an error. tests/fuzz/jinja.py compares with jinja2.
#include <catch2/catch.hpp>
#include <chrono>
#include <nlohmann/json.hpp>

#include "jinja/template.h"
#include "support.h"

using namespace patchbay;
using jinja::render;
using Json = nlohmann::ordered_json;

namespace {

std::string show(const std::string& source, const Json& context = Json::object()) { return render(source, context); }
std::string error_of(const std::string& source, const Json& context = Json::object(), const jinja::RenderOptions& options = {}) {
  return test::message_of([&] { render(source, context, options); });
}

struct Case { const char *source, *text; };

/// The text with data between « and ».
std::string marked(const std::string& source, const Json& context) {
  const jinja::Rendered rendered = jinja::Template(source).render(context);
  std::string text;
  std::size_t done = 0;
  for (const TextRange& range : rendered.data) {
    text += rendered.text.substr(done, range.begin - done) + "«" + rendered.text.substr(range.begin, range.end - range.begin) + "»";
    done = range.end;
  }
  return text + rendered.text.substr(done);
}

}  // namespace

TEST_CASE("white space around tags goes as transformers sets Jinja up") {
  const std::vector<Case> cases = {
      {"a\n{% if true %}\nb\n{% endif %}\nc\n", "a\nb\nc"},  // the break after a block tag, and the last of all
      {"a\n  {% if true %}\n  b\n  {% endif %}\nc\n\n", "a\n  b\nc\n"},  // the indentation before one
      {"a\n  {{ 1 }}\n", "a\n  1"},
      {"a  {%- if true -%}  b  {%- endif -%}  c", "abc"},
      {"a\n {%+ if true +%}\n b{% endif %}", "a\n \n b"},
      {"a\n  {# note #}\nb {#- note -#} c", "a\nbc"},
      {"{% raw %}{{ x }}{% if %}{% endraw %}\n!", "{{ x }}{% if %}!"},
      {"a\r\nb\rc", "a\nb\nc"},
      {"{{ {'a': {'b': 1}}['a'] }}", "{'b': 1}"},
      {"{ {} }% %} }}", "{ {} }% %} }}"},
  };
  for (const Case& c : cases) {
    INFO(c.source);
    CHECK(show(c.source) == c.text);
  }
}

TEST_CASE("values print as Python prints them") {
  const std::vector<Case> cases = {
      {"{{ none }} {{ true }} {{ [none, false, 1, 'x'] }}", "None True [None, False, 1, 'x']"},
      {"{{ 1.0 }} {{ 1e16 }} {{ 1e15 }} {{ 0.0001 }} {{ 0.00001 }} {{ -0.0 }}", "1.0 1e+16 1000000000000000.0 0.0001 1e-05 -0.0"},
      {"{{ ['it\\'s', '\"', '\\n\\x00é\\u200b'] }}", "[\"it's\", '\"', '\\n\\x00é\\u200b']"},
      {"{{ (1,) }} {{ () }} {{ {'a': (1, 2)} }} {{ {1: 2}.items() }} {{ range(3) }}", "(1,) () {'a': (1, 2)} dict_items([(1, 2)]) range(0, 3)"},
      {"{{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 2 ** 10 }} {{ 2 ** -1 }} {{ 7.5 // 2 }}", "3 -4 2 3.5 1024 0.5 3.0"},
      {"{{ 1 < 2 < 3 }} {{ 1 == 1.0 == true }} {{ 'a' in 'abc' }} {{ 2 not in [1] }} {{ not 1 is odd }}", "True True True True False"},
      {"{{ 'abcdef'[::-1] }} {{ 'äöü'[1] }} {{ [1, 2, 3, 4][-3:-1] }} {{ 'abc'[5] }}|", "fedcba ö [2, 3] |"},
      {"{{ 2.5 | round }} {{ 3.5 | round }} {{ 2.675 | round(2) }} {{ 42 | round }} {{ 1.21 | round(1, 'ceil') }}", "2.0 4.0 2.67 42 1.3"},
      {"{{ {'b': [1, {}], 'a': 'é\"'} | tojson }}", "{\"b\": [1, {}], \"a\": \"é\\\"\"}"},
      {"{{ {'b': [1], 'a': 'é😀\x7f'} | tojson(ensure_ascii=true, indent=2, sort_keys=true) }}", "{\n  \"a\": \"\\u00e9\\ud83d\\ude00\\u007f\",\n  \"b\": [\n    1\n  ]\n}"},
      {"{{ '%s|%5d|%-4s|%05.1f|%(x)s' | replace('|%(x)s', '') | format('a', 42, 'b', 2.25) }}", "a|   42|b   |002.2"},
      {"{{ 'a b\\tc'.split() }} {{ 'a,b,c'.rsplit(',', 1) }} {{ 'a\\n\\nb\\n'.splitlines() }}", "['a', 'b', 'c'] ['a,b', 'c'] ['a', '', 'b']"},
      {"{{ 'ΑΣ ß ǆ' | upper }} {{ 'ΑΣ' | lower }} {{ 'hello big-world' | title }} {{ \"it's\".title() }}", "ΑΣ SS Ǆ ας Hello Big-World It'S"},
      {"{{ missing }}{{ missing | default('d') }}{{ missing is defined }}{{ missing | length }}{% for x in missing %}x{% endfor %}", "dFalse0"},
  };
  for (const Case& c : cases) {
    INFO(c.source);
    CHECK(show(c.source) == c.text);
  }
}

TEST_CASE("statements") {
  const std::vector<Case> cases = {
      {"{% for x in [1, 2, 3] if x != 2 %}{{ loop.index }}/{{ loop.length }}:{{ x }}{{ ',' if not loop.last }}{% else %}none{% endfor %}", "1/2:1,2/2:3"},
      {"{% for x in [] %}{% else %}none{% endfor %}", "none"},
      {"{% for k, (a, b) in {'x': [1, 2]}.items() %}{{ k }}{{ a }}{{ b }}{% endfor %}", "x12"},
      {"{% for x in range(9) %}{% if x == 1 %}{% continue %}{% endif %}{% if x > 3 %}{% break %}{% endif %}{{ x }}{% endfor %}", "023"},
      {"{% set x = 1 %}{% for i in [1] %}{% set x = 2 %}{{ x }}{% endfor %}{{ x }}{% if true %}{% set x = 3 %}{% endif %}{{ x }}", "213"},
      {"{% set ns = namespace(n=0) %}{% for i in range(4) %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }}", "6"},
      {"{% set a, b = 1, 2 %}{% set c | upper %}x{{ a }}{% endset %}{{ c }}{{ b }}", "X12"},
      {"{% macro f(a, b=a ~ '!') %}{{ a }}{{ b }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ f(1) }}{{ f(1, 2, 3, c=4) }}", "11!(){}12(3,){'c': 4}"},
      {"{% macro box() %}[{{ caller('x') }}]{% endmacro %}{% call(v) box() %}{{ v }}y{% endcall %}", "[xy]"},
      {"{% macro f(n) %}{{ n }}{{ f(n - 1) if n > 0 }}{% endmacro %}{{ f(3) }}", "3210"},
      {"{% for x in [1, [2, [3]]] recursive %}{{ x if x is integer else loop(x) }}{{ loop.depth }}{% endfor %}", "11223321"},
      {"{% filter upper | replace('A', 'b') %}a{% endfilter %}{% with a = 1, b = 2 %}{{ a + b }}{% endwith %}{{ a is defined }}", "b3False"},
      {"{% set c = cycler('a', 'b') %}{% set j = joiner('-') %}{% for i in range(3) %}{{ j() }}{{ c.next() }}{% endfor %}", "a-b-a"},
      {"{% generation %}x{% set y = 1 %}{% endgeneration %}{{ y is defined }}", "xFalse"},
  };
  for (const Case& c : cases) {
    INFO(c.source);
    CHECK(show(c.source) == c.text);
  }
}

TEST_CASE("bytes of data stay marked through all that a template does with them") {
  const Json context = {{"x", "ab"}, {"y", " c d "}, {"l", {"p", "q"}}, {"d", {{"k", "v<"}}}};
  const std::vector<Case> cases = {
      {"{{ '<' + x + '>' }}", "<«ab»>"},
      {"{{ ('-' ~ y ~ '-')[1:-1] | trim }}", "«c d»"},
      {"{{ ('<' + x + '>')[::-1] }}", ">«ba»<"},
      {"{{ x | upper }}{{ 'x' | upper }}", "«AB»X"},
      {"{{ x | replace('a', '<>') }}", "<>«b»"},
      {"{{ ('a' + x).replace(x, 'z') }}", "az"},
      {"{{ y.split() | join('+') }}", "«c»+«d»"},
      {"{{ l | join(', ') }}{{ l | first }}", "«p», «qp»"},
      {"{{ l }}{{ d }}", "['«p»', '«q»']{'«k»': '«v<»'}"},
      {"{{ d | tojson }}", "{\"«k»\": \"«v<»\"}"},
      {"{{ '%s=%s' % (x, 1) }}{{ '{}'.format(x) }}", "«ab»=1«ab»"},
      {"{% set z %}[{{ x }}]{% endset %}{{ z }}{% macro m(a) %}({{ a }}){% endmacro %}{{ m(x) }}", "[«ab»](«ab»)"},
      {"{{ x | e }}{{ d.k | e }}", "«abv&lt;»"},
      {"{% for k, v in d.items() %}{{ k ~ v }}{% endfor %}", "«kv<»"},
      {"{{ x | list | map('upper') | join }}", "«AB»"},
      {"{{ ('s' + x) | capitalize }}", "«Sab»"},  // of both origins and rewritten as a whole: all of it counts as data
      {"{{ dict(**d) }}", "{'«k»': '«v<»'}"},   // names that come by ** are data too
      {"{% macro m() %}{{ kwargs }}{% endmacro %}{{ m(a=1, **d) }}", "{'a': 1, '«k»': '«v<»'}"},
      {"{{ '%(k)s' | format(**d) }}{{ '{k}'.format(**d) }}", "«v<v<»"},
      {"{{ 'k' if 'k' in d else x }}{{ x == 'ab' }}", "kTrue"},
  };
  for (const Case& c : cases) {
    INFO(c.source);
    CHECK(marked(c.source, context) == c.text);
  }
}

TEST_CASE("errors name template, line, what is wrong and what is allowed") {
  const std::vector<Case> cases = {
      {"a\n{{ x.y.z }}", "template: line 2: no attribute 'y', since 'x' is undefined; test it first: 'is defined'"},
      {"\n\n{{ raise_exception('No ' ~ 'tools!') }}", "template: line 3: the template refuses: No tools!"},
      {"{% if x %}", "template: line 1: a block is not closed; allowed: {% elif %}, {% else %}, {% endif %}"},
      {"{{ 1 + }}", "template: line 1: unexpected '}}'; allowed: an expression"},
      {"{% foo %}", "template: line 1: unknown tag 'foo'; allowed: if, for, set, macro, call, filter, with, generation, break, continue, raw"},
      {"{{ 'a' + 1 }}", "template: line 1: '+' does not take a str and a int"},
      {"{{ 9223372036854775807 + 1 }}", "template: line 1: the result of '+' does not fit 64 bits; allowed: integers from -2^63 to 2^63-1"},
      {"{{ [].append(1) }}", "template: line 1: 'append' would change a list, which templates may not; test it first: 'is defined', or give a default"},
      {"{{ ''.__class__ }}{{ ''.__class__.x }}", "template: line 1: no attribute 'x', since 'str object' has no attribute '__class__'; test it first: 'is defined'"},
      {"{{ 'x' }", "template: line 1: unexpected '}'"},
      {"{{ 'x", "template: line 1: a string is not closed"},
      {"{# x", "template: line 1: a comment is not closed; allowed: '#}' at its end"},
      {"{% set a.b = 1 %}", "template: line 1: 'a' is undefined; test it first: 'is defined', or give a default"},
      {"{% break %}", "template: line 1: 'break' outside of a loop"},
      {"{% for a, b in [[1]] %}{% endfor %}", "template: line 1: 1 values for 2 names; allowed: as many as there are names"},
      {"{% macro f(a) %}{% endmacro %}{{ f(b=1) }}", "template: line 1: macro 'f' has no parameter 'b'; is it given twice?"},
      {"{{ 'x' | trim(1, 2) }}", "template: line 1: too many arguments: 2; allowed: chars"},
      {"{{ strftime_now('%Y') }}", "template: line 1: the template asks for the date, and none was given"},
      {"\xff", "template: the template is not UTF-8 at byte 0; allowed: UTF-8"},
  };
  for (const Case& c : cases) {
    INFO(c.source);
    CHECK(error_of(c.source) == c.text);
  }
  CHECK_THAT(error_of("{{ 1 | nope }}"), Catch::StartsWith("template: line 1: unknown filter 'nope'; allowed: abs, attr, batch"));
  CHECK_THAT(error_of("{{ 1 is nope }}"), Catch::StartsWith("template: line 1: unknown test 'nope'; allowed: defined"));
}

TEST_CASE("the date is the one that was given") {
  jinja::RenderOptions options;
  options.now = std::tm{};
  options.now->tm_year = 126;
  options.now->tm_mon = 6;
  options.now->tm_mday = 4;
  CHECK(render("{{ strftime_now('%d %b %Y, %-d') }}", Json::object(), options) == "04 Jul 2026, 4");
  const auto of_data = jinja::Template("<{{ strftime_now('%Y' ~ x) }}>").render({{"x", "ab"}}, options);  // a format that is data in part makes data
  CHECK(of_data.text == "<2026ab>");
  REQUIRE(of_data.data.size() == 1);
  CHECK((of_data.data[0].begin == 1 && of_data.data[0].end == 7));
  CHECK_THAT(error_of("{{ strftime_now('%999999999d') }}", Json::object(), options), Catch::Contains("unknown field"));
  CHECK_THAT(error_of("{{ strftime_now('%') }}", Json::object(), options), Catch::Contains("unknown field"));
}

TEST_CASE("a hostile template ends with an error: no crash, no hang, no memory without end") {
  const auto repeated = [](const std::string& text, int times) {
    std::string all;
    for (int i = 0; i < times; ++i) all += text;
    return all;
  };
  const std::vector<std::string> sources = {
      "{{ " + repeated("(", 5000) + "1" + repeated(")", 5000) + " }}",
      "{{ " + repeated("-", 50000) + "1 }}",
      "{{ " + repeated("not ", 50000) + "1 }}",
      "{{ 1" + repeated(" + 1", 50000) + " }}",
      "{{ x" + repeated(".x", 50000) + " }}",
      "{{ x" + repeated("|trim", 50000) + " }}",
      "{{ 1" + repeated(" if 1", 50000) + " }}",
      "{{ " + repeated("[", 50000) + repeated("]", 50000) + " }}",
      repeated("{% if 1 %}", 5000) + repeated("{% endif %}", 5000),
      "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
      "{% macro f(a) %}{{ a(a) }}{% endmacro %}{{ f(f) }}",
      "{% set ns = namespace(x=[]) %}{% for i in range(99999) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}",
      "{% set ns = namespace(x=[]) %}{% for i in range(90) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}",
      "{% set ns = namespace(x=[], y=[]) %}{% for i in range(90) %}{% set ns.x = [ns.x, ns.x] %}{% set ns.y = [ns.y, ns.y] %}{% endfor %}{{ ns.x == ns.y }}",
      "{% set ns = namespace(x='ab') %}{% for i in range(99999) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
      "{% for a in range(99999) %}{% for b in range(99999) %}{% for c in range(99999) %}{% endfor %}{% endfor %}{% endfor %}",
      "{{ 'x' * 999999999999 }}",
      "{{ [1] * 999999999999 }}",
      "{{ range(999999999999) }}",
      "{{ '%999999999d' % 1 }}",
      "{{ 'a' | indent(999999999999) }}",
      "{{ ('a' * 10000000).replace('', 'b' * 10000000) }}",
      "{{ 'x'.join('a' * 100000 | list) | list | list | map('list') | list | map('list') | list }}{% for i in range(9999) %}{{ 'x' * 100000 }}{% endfor %}",
      "{% for x in [[1]] recursive %}{{ loop([[1]]) }}{% endfor %}",
      "{% set x = 'a' * 9999999 %}{% for i in range(99999) %}{% set y = x | upper %}{% endfor %}",
      "{% set ns = namespace() %}{% set ns.ns = ns %}{{ ns }}{{ [ns] | tojson }}",
  };
  for (const std::string& source : sources) {
    INFO(source.substr(0, 200));
    const auto start = std::chrono::steady_clock::now();
    CHECK(error_of(source) != "no error");
    CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(20));  // a second or two; more under a sanitizer
  }
  CHECK_THAT(error_of(std::string(2 << 20, 'x')), Catch::Contains("2097152 bytes"));
  Json deep = 1;
  for (int i = 0; i < 1000; ++i) deep = Json::array({deep});
  CHECK_THAT(error_of("{{ x }}", {{"x", deep}}), Catch::Contains("deep"));
}

TEST_CASE("limits are what the caller says") {
  jinja::RenderOptions options;
  options.limits.output_bytes = 10;
  CHECK(error_of("{{ 'x' * 11 }}", Json::object(), options) == "template: line 1: a text gets too long; allowed: up to 10 bytes");
  CHECK(render("{{ 'x' * 10 }}", Json::object(), options) == "xxxxxxxxxx");
  options.limits.work = 5000;
  CHECK_THAT(error_of("{% for i in range(100) %}{% endfor %}", Json::object(), options), Catch::Contains("too much work; allowed: 5000"));
}

TEST_CASE("a parsed template renders again and again") {
  const jinja::Template source("{% set ns = namespace(n=0) %}{% for x in l %}{% set ns.n = ns.n + x %}{% endfor %}{{ ns.n }}");
  CHECK(source.render(Json{{"l", {1, 2}}}).text == "3");
  CHECK(source.render(Json{{"l", {3}}}).text == "3");
  const auto rendered = jinja::Template("a{% generation %}bc{% endgeneration %}d").render(Json::object());
  REQUIRE(rendered.generation.size() == 1);
  CHECK((rendered.generation[0] == TextRange{1, 3}));
}
