#!/usr/bin/env python3
"""Renders the conversations of generate.py through template files of your own, with transformers and with patchbay, and compares: for templates
whose licences do not let them lie here (Llama 3, Gemma).

    pip install transformers jinja2
    cmake --build build/release --target jinja_lines
    python tests/golden/chat_templates/compare.py FILE.jinja...
"""
import json
import pathlib
import subprocess
import sys

import generate

ROOT = pathlib.Path(__file__).resolve().parents[3]


def context_of(conversation, add_generation_prompt):
    """What transformers gives to a template."""
    messages = []
    for message in conversation["messages"]:
        message = {key: value for key, value in message.items() if value is not None}
        reasoning = next((message[key] for key in ("reasoning_content", "thinking", "reasoning") if key in message), None)
        messages.append(message if reasoning is None else {"thinking": reasoning, **message, "reasoning_content": reasoning})
    return {**generate.SPECIAL, **conversation.get("variables", {}), "messages": messages, "tools": conversation.get("tools"), "documents": None,
            "add_generation_prompt": add_generation_prompt}


def main():
    tool = ROOT / "build" / "release" / "bin" / "jinja_lines"
    if not pathlib.Path(tool).exists():
        raise SystemExit(f"{tool} is not there; build it: cmake --build build/release --target jinja_lines")
    process = subprocess.Popen([tool], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    tokenizer = generate.tokenizer()
    cases = differences = refused = 0
    for path in sys.argv[1:]:
        template = pathlib.Path(path).read_text(encoding="utf-8")
        for name, conversation in generate.CONVERSATIONS.items():
            for prompt in (False, True):
                wanted = generate.rendered(tokenizer, template, conversation, prompt)
                process.stdin.write(json.dumps({"template": template, "context": context_of(conversation, prompt), "now": generate.NOW}) + "\n")
                process.stdin.flush()
                answer = json.loads(process.stdout.readline())
                cases += 1
                refused += wanted is None
                if answer.get("text") != wanted:
                    differences += 1
                    print(f"DIFFERENCE in {path}, '{name}', add_generation_prompt={prompt}\nwanted {wanted!r}\nours   {answer}")
    print(f"{cases} cases, {refused} refused by both, {differences} differences" if not differences else f"{cases} cases, {differences} differences")
    raise SystemExit(differences > 0)


if __name__ == "__main__":
    main()
