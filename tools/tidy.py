#!/usr/bin/env python3
"""Checks the rules of the tree that no compiler knows; prints `file:line: rule: what` for each fault.

Usage: tools/tidy.py [ROOT]      Exit code 0: clean, 1: faults.

The rules are the functions named check_*; each takes a Source and yields (line, text). They work
on text, not on a syntax tree: comments and literals are blanked first, and the tree's own
formatting (clang-format) makes the rest regular enough. tools/tidy_test.py shows each rule firing.
"""
import ast
import bisect
import os
import re
import subprocess
import sys

MAX_FILE_LINES = 500
MAX_FUNCTION_LINES = 70

# What each room may include, itself aside (docs/ARCHITECTURE.md).
BELOW = {
    "base": [],
    "tensor": ["base"],
    "kernels": ["base", "tensor"],
    "codec": ["base", "tensor", "kernels"],
    "state": ["base", "tensor", "kernels", "codec"],
    "cache": ["base", "tensor", "state"],
    "model": ["base", "tensor", "kernels", "codec", "state"],
    "engine": ["base", "tensor", "kernels", "codec", "state", "cache", "model"],
    "serve": ["base", "tensor", "kernels", "codec", "state", "cache", "model", "engine"],
}

ALLOWED_MACROS = {"KVANT_CHECK", "KVANT_DCHECK", "KVANT_TRY"}

# Folders of kernels/ built with flags of one processor, and simd/, the templates that they share. An
# inline function seen there may be emitted with those flags and then taken by the linker for the
# whole program.
TARGET_FOLDERS = ("avx2", "avx512", "neon", "simd")
TARGET_STD_HEADERS = {"cstddef", "cstdint", "cstring", "cmath", "bit", "limits", "immintrin.h",
                      "arm_neon.h"}

# Headers that are slow to compile or leak macros: one file of a room, or of the program, each.
HEAVY_HEADERS = ("CLI/", "spdlog/", "nlohmann/", "toml++/")

LIBM = "exp exp2 expm1 log log2 log10 log1p pow sin cos tan sinh cosh tanh asin acos atan atan2 " \
       "cbrt hypot erf erfc tgamma lgamma".split()

# rule name, pattern, reason, files where it is allowed (prefixes of paths)
FORBIDDEN = [
    ("libm", r"\b(?:std::|::)(?:%s)f?\s*\(|(?<![\w.:>])(?:%s)f?\s*\(" % ("|".join(LIBM), "|".join(LIBM)),
     "libm differs between machines; use kernels/math.h", []),
    ("random", r"\b(?:s?rand|rand_r|drand48)\s*\(|\bstd::(?:random_device|mt19937|uniform_\w+)",
     "use base/prng.h", []),
    ("environment", r"\b(?:secure_)?getenv\s*\(", "the environment is read by apps/ alone", []),
    ("thread", r"\bstd::(?:thread|jthread|async)\b|\bpthread_create\b",
     "threads come from base/thread_pool.h", ["kvant/base/thread_pool", "kvant/serve/"]),
    ("clock", r"\bstd::chrono\b|\bclock_gettime\b|\bstd::time\s*\(", "time is read by base/clock.h",
     ["kvant/base/clock", "kvant/serve/"]),
    ("file", r"\b(?:fopen|freopen)\s*\(|\bstd::(?:basic_)?[io]?fstream\b|"
     r"(?<![\w>])::(?:open|openat|creat|mmap)\s*\(", "files are read by base/file.h",
     ["kvant/base/", "kvant/cache/", "kvant/tensor/device.cc"]),
    ("console", r"\bstd::(?:cout|cerr|clog|f?printf|puts)\b|(?<![\w.:])f?printf\s*\(|\bfmt::print\b",
     "the library does not print; log_line or a return value", ["kvant/base/check.cc"]),
    ("abort", r"\b(?:std::)?(?:abort|terminate|exit|_Exit|quick_exit)\s*\(|(?<!\w)assert\s*\(",
     "errors are values; KVANT_CHECK for invariants of our own", ["kvant/base/check.cc"]),
    ("throw", r"\bthrow\b", "errors are values (base/result.h)", []),
    ("rtti", r"\bdynamic_cast\b|\btypeid\b|\bdynamic_pointer_cast\b", "no RTTI tricks", []),
    # new straight after a parenthesis is an owner's argument: unique_ptr<A> a(new A) with a private A()
    ("ownership", r"(?:[\w=:?;{}]\s+|[={,])new\s+[A-Za-z_]|\bdelete\b\s*(?:\[\]\s*)?[A-Za-z_(*]",
     "no raw new or delete", ["kvant/base/log.cc", "kvant/tensor/device.cc"]),
]
FORBIDDEN = [(name, re.compile(pattern, re.M), why, allowed) for name, pattern, why, allowed in FORBIDDEN]

