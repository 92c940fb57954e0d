"""What mutate.py breaks and how: the rules that make mutants of a kernel's source, and programs that hold many of them.

A mutant is one small change of one line. Compiling is what a campaign pays for, so mutants share programs: each change is written so that it holds only
where `MUTANT(n)` says so, and the environment variable MUTANT of a run chooses n (0: the kernel as it is). What cannot be switched while a program
runs (sizes of arrays, constants) is compiled by itself.
"""
import collections, hashlib, pathlib, re

ROOT = pathlib.Path(__file__).resolve().parents[2]

# start, end: columns of the line that are replaced, by `literal`, or by `switched`, where @ is the switch (None: cannot be switched).
Mutant = collections.namedtuple("Mutant", "source kind line start end literal switched before after key")

_BARRIER = r"__syncthreads\(\);"
_GUARD = r"(?<!for \()\b([\w.]+( \+ [\w.]+)?) %s ([\w.]+)(?=\)| &&| \|\|| \?)"
# A loop from the beginning in steps of more than one, which a bound of one less would not change: one turn less.
# A loop that one thread runs from the beginning, in steps of more than one: a bound of one less often changes nothing, one turn less does.
_FROM_START = r"(?:(?<== 0; )|(?<=begin; )|(?<=kSlots; ))"
_IN_STEPS = r"(?=; \w+ \+= (?:\d|kSlots|TK))"
_ARRAY = r"(?<=\w)\[((?:k[A-Z]\w*|\d+|[ *+/()-])*k[A-Z](?:k[A-Z]\w*|\w|[ *+/()-])*)\]"  # of constants alone: a declaration
_ELEMENT = r"(?<=[\w\]])\[([^\[\]&?]*\b(?!k[A-Z])[a-z]\w*[^\[\]?]*)\]"
_SUM = r"((?:[\w.]|\[[^\[\]]*\])+) \+= (?![^;]*\) )"  # not the step of a loop: that would never end

