#!/usr/bin/env python3
"""Differential fuzzing of the chat templates' Jinja against jinja2 as transformers sets it up: random templates over random contexts. The
first difference ends it with status 1 and says how to repeat it.

    pip install transformers jinja2
    cmake --build build/release --target jinja_lines
    python tests/fuzz/jinja.py --minutes 10

What docs/chat.md lists as different on purpose is not made here (marked-up text that is put together) or counts as the same: integers past
64 bits and texts past the limits are errors here, generators print without an address, an unknown filter is an error when it is run, and so
is a slice of what has none (jinja2 makes it undefined where the operand is a constant).
"""
import argparse
import json
import pathlib
import random
import subprocess
import sys
import time
import warnings

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "golden" / "chat_templates"))
import generate  # noqa: E402  (the clock)
from transformers.utils import chat_template_utils  # noqa: E402

warnings.simplefilter("ignore")
ON_PURPOSE = ("does not fit 64 bits", "does not fit 64", "cannot be held", "gets too long", "too much work", "nest too deep", "go too deep", "nests too deep", "64 bits", "is too large", "fractional power", "cannot be sliced")
STRINGS = ["", "a", "abc", " a b ", "Hello World", "x,y,,z", "\n\n a\n b\r\nc\u2028d\n", "é", "e\u0301", "ß", "İstanbul", "ΑΣ ΣΑΣ", "ǅ", "ﬁ", "🦑👩‍👩‍👧", "你好 世界", "<|im_end|>", "<b>&\"'</b>",
           "it's", "\"q\"", "a\\b", "\t\x0b\x0c\x1c\x85\u00a0\u3000", "12", "-3", " 42 ", "3.5", "1e3", "0x1F", "1_000", "nan", "²", "٣", "Ⅷ", "true", "None", "{{ x }}", "%s %d", "a.b", "a-b (c) [d]",
           "\x00\x7f\x1b", "aAaA", "</think>", "role", "ab" * 20]
NAMES = ["s", "t", "n", "f", "l", "m", "d", "messages", "none_", "missing", "yes"]
CLASSES = {"s": "str", "t": "str", "n": "int", "f": "float", "l": "list_int", "m": "list_str", "d": "dict", "messages": "list_dict", "none_": "any", "missing": "any", "yes": "bool"}


def random_text(rng):
    return rng.choice(STRINGS) if rng.random() < 0.8 else "".join(rng.choice(STRINGS) for _ in range(3))


def random_value(rng, depth=0):
    kind = rng.randrange(9 if depth < 3 else 6)
    if kind == 0:
        return rng.choice([None, True, False])
    if kind == 1:
        return rng.choice([0, 1, -1, 2, 7, 10, -13, 100, 2**31, 2**53 + 1, 2**62])
    if kind == 2:
        return rng.choice([0.0, -0.0, 0.5, 1.0, 2.5, -3.7, 0.1, 1e16, 1e15, 1e-5, 1.5e300, 123456.789, 1e22])
    if kind < 6:
        return random_text(rng)
    if kind < 8:
        return [random_value(rng, depth + 1) for _ in range(rng.randint(0, 4))]
    return {random_text(rng) if rng.random() < 0.5 else rng.choice("abc"): random_value(rng, depth + 1) for _ in range(rng.randint(0, 4))}


def random_context(rng):
    roles = ["user", "assistant", "system", "tool"]
    return {"s": random_text(rng), "t": random_text(rng), "n": rng.choice([0, 1, 2, 3, 5, -1, -7, 12]), "f": rng.choice([0.5, -1.5, 2.0, 1e20, 0.1, 3.999]),
            "l": [rng.randint(-5, 9) for _ in range(rng.randint(0, 5))], "m": [random_text(rng) for _ in range(rng.randint(0, 5))],
            "d": {rng.choice(["a", "b", "c", "B", "items", "get", "x y", "é"]): random_value(rng) for _ in range(rng.randint(0, 4))},
            "messages": [{"role": rng.choice(roles), "content": random_text(rng), **({"extra": random_value(rng)} if rng.random() < 0.3 else {})} for _ in range(rng.randint(0, 4))],
            "none_": None, "yes": rng.random() < 0.5}


def quoted(rng, text):
    written = text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").replace("\x00", "\\x00")
    quote = rng.choice("'\"")
    return quote + written.replace(quote, "\\" + quote) + quote