UNFINISHED = re.compile(r"\b(?:TO" r"DO|FIX" r"ME|X" r"XX|HA" r"CK)\b(?!\(#\d+\))")
MACHINE_PATH = re.compile(r"(?<![\w.])/(?:work|farm|root|home|tmp)/[\w.]")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)
NOT_CODE = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', re.S)
DIGIT_SEPARATOR = re.compile(r"(?<=[0-9a-fA-F])'(?=[0-9a-fA-F])")
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")


def blank(match):
    """Keeps the shape: newlines stay, quotes of literals stay, the rest becomes spaces."""
    text = match.group(0)
    if text.startswith("/"):
        return re.sub(r"[^\n]", " ", text)
    return '"' + re.sub(r"[^\n]", " ", text[1:-1]) + '"'


class Source:
    """One file: its path relative to the root, its text and, for C++, its text without comments."""

    def __init__(self, root, path):
        self.root, self.path = root, path
        with open(os.path.join(root, path), "rb") as file:
            self.bytes = file.read()
        self.text = self.bytes.decode("utf-8", "replace")
        self.is_cxx = path.endswith((".h", ".cc", ".cu", ".cuh"))
        self.is_test = path.endswith("_test.cc") or not path.startswith(("kvant/", "apps/"))
        self.code = NOT_CODE.sub(blank, DIGIT_SEPARATOR.sub(" ", self.text)) if self.is_cxx else ""
        self.starts = [0] + [m.end() for m in re.finditer("\n", self.text)]
        parts = path.split("/")
        self.room = parts[1] if parts[0] == "kvant" and len(parts) > 2 else None

    def line_at(self, offset):
        return bisect.bisect_right(self.starts, offset)

    def includes(self):
        """(line, is_system, path); names come from the text, since blanking empties quoted ones."""
        for match in INCLUDE.finditer(self.text):
            if "#" in self.code[match.start():match.start(1)]:
                yield self.line_at(match.start(1)), match.group(1) == "<", match.group(2)


def is_source(path):
    return path.endswith((".h", ".cc", ".cu", ".cuh", ".py", ".cmake", ".sh", "CMakeLists.txt")) or \
        path.startswith((".ci/", "scripts/"))


def is_prose(path):
    return path.endswith(".md")


# --- rules ---------------------------------------------------------------------------------------

def check_file_length(source):
    lines = len(source.starts) - 1
    if is_source(source.path) and lines > MAX_FILE_LINES:
        yield 1, f"{lines} lines, at most {MAX_FILE_LINES}"


CONTROL = re.compile(r"^(?:else\b|do\b|try\b|(?:else\s+)?(?:if|for|while|switch|catch)\b)")
SCOPE = re.compile(r"^(?:(?:public|private|protected)\s*:\s*)*(?:template\s*<[^{}]*>\s*)?"
                   r"(?:inline\s+)?(?:namespace|class|struct|union|enum|extern)\b")
BODY = re.compile(r"\)[\w\s:&<>,*\[\](){}.-]*$")