# Kind, what to look for in a line, what to put in its place, and the same with a switch.
RULES = [
    ("barrier", _BARRIER, ";", "if (!@) __syncthreads();"),
    ("barrier", _BARRIER, "__syncwarp();", "if (@) __syncwarp(); else __syncthreads();"),
    ("barrier", _BARRIER, "if (threadIdx.x < 16) __syncthreads();", "if (!@ || threadIdx.x < 16) __syncthreads();"),
    ("barrier", r"__syncwarp\(\);", ";", "if (!@) __syncwarp();"),
    ("wait", r"((?:gpu::)?cp_async_wait<\d>\(\));", ";", r"if (!@) \1;"),
    ("wait", r"((?:gpu::)?)cp_async_wait<0>\(\);", r"\1cp_async_wait<1>();", r"if (@) \1cp_async_wait<1>(); else \1cp_async_wait<0>();"),
    ("wait", r"((?:gpu::)?)cp_async_wait<1>\(\);", r"\1cp_async_wait<2>();", r"if (@) \1cp_async_wait<2>(); else \1cp_async_wait<1>();"),
    ("wait", r"((?:gpu::)?cp_async_commit\(\));", ";", r"if (!@) \1;"),
    ("index", r"(?<=; )(\w+) < (?=[^;]*;)", r"\1 <= ", r"\1 < @ + "),  # loops
    ("index", r"(?<=; )(?!" + _FROM_START + r"\w+ < [^;]+" + _IN_STEPS + r")(\w+) < ([^;&|?]+?)(?=;(?! \w+ \*= 2)| &&)", r"\1 < \2 - 1", r"\1 < \2 - @"),
    ("index", _FROM_START + r"(\w+) < ([^;&|?]+?)" + _IN_STEPS + r"(?=; \w+ \+= (\w+))", r"\1 < \2 - \3", r"\1 < \2 - @ * \3"),
    ("index", r"(?<=; )(\w+) < ([^;&|?]+?)(?=; \w+ \*= 2)", r"\1 < \2 / 2", r"\1 < \2 / (@ + 1)"),
    ("index", _GUARD % "<", r"\1 <= \3", r"\1 < \3 + @"),
    ("index", _GUARD % "<", r"\1 < \3 - 1", r"\1 < \3 - @"),
    ("index", _GUARD % ">=", r"\1 > \3", r"\1 >= \3 + @"),
    ("index", _ELEMENT, r"[\1 + 1]", r"[\1 + @]"),
    ("index", _ARRAY, r"[\1 - 1]", None),
    ("index", r"(PATCHBAY_SHARED\(.*, \[[^\[\]]+)\]", r"\1 - 1]", None),
    ("index", r"(\w+ \+ (?:1|PAD|kPad))\]", r"\1 - 2]", r"\1 - 2 * @]"),
    ("index", r"\b(block|bytes) \+ (\d+)", r"\1 + \2 + 1", r"\1 + \2 + @"),
    ("index", r"= (tid|lane|warp|row|col|threadIdx\.x|blockIdx\.x);", r"= \1 + 1;", r"= \1 + @;"),
    ("index", r"(?<=[\w)\]] )/ (8|16|32)\b", "/ 7", r"/ (@ ? 7 : \1)"),
    ("index", r"(?<=[\w)\]] )% (\d+)\b", r"% (\1 - 1)", r"% (\1 - @)"),
    ("index", r"size_t \w+ = \((.*)\) \* sizeof", r"size_t smem = (\1 - 1) * sizeof", r"size_t smem = (\1 - @) * sizeof"),
    ("index", r"size_t \w+ = \((.*)\) \* sizeof", r"size_t smem = (\1 - 32) * sizeof", r"size_t smem = (\1 - 32 * @) * sizeof"),
    ("index", r"(sizeof\(float\) \* [^;]+);", r"\1 - sizeof(float);", r"\1 - @ * sizeof(float);"),
    ("lane", r"(__shfl_(?:xor|up|down)_sync\([^;]*, )(\w+)\)", r"\1\2 - 1)", r"\1\2 - @)"),
    ("lane", r"__shfl_xor_sync\(([^;()]*)\)", r"__shfl_down_sync(\1)", r"(@ ? __shfl_down_sync(\1) : __shfl_xor_sync(\1))"),
    ("lane", r"__shfl_up_sync\(([^;()]*)\)", r"__shfl_down_sync(\1)", r"(@ ? __shfl_down_sync(\1) : __shfl_up_sync(\1))"),
    ("lane", r"_sync\(~0u", "_sync(0xffffu", "_sync(@ ? 0xffffu : ~0u"),
    ("lane", r"= 16; (\w+) > 0", r"= 8; \1 > 0", r"= @ ? 8 : 16; \1 > 0"),
    ("lane", r"= 16; (\w+) > 0", r"= 16; \1 > 1", r"= 16; \1 > @"),
    ("lane", r"lane == 0", "lane == 1", "lane == @"),
    ("lane", r"lane == 31", "lane == 30", "lane == 31 - @"),
    ("lane", r"lane % 16", "lane / 2", "(@ ? lane / 2 : lane % 16)"),
    ("lane", r"lane / 16", "lane % 2", "(@ ? lane % 2 : lane / 16)"),
    ("lane", r"lane / 4", "lane % 8", "(@ ? lane % 8 : lane / 4)"),
    ("lane", r"lane % 4", "lane / 8", "(@ ? lane / 8 : lane % 4)"),
    ("lane", r"\be / 2", "e % 2", "(@ ? e % 2 : e / 2)"),
    ("lane", r"warp / ([\w:]+) \*", r"warp % \1 *", r"(@ ? warp % \1 : warp / \1) *"),
    ("lane", r"threadIdx\.x % 32", "threadIdx.x / 4", "(@ ? threadIdx.x / 4 : threadIdx.x % 32)"),
    ("logic", r"([={,]) -INFINITY", r"\1 0.0f", r"\1 (@ ? 0.0f : -INFINITY)"),
    ("logic", r"= 0\.0f", "= 1.0f", "= (@ ? 1.0f : 0.0f)"),
    ("logic", r"\b(sum|product|output|mean|squares|largest|total|own|before) = 0(?=[,;])", r"\1 = 1", r"\1 = @"),
    ("logic", r": 0\.0f;", ": 1.0f;", ": (@ ? 1.0f : 0.0f);"),
    ("logic", _SUM, r"\1 = ", r"(@ ? void(\1 = {}) : void()), \1 += "),
    ("logic", r" \*= (\w+);", " += 0;", r" *= (@ ? 1 : \1);"),
    ("logic", r"\* (corr|correction|factor|scale|inverse)\b(?!\()", "", r"* (@ ? 1 : \1)"),
    ("logic", r" / (l|sum|total)\b(?!\()", "", r" / (@ ? 1 : \1)"),
    ("logic", r"\) - 8\)", ") - 7)", ") - (@ ? 7 : 8))"),
    ("logic", r"& (15|63)\b", "& 7", r"& (@ ? 7 : \1)"),
    ("logic", r"\b(s|stage) \^ 1, ", r"\1, ", r"\1 ^ !@, "),
]