class Generator:
    """Writes ` for " where an f-string would need a backslash; main() puts that right."""

    def __init__(self, rng):
        self.rng = rng
        self.locals = []

    def pick(self, *choices):
        choice = self.rng.choice(choices)
        return choice() if callable(choice) else choice

    def of(self, kind, depth):
        """An expression that mostly has this kind of value."""
        if depth <= 0 or self.rng.random() < 0.1:
            return self.leaf(kind)
        if self.rng.random() < 0.04:
            kind = self.rng.choice(["str", "int", "float", "bool", "list_int", "list_str", "dict", "any"])
        return getattr(self, "make_" + kind)(depth - 1)

    def leaf(self, kind):
        rng = self.rng
        names = [name for name in NAMES + self.locals if CLASSES.get(name, "any") in (kind, "any")]
        if names and rng.random() < 0.5:
            return rng.choice(names)
        if kind == "str":
            return quoted(rng, random_text(rng))
        if kind == "int":
            return str(rng.choice([0, 1, 2, 3, 5, 10, 255, 4096]))
        if kind == "float":
            return rng.choice(["0.5", "1.0", "2.25", "1e3", "3.14159", "1e-7", "12.5e10"])
        if kind == "bool":
            return rng.choice(["true", "false", "True", "False"])
        if kind == "list_int":
            return rng.choice(["[]", "[1, 2, 3]", "[3, 1, 2, 1]", "(1, 2)", "range(4)|list", "range(5, 0, -2)|list"])
        if kind == "list_str":
            return "[" + ", ".join(quoted(rng, random_text(rng)) for _ in range(rng.randint(0, 3))) + "]"
        if kind == "list_dict":
            return rng.choice(["messages", "[{'role': 'user', 'content': 'x'}]"])
        if kind == "dict":
            return rng.choice(["d", "{}", "{'a': 1, 'b': 'x', 'A': none}", "{1: 2, 'k': [1]}", "dict(a=1, b=s)"])
        return self.leaf(rng.choice(["str", "int", "float", "bool", "list_int", "list_str", "dict", "list_dict"]))

    def make_any(self, depth):
        return self.of(self.rng.choice(["str", "int", "float", "bool", "list_int", "list_str", "dict"]), depth + 1)

    def make_str(self, d):
        rng, of = self.rng, self.of
        return self.pick(
            lambda: f"({of('str', d)} + {of('str', d)})", lambda: f"({of('any', d)} ~ {of('any', d)})", lambda: f"({of('str', d)} * {rng.randint(-1, 3)})",
            lambda: f"{of('str', d)}[{self.slice()}]", lambda: f"{of('str', d)}[{rng.randint(-4, 4)}]",
            lambda: f"{of('str', d)}|{rng.choice(['trim', 'upper', 'lower', 'capitalize', 'title', 'string', 'reverse', 'first', 'last'])}",
            lambda: f"{of('str', d)}.{rng.choice(['strip', 'lstrip', 'rstrip', 'upper', 'lower', 'title', 'capitalize'])}()",
            lambda: f"{of('str', d)}.{rng.choice(['strip', 'lstrip', 'rstrip'])}({of('str', d)})", lambda: f"{of('str', d)}|trim({of('str', 0)})",
            lambda: f"{of('str', d)}.replace({of('str', d)}, {of('str', d)}{rng.choice(['', ', 1', ', 0', ', -1'])})",
            lambda: f"{of('any', d)}|replace({of('str', d)}, {of('str', d)}{rng.choice(['', ', 2'])})",
            lambda: f"{of('list_str', d)}|join({of('str', 0)})", lambda: f"{of('str', 0)}.join({of('list_str', d)})", lambda: f"{of('any', d)}|tojson",
            lambda: f"{of('any', d)}|tojson(indent={rng.choice(['2', '0', '4', 'none', quoted(rng, chr(9))])})",
            lambda: f"{of('any', d)}|tojson(ensure_ascii={rng.choice(['true', 'false'])}, separators=(',', ':'), sort_keys={rng.choice(['true', 'false'])})",
            lambda: f"{of('str', d)}|indent({rng.randint(0, 4)}, {of('bool', 0)}, {of('bool', 0)})", lambda: f"({of('str', d)} if {of('bool', d)} else {of('str', d)})",
            lambda: f"({of('any', d)}|default({of('str', d)}{rng.choice(['', ', true'])}))", lambda: f"({of('any', d)} or {of('str', d)})", lambda: f"{of('any', d)}|string",
            lambda: f"{of('list_dict', d)}|map(attribute={rng.choice(['`role`', '`content`', '`extra`'])}{rng.choice(['', ', default=1'])})|join('|')",
            lambda: f"'%s-%5d|%-4s|%05.2f' % ({of('any', d)}, {of('int', d)}, {of('str', d)}, {of('float', d)})", lambda: f"'{{}}/{{1}}/{{k}}'.format({of('any', d)}, 2, k=3)" if rng.random() < 0.3 else f"'{{0}}{{k}}'.format({of('any', d)}, k={of('any', d)})",
            lambda: f"{of('list_str', d)}|{rng.choice(['first', 'last', 'min', 'max'])}|default('-')", lambda: f"{of('str', d)}.{rng.choice(['removeprefix', 'removesuffix'])}({of('str', 0)})",
            lambda: f"{of('list_dict', d)}[{rng.randint(-2, 2)}].content", lambda: f"{of('list_dict', d)}[0]['role']", lambda: f"f1({of('str', d)})" if "f1" in self.locals else self.leaf("str"))

    def slice(self):
        rng = self.rng
        part = lambda: rng.choice(["", "", str(rng.randint(-6, 6))])  # noqa: E731
        return part() + ":" + part() + rng.choice(["", "", ":", ":" + str(rng.choice([1, 2, -1, -2, 3]))])

    def make_int(self, d):
        rng, of = self.rng, self.of
        return self.pick(
            lambda: f"({of('int', d)} {rng.choice(['+', '-', '*', '//', '%'])} {of('int', d)})", lambda: f"{of('any', d)}|length", lambda: f"-{of('int', d)}",
            lambda: f"({of('int', d)} ** {rng.randint(0, 6)})", lambda: f"{of('any', d)}|int", lambda: f"{of('str', d)}|int({rng.randint(-1, 5)}{rng.choice(['', ', 16', ', 2'])})",
            lambda: f"{of('list_int', d)}|{rng.choice(['sum', 'first', 'last', 'min', 'max'])}", lambda: f"{of('str', d)}.{rng.choice(['find', 'rfind', 'count'])}({of('str', 0)})",
            lambda: f"{of('int', d)}|abs", lambda: f"{of('list_int', d)}[{rng.randint(-3, 3)}]", lambda: f"{of('list_str', d)}.count({of('str', 0)})", lambda: f"({of('int', d)} if {of('bool', d)} else {of('int', d)})",
            lambda: f"{of('list_dict', d)}|selectattr('role', 'equalto', 'user')|list|length", lambda: f"{of('int', d)}|round")

    def make_float(self, d):
        rng, of = self.rng, self.of
        return self.pick(lambda: f"({of('float', d)} {rng.choice(['+', '-', '*', '/', '//', '%'])} {of('float', d)})", lambda: f"({of('int', d)} / {of('int', d)})", lambda: f"{of('any', d)}|float",
                         lambda: f"{of('float', d)}|round({rng.choice(['', '1', '2', '0', '-1'])})", lambda: f"{of('float', d)}|round({rng.randint(0, 3)}, {rng.choice(['`ceil`', '`floor`', '`common`'])})",
                         lambda: f"{of('float', d)}|abs", lambda: f"({of('float', d)} ** {rng.choice(['2', '-1', '0.5'])})", lambda: f"-{of('float', d)}")

    def make_bool(self, d):
        rng, of = self.rng, self.of
        tests = ["defined", "undefined", "none", "string", "number", "integer", "float", "boolean", "mapping", "iterable", "sequence", "true", "false", "callable"]
        return self.pick(
            lambda: f"({of('any', d)} is {rng.choice(['', 'not '])}{rng.choice(tests)})", lambda: f"({of('int', d)} is {rng.choice(['odd', 'even', 'divisibleby 3', 'divisibleby(2)'])})",
            lambda: f"({of('any', d)} {rng.choice(['==', '!='])} {of('any', d)})", lambda: f"({of('int', d)} {rng.choice(['<', '<=', '>', '>='])} {of('float', d)})",
            lambda: f"({of('str', d)} {rng.choice(['<', '>', '<=', '>='])} {of('str', d)})", lambda: f"({of('int', d)} < {of('int', d)} <= {of('int', d)})", lambda: f"(not {of('any', d)})",
            lambda: f"({of('any', d)} {rng.choice(['and', 'or'])} {of('any', d)})", lambda: f"({of('str', d)} {rng.choice(['in', 'not in'])} {of('str', d)})", lambda: f"({of('any', d)} {rng.choice(['in', 'not in'])} {of('list_str', d)})",
            lambda: f"({of('str', d)} in {of('dict', d)})", lambda: f"{of('str', d)}.{rng.choice(['startswith', 'endswith'])}({of('str', d)})", lambda: f"{of('str', d)}.startswith(({of('str', 0)}, {of('str', 0)}))",
            lambda: f"{of('str', d)}.{rng.choice(['isdigit', 'isalpha', 'isalnum', 'isspace', 'isupper', 'islower', 'isdecimal', 'isnumeric'])}()", lambda: f"({of('str', d)} is {rng.choice(['lower', 'upper'])})",
            lambda: f"({of('any', d)} is {rng.choice(['eq', 'ne', 'equalto', 'sameas'])}({self.leaf('bool')}))", lambda: f"({of('int', d)} is {rng.choice(['lt', 'gt', 'le', 'ge', 'lessthan'])}({of('int', d)}))", lambda: f"({of('str', d)} is in {of('list_str', d)})")

    def make_list_int(self, d):
        rng, of = self.rng, self.of
        return self.pick(lambda: f"({of('list_int', d)}|list + {of('list_int', d)}|list)", lambda: f"{of('list_int', d)}[{self.slice()}]", lambda: f"{of('list_int', d)}|{rng.choice(['list', 'sort', 'sort(reverse=true)', 'unique|list', 'reverse|list'])}",
                         lambda: f"{of('list_int', d)}|{rng.choice(['select', 'reject'])}({rng.choice(['`odd`', '`even`', '`gt`, 1', '`divisibleby`, 2', ''])})|list", lambda: f"{of('list_int', d)}|map('abs')|list",
                         lambda: f"{of('list_str', d)}|map({rng.choice(['`length`', '`int`', '`int`, -1'])})|list", lambda: f"[{of('int', d)}, {of('int', d)}]", lambda: f"{of('list_int', d)}|{rng.choice(['batch', 'slice'])}({rng.randint(1, 3)}{rng.choice(['', ', 0'])})|list",
                         lambda: f"range({rng.randint(-2, 8)})|list", lambda: f"({of('int', d)},)")

    def make_list_str(self, d):
        rng, of = self.rng, self.of
        return self.pick(lambda: f"{of('str', d)}.{rng.choice(['split', 'rsplit'])}({rng.choice(['', '' , 'none, 1', quoted(rng, ' '), quoted(rng, ','), quoted(rng, 'a') + ', 1', quoted(rng, '</think>')])})",
                         lambda: f"{of('str', d)}.splitlines({rng.choice(['', 'true'])})", lambda: f"{of('list_str', d)}[{self.slice()}]", lambda: f"{of('str', d)}|list", lambda: f"{of('list_str', d)}|map({rng.choice(['`upper`', '`trim`', '`lower`', '`title`'])})|list",
                         lambda: f"{of('list_str', d)}|{rng.choice(['sort', 'sort(case_sensitive=true)', 'sort(reverse=true)', 'unique|list', 'unique(true)|list', 'reverse|list', 'list'])}", lambda: f"{of('dict', d)}.keys()|list", lambda: f"{of('dict', d)}|list",
                         lambda: f"{of('list_dict', d)}|map(attribute='content')|list", lambda: f"{of('list_str', d)}|{rng.choice(['select', 'reject'])}({rng.choice(['', '`string`', '`equalto`, `a`', '`in`, `abc`'])})|list", lambda: f"{of('str', d)}.{rng.choice(['partition', 'rpartition'])}({quoted(rng, rng.choice(STRINGS[1:]))})",
                         lambda: f"{of('list_dict', d)}|{rng.choice(['selectattr', 'rejectattr'])}({rng.choice(['`role`', '`extra`', '`role`, `equalto`, `user`', '`extra`, `defined`', '`content`, `ne`, `a`'])})|list", lambda: f"{of('list_dict', d)}|sort(attribute={rng.choice(['`role`', '`content`', '`role,content`'])})")

    def make_dict(self, d):
        rng, of = self.rng, self.of
        return self.pick(lambda: f"{{'a': {of('any', d)}, {of('str', 0)}: {of('any', d)}}}", lambda: f"dict({of('dict', d)}, z={of('any', d)})", lambda: f"{of('dict', d)}.get({of('str', 0)}, {of('any', d)})", lambda: f"{of('dict', d)}.items()|list", lambda: f"{of('dict', d)}|dictsort({rng.choice(['', 'true', 'false, `key`, true'])})",
                         lambda: f"{of('dict', d)}.values()|list", lambda: f"{of('dict', d)}|items|list", lambda: f"{of('dict', d)}{rng.choice(['.a', '[`a`]', '.b'])}|default('?')|string|length", lambda: self.leaf("dict"), lambda: f"{of('list_dict', d)}[{rng.randint(-1, 1)}]")

    make_list_dict = make_dict

    # statements -------------------------------------------------------------------------------------------------------------------

    def tag(self, inside):
        rng = self.rng
        return "{%" + rng.choice(["", "-", "", "+"]) + rng.choice([" ", "", "\n "] if not inside[0] in "+-" else [" "]) + inside + rng.choice([" ", "  "]) + rng.choice(["", "-", "", "+"]) + "%}"

    def data(self):
        return self.rng.choice(["", "x", " ", "\n", "  \n  ", " a\n", "\n\t", "\n\n  b", "{ } % #", "é\u3000", "text\r\n ", "\x1c"])

    def print_tag(self):
        rng = self.rng
        expression = self.of(rng.choice(["str", "str", "int", "float", "bool", "list_int", "list_str", "dict", "any"]), rng.randint(0, 3))
        if rng.random() < 0.1:
            expression += "|e" if rng.random() < 0.5 else "|safe"
        return "{{" + rng.choice(["", "-", " ", "- "]) + expression + rng.choice([" ", "", " -"]) + "}}"

    def body(self, depth):
        return "".join(self.data() + self.statement(depth) for _ in range(self.rng.randint(1, 3))) + self.data()

    def statement(self, depth):
        rng, of = self.rng, self.of
        if depth <= 0 or rng.random() < 0.4:
            return self.print_tag()
        kind = rng.randrange(14)
        if kind < 3:
            middle = self.tag("elif " + of("bool", 1)) + self.body(depth - 1) if rng.random() < 0.3 else ""
            otherwise = self.tag("else") + self.body(depth - 1) if rng.random() < 0.5 else ""
            return self.tag("if " + of(rng.choice(["bool", "any"]), 2)) + self.body(depth - 1) + middle + otherwise + self.tag("endif")
        if kind < 7:
            return self.loop(depth)
        if kind == 7:
            name = rng.choice(["v1", "v2"])
            text = self.tag(f"set {name} = {of('any', 2)}")
            self.locals.append(name)
            return text
        if kind == 8:
            return self.tag("set v3" + rng.choice(["", " | upper", " | trim | length"])) + self.body(depth - 1) + self.tag("endset") + "{{ v3 }}"
        if kind == 9:
            return (self.tag("set ns = namespace(a=0, b='')") + self.tag("for q in " + of("list_int", 1)) + self.tag("set ns.a = ns.a + 1") + self.tag("set ns.b = ns.b ~ q") +
                    self.tag("endfor") + "{{ ns.a }}{{ ns.b }}{{ ns.c is defined }}")
        if kind == 10:
            text = self.tag(f"macro f1(p, q={of('any', 1)})") + self.data() + "{{ p }}:{{ q }}" + self.data() + self.tag("endmacro") + f"{{{{ f1({of('str', 1)}) }}}}{{{{ f1(q=1{rng.choice(['', ', p=2', ', r=3'])}) }}}}"
            return text + (self.tag("macro f2()") + "<{{ caller() }}>" + self.tag("endmacro") + self.tag("call f2()") + self.body(depth - 1) + self.tag("endcall") if rng.random() < 0.3 else "")
        if kind == 11:
            return self.tag("filter " + rng.choice(["upper", "trim", "indent(2)", "replace('a', 'b')|title"])) + self.body(depth - 1) + self.tag("endfilter")
        if kind == 12:
            return self.tag(f"with w = {of('any', 1)}, s = {of('str', 1)}") + self.body(depth - 1) + "{{ w }}" + self.tag("endwith")
        return self.pick("{#" + rng.choice(["", "-", "+"]) + " {{ no }} {% if %} " + rng.choice(["", "-", "+"]) + "#}",
                         "{%" + rng.choice(["", "-", "+"]) + " raw " + rng.choice(["", "-"]) + "%}" + self.data() + "{{ raw }}{% x %}" + self.data() + self.tag("endraw"),
                         self.tag("generation") + self.body(depth - 1) + self.tag("endgeneration"))

    def loop(self, depth):
        rng, of = self.rng, self.of
        loop = "{{ loop." + rng.choice(["index", "index0", "revindex", "revindex0", "first", "last", "length", "depth", "previtem", "nextitem", "cycle('a', 'b')", "changed(loop.index0 // 2)"]) + " }}"
        choice = rng.randrange(4)
        if choice == 0:
            head, inside = "k, v in " + rng.choice(["d.items()", "d|dictsort", "d|items", "{'a': 1, 'b': 2}.items()", "[(1, 2), [3, 4], 'xy']"]), "{{ k }}={{ v }}"
        elif choice == 1:
            head, inside = "e in " + of("list_dict", 1), "{{ e.role }}{{ e['content'] }}"
        else:
            head, inside = "e in " + of(rng.choice(["list_int", "list_str", "any"]), 2), "{{ e }}"
        if rng.random() < 0.25:
            head += " if " + rng.choice(["e", "e != 1", "e is string", "not e"] if choice else ["v", "k != 'a'", "v is number"])
        flow = self.tag("if loop.index > 1") + self.tag(rng.choice(["break", "continue"])) + self.tag("endif") if rng.random() < 0.2 else ""
        outside = len(self.locals)
        body = self.body(depth - 1)
        del self.locals[outside:]
        otherwise = self.tag("else") + self.data() + "none" if rng.random() < 0.3 else ""
        return self.tag("for " + head) + self.data() + flow + inside + loop + body + otherwise + self.tag("endfor")