def functions(code):
    """(begin, end) offsets of outermost functions: a brace after a parameter list, to its match."""
    code = re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", lambda m: re.sub(r"[^\n]", " ", m.group(0)), code,
                  flags=re.M)
    stack, head = [], 0
    for match in re.finditer(r"[{};]", code):
        at, mark = match.start(), match.group(0)
        if mark == "{":
            text = code[head:at].strip()
            inside = any(kind for kind, _ in stack)
            opens = (not inside and BODY.search(text) and not SCOPE.search(text) and
                     not CONTROL.match(text))
            begin = head + len(code[head:at]) - len(code[head:at].lstrip())
            stack.append((bool(opens), begin))
        elif mark == "}" and stack:
            opens, begin = stack.pop()
            if opens and code[at + 1:at + 200].lstrip()[:1] in (",", "{"):
                head = begin  # a member initialised with braces: the body is still to come
                continue
            if opens:
                yield begin, at
        head = at + 1


def check_function_length(source):
    spans = []
    if source.is_cxx:
        spans = [(source.line_at(a), source.line_at(b)) for a, b in functions(source.code)]
    elif source.path.endswith(".py"):
        spans = [(node.lineno, node.end_lineno) for node in ast.walk(ast.parse(source.text))
                 if isinstance(node, ast.FunctionDef)]
    for first, last in spans:
        if last - first + 1 > MAX_FUNCTION_LINES:
            yield first, f"function of {last - first + 1} lines, at most {MAX_FUNCTION_LINES}"


def check_layering(source):
    if source.room is None or not source.is_cxx:
        return
    if source.room not in BELOW:
        yield 1, f"unknown room kvant/{source.room}"
        return
    for line, _, path in source.includes():
        parts = path.split("/")
        if parts[0] == "apps":
            yield line, f"a room includes {path}"
        if parts[0] != "kvant" or len(parts) < 3:
            continue
        if parts[1] != source.room and parts[1] not in BELOW[source.room]:
            yield line, f"kvant/{source.room} may not include {path}"


def check_target_files(source):
    parts = source.path.split("/")
    if not (source.is_cxx and source.room == "kernels" and parts[2] in TARGET_FOLDERS):
        return
    own = (f"kvant/kernels/{parts[2]}/", "kvant/kernels/simd/")
    for line, is_system, path in source.includes():
        fine = path in TARGET_STD_HEADERS if is_system else (
            path == "kvant/kernels/kernel_table.h" or path.startswith(own) or path.endswith(("_inl.h", "_terms.h")))
        if not fine:
            yield line, f"built with flags of one processor: may not include {path}"


def check_heavy_headers(source):
    if not source.is_cxx or source.is_test:
        return
    for line, _, path in source.includes():
        if path.startswith(HEAVY_HEADERS) and source.path.endswith(".h"):
            yield line, f"{path} belongs in a .cc"


def check_forbidden(source):
    if not source.is_cxx or source.is_test or not source.path.startswith("kvant/"):
        return
    for name, pattern, why, allowed in FORBIDDEN:
        if source.path.startswith(tuple(allowed)):
            continue
        for match in pattern.finditer(source.code):
            yield source.line_at(match.end()), f"{name}: {match.group(0).strip()} ({why})"