_NO_KERNEL = re.compile(r"^\s*(#|template <|throw |require)|static_assert|gpu::launch|Error\(")
_CONSTANT = re.compile(r"constexpr|PATCHBAY_SHARED|^\s*using |^\s*struct ")  # a switch has no value yet


def mutants_of(source):
    """All mutants of a source. Those whose text is the same, line and change, are told apart by a number in their key."""
    seen, count = set(), collections.Counter()
    for number, line in enumerate((ROOT / source).read_text().split("\n"), 1):
        code = line.split("//")[0].rstrip()
        if not code.strip() or code.lstrip().startswith("*") or _NO_KERNEL.search(code):
            continue
        for kind, pattern, literal, switched in RULES:
            for match in re.finditer(pattern, code):
                becomes = match.expand(literal)
                after = code[:match.start()] + becomes + code[match.end():]
                if after == code or (number, after) in seen:
                    continue
                seen.add((number, after))
                after = after.strip() if after.strip() != ";" else "(nothing)"
                key = "%s: %s => %s" % (pathlib.Path(source).name, code.strip(), after)
                count[key] += 1
                yield Mutant(source, kind, number, match.start(), match.end(), becomes, match.expand(switched) if switched and not _CONSTANT.search(code) else None,
                             code.strip(), after, key + (" (%d)" % count[key] if count[key] > 1 else ""))


def in_fixed_order(mutants):
    """As if shuffled, the same each time: the first n are a sample that does not change when others come or go."""
    return sorted(mutants, key=lambda mutant: hashlib.sha1(mutant.key.encode()).hexdigest())


def batches(mutants):
    """The mutants of one source, put together into programs: in one program, no two change the same text."""
    programs = []
    for mutant in mutants:
        place = next((p for p in programs if mutant.switched and p[0].switched and not any(_overlap(mutant, other) for other in p)), None)
        if place is None:
            programs.append(place := [])
        place.append(mutant)
    return programs


def _overlap(a, b):
    return a.line == b.line and a.start < b.end and b.start < a.end


def text_of(program):
    """The source with all mutants of a program in it, the first behind switch 1."""
    lines = (ROOT / program[0].source).read_text().split("\n")
    for number, mutant in sorted(enumerate(program, 1), key=lambda item: -item[1].start):
        becomes = mutant.literal if mutant.switched is None else mutant.switched.replace("@", "MUTANT(%d)" % number)
        line = lines[mutant.line - 1]
        lines[mutant.line - 1] = line[:mutant.start] + becomes + line[mutant.end:]
    return "\n".join(lines)