class Ours:
    def __init__(self, tool):
        self.process = subprocess.Popen([tool], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def render(self, template, context):
        self.process.stdin.write(json.dumps({"template": template, "context": context, "now": generate.NOW}) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"it crashed on\n{template!r}\nwith {json.dumps(context)}")
        return json.loads(line)


def theirs(template, context):
    """The text, or None with the error."""
    try:
        return chat_template_utils._cached_compile_jinja_template(template).render(**context), None
    except Exception as error:  # whatever a template brings about
        return None, f"{type(error).__name__}: {error}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="the round to begin with")
    parser.add_argument("--go-on", action="store_true", help="show differences and go on")
    parser.add_argument("--tool", default=ROOT / "build" / "release" / "bin" / "jinja_lines")
    options = parser.parse_args()
    if not pathlib.Path(options.tool).exists():
        raise SystemExit(f"{options.tool} is not there; build it: cmake --build build/release --target jinja_lines")
    chat_template_utils.datetime = generate.Clock
    ours = Ours(options.tool)
    end, number, texts, on_purpose, differences = time.time() + 60 * options.minutes, options.first, 0, 0, 0
    while time.time() < end:
        rng = random.Random(f"{options.seed} {number}")
        template, context = Generator(rng).body(3).replace("`", '"'), random_context(rng)
        wanted, error = theirs(template, context)
        answer = ours.render(template, context)
        texts += wanted is not None
        if answer.get("text") != wanted:
            message = answer.get("error", "")
            if "No filter named" in (error or "") or " object at 0x" in (wanted or ""):
                on_purpose += 1
            elif "text" not in answer and any(words in message for words in ON_PURPOSE):
                on_purpose += 1
            else:
                differences += 1
                print(f"\nDIFFERENCE, seed {options.seed}, --first {number}\ntemplate {template!r}\ncontext  {json.dumps(context)}\nwanted   {wanted!r} {error or ''}\nours     {answer.get('text')!r} {message}")
                if not options.go_on:
                    raise SystemExit(1)
        number += 1
        if number % 500 == 0:
            print(f"\rseed {options.seed}, {number} templates, {texts} of them rendered, {on_purpose} refused on purpose", end="", flush=True)
    print(f"\rseed {options.seed}: {number - options.first} templates, {texts} of them rendered, {on_purpose} refused on purpose, {differences or 'no'} difference{'s' * (differences > 1)}")
    raise SystemExit(differences > 0)


if __name__ == "__main__":
    main()