def check_macros(source):
    if not source.is_cxx:
        return
    for match in re.finditer(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", source.code, re.M):
        if match.group(1) not in ALLOWED_MACROS:
            yield source.line_at(match.start(1)), f"macro {match.group(1)}"


def check_header(source):
    if not source.path.endswith((".h", ".cuh")):
        return
    first = next((l for l in source.code.split("\n") if l.strip()), "")
    if first.strip() != "#pragma once":
        yield 1, "the first line of code must be #pragma once"
    for match in re.finditer(r"\busing\s+namespace\b", source.code):
        yield source.line_at(match.start()), "using namespace in a header"


def check_text(source):
    if not (is_source(source.path) or is_prose(source.path)):
        return
    for number, line in enumerate(source.text.split("\n"), 1):
        if is_source(source.path) and not line.isascii():
            yield number, "not ASCII"
        if "\t" in line:
            yield number, "tab"
        if line != line.rstrip():
            yield number, "blanks at the end of the line"
        if UNFINISHED.search(line):
            yield number, "unfinished mark without an issue number"
    if source.text and not source.text.endswith("\n"):
        yield len(source.starts), "no newline at the end"


def check_paths(source):
    if b"\0" in source.bytes[:4096]:
        return
    for match in MACHINE_PATH.finditer(source.text):
        yield source.line_at(match.start()), f"path of one machine: {match.group(0)}..."


def anchors(text):
    """The anchors that a Markdown page's headings get."""
    found = set()
    for heading in re.findall(r"^#+\s+(.*)$", text, re.M):
        plain = re.sub(r"[^\w\- ]", "", heading.lower())
        found.add(plain.strip().replace(" ", "-"))
    return found


def check_links(source):
    if not is_prose(source.path):
        return
    prose = re.sub(r"^```.*?^```", lambda m: re.sub(r"[^\n]", " ", m.group(0)), source.text,
                   flags=re.M | re.S)
    for match in LINK.finditer(prose):
        line, target = source.line_at(match.start()), match.group(1)
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        full = os.path.join(source.root, os.path.dirname(source.path), path) if path else \
            os.path.join(source.root, source.path)
        if not os.path.exists(full):
            yield line, f"link to {target}: no such file"
        elif anchor and full.endswith(".md"):
            with open(full, encoding="utf-8") as file:
                if anchor not in anchors(file.read()):
                    yield line, f"link to {target}: no such heading"


RULES = {name[len("check_"):]: rule for name, rule in list(globals().items())
         if name.startswith("check_")}


def heavy_header_twice(sources):
    """Across files: a heavy header is included by one file of a room or of the program."""
    seen = {}
    for source in sources:
        if not source.is_cxx or source.is_test:
            continue
        for line, _, path in source.includes():
            heavy = next((h for h in HEAVY_HEADERS if path.startswith(h)), None)
            first = seen.setdefault((heavy, source.room), source.path)
            if heavy and first != source.path:
                yield source.path, line, f"{path} is included by {first} already"


TEST_NAME = re.compile(r"((?:\w+/)*\w+_test\.cc): (\w+\.\w+)")
TEST = re.compile(r"\b(?:TYPED_TEST|TEST|TEST_F|TEST_P|RC_GTEST_PROP)\(\s*(\w+),\s*(\w+)")


def missing_tests(sources):
    """Across files: a test that a page names as `file_test.cc: Suite.Name` exists."""
    tests = {source.path: {".".join(match.groups()) for match in TEST.finditer(source.text)}
             for source in sources if source.path.endswith("_test.cc")}
    for source in sources:
        if not is_prose(source.path):
            continue
        for match in TEST_NAME.finditer(source.text):
            path, name = match.groups()
            if not any(name in names for where, names in tests.items()
                       if where == path or where.endswith("/" + path)):
                yield source.path, source.line_at(match.start()), f"{path} has no test {name}"


# --- running them --------------------------------------------------------------------------------

def list_files(root):
    """Tracked and new files; without git, everything but build folders."""
    try:
        out = subprocess.run(["git", "-C", root, "ls-files", "-co", "--exclude-standard", "-z"],
                             capture_output=True, check=True).stdout.decode()
        return sorted(p for p in out.split("\0") if p and os.path.isfile(os.path.join(root, p)))
    except (OSError, subprocess.CalledProcessError):
        found = []
        for folder, folders, files in os.walk(root):
            folders[:] = [f for f in folders if f != ".git" and not f.startswith("build")]
            found += [os.path.relpath(os.path.join(folder, f), root) for f in files]
        return sorted(found)


def is_data(path):
    return path.startswith(("models/", "tests/golden/", "fuzz/corpus/")) and not path.endswith(".md") \
        or path == "LICENSE"


def check_tree(root):
    """All faults as (path, line, rule, text)."""
    sources = [Source(root, path) for path in list_files(root) if not is_data(path)]
    for source in sources:
        for name, rule in RULES.items():
            for line, text in rule(source):
                yield source.path, line, name, text
    for path, line, text in heavy_header_twice(sources):
        yield path, line, "heavy_headers", text
    for path, line, text in missing_tests(sources):
        yield path, line, "tests", text


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    faults = list(check_tree(root))
    for path, line, rule, text in faults:
        print(f"{path}:{line}: {rule}: {text}")
    if faults:
        print(f"tools/tidy.py: {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
