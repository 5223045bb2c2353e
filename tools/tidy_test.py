#!/usr/bin/env python3
"""Each rule of tools/tidy.py fires on a small example and stays silent beside it."""
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import tidy  # noqa: E402

ROOM_HEADER = "#pragma once\n"


class TidyTest(unittest.TestCase):
    def faults(self, files):
        """Rule names, with lines, that a tree of these files breaks."""
        with tempfile.TemporaryDirectory() as root:
            for path, text in files.items():
                os.makedirs(os.path.join(root, os.path.dirname(path)), exist_ok=True)
                with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                    file.write(text)
            return [(rule, line) for _, line, rule, _ in tidy.check_tree(root)]

    def assert_fires(self, rule, line, path, text):
        self.assertIn((rule, line), self.faults({path: text}))

    def assert_clean(self, path, text):
        self.assertEqual([], self.faults({path: text}))

    def test_a_file_of_501_lines_is_too_long(self):
        self.assert_fires("file_length", 1, "kvant/base/a.cc", "int x;\n" * 501)
        self.assert_clean("kvant/base/a.cc", "int x;\n" * 500)

    def test_data_may_be_long(self):
        self.assert_clean("tests/golden/a.json", "1\n" * 900)

    def test_a_function_of_71_lines_is_too_long(self):
        def function(lines, head="int f(int a) {"):
            return head + "\n" + "  ++a;\n" * (lines - 2) + "}\n"
        self.assert_clean("kvant/base/a.cc", "\n" + function(70))
        for head in ("int f(int a) {", "int A::f(int a) const noexcept {", "auto f(int a) -> int {",
                     "TEST(Thing, Works) {", "A::A(int a) : a_(a), b_{2} {",
                     "template <class T>\nT f(T a) requires Big<T> {"):
            lines = 71 - head.count("\n")
            self.assert_fires("function_length", 2, "kvant/base/a.cc", "\n" + function(lines, head))

    def test_long_classes_and_namespaces_are_no_functions(self):
        for head in ("namespace a {", "class A final : public B<int(int)> {", "struct A {", "enum class A {"):
            self.assert_clean("kvant/base/a.cc", head + "\n" + "  ;\n" * 90 + "}\n")

    def test_methods_inside_a_class_are_measured(self):
        text = "class A {\n  void f() {\n" + "    g();\n" * 80 + "  }\n};\n"
        self.assert_fires("function_length", 2, "kvant/base/a.cc", text)

    def test_braces_in_comments_and_literals_do_not_count(self):
        body = "  // }\n  f(\"}\", '}', R\"({)\", 1'000);\n" * 40
        self.assert_fires("function_length", 1, "kvant/base/a.cc", "int f() {\n" + body + "}\n")

    def test_python_functions_are_measured(self):
        self.assert_fires("function_length", 1, "tools/a.py", "def f():\n" + "    pass\n" * 70)

    def test_includes_upward_or_sideways_are_refused(self):
        for room, other in (("base", "tensor"), ("tensor", "kernels"), ("state", "model"),
                            ("model", "cache"), ("cache", "model"), ("kernels", "state"),
                            ("engine", "serve")):
            self.assert_fires("layering", 2, f"kvant/{room}/a.cc",
                              f'#include <vector>\n#include "kvant/{other}/b.h"\n')
        self.assert_fires("layering", 1, "kvant/engine/a.cc", '#include "apps/kvant/args.h"\n')
        self.assert_fires("layering", 1, "kvant/cellar/a.cc", "int x;\n")

    def test_includes_downward_are_fine(self):
        self.assert_clean("kvant/engine/a.cc", '#include "kvant/base/b.h"\n#include "kvant/model/b.h"\n')
        self.assert_clean("apps/kvant/a.cc", '#include "kvant/serve/b.h"\n')
        self.assert_clean("kvant/base/a.cc", '// #include "kvant/serve/b.h"\n')

    def test_files_with_processor_flags_include_only_what_is_safe(self):
        path = "kvant/kernels/avx2/a.cc"
        self.assert_fires("target_files", 1, path, '#include "kvant/kernels/math.h"\n')
        self.assert_fires("target_files", 1, path, '#include "kvant/tensor/half.h"\n')
        self.assert_fires("target_files", 1, path, "#include <algorithm>\n")
        self.assert_fires("target_files", 1, path, '#include "kvant/kernels/avx512/lanes.h"\n')
        self.assert_fires("target_files", 2, "kvant/kernels/simd/a.h", ROOM_HEADER + "#include <vector>\n")
        self.assert_clean(path, '#include <immintrin.h>\n#include "kvant/kernels/kernel_table.h"\n'
                                '#include "kvant/kernels/avx2/lanes.h"\n#include "kvant/kernels/exp_inl.h"\n'
                                '#include "kvant/kernels/simd/rows.h"\n')

    def test_heavy_headers_stay_in_one_file(self):
        include = "#include <spdlog/spdlog.h>\n"
        self.assert_fires("heavy_headers", 2, "kvant/base/log.h", ROOM_HEADER + include)
        self.assertIn(("heavy_headers", 1), self.faults({"kvant/base/a.cc": include, "kvant/base/b.cc": include}))
        self.assertEqual([], self.faults({"kvant/base/a.cc": include, "kvant/base/a_test.cc": include,
                                          "apps/kvant/a.cc": include}))

    def test_forbidden_calls_are_named(self):
        for text in ("float y = std::exp(x);", "double y = sinf (x);", "int y = rand();", "std::mt19937 g;",
                     'getenv("A");', "std::jthread t;", "auto t = std::chrono::steady_clock::now();",
                     'std::ifstream f("a");', "int fd = ::open(p, 0);", "std::cerr << 1;", 'printf("a");',
                     "std::abort();", "assert(x);", "throw 1;", "dynamic_cast<A*>(b);", "auto* p = new A;", "return new A;",
                     "delete p;", "delete[] p;"):
            self.assert_fires("forbidden", 2, "kvant/state/a.cc", "\n" + text + "\n")

    def test_lookalikes_are_not_forbidden(self):
        for text in ("float y = exp32(x);", "float y = std::sqrt(x);", "table.exp(x);", "A(const A&) = delete;",
                     "static_assert(x);", "// std::exp(x)", 'auto s = "throw new delete";', "int operand(int);",
                     "Foo::open(path);", "std::unique_ptr<A> a(\n    new A);", "int new_end = 2;", "snprintf(b, 1, f);"):
            self.assert_clean("kvant/state/a.cc", text + "\n")

    def test_tests_and_seams_may_do_what_others_may_not(self):
        self.assert_clean("kvant/state/a_test.cc", "float y = std::exp(x);\n")
        self.assert_clean("kvant/base/thread_pool.h", ROOM_HEADER + "std::jthread t;\n")
        self.assert_clean("apps/kvant/a.cc", 'getenv("A");\n')

    def test_only_the_three_macros_exist(self):
        self.assert_fires("macros", 1, "apps/kvant/a.cc", "#define KVANT_ASSERT(x) (x)\n")
        self.assert_clean("apps/kvant/a.cc", "#define KVANT_TRY(x) (x)\n#ifndef A\n#endif\n")

    def test_headers_begin_with_pragma_once(self):
        self.assert_fires("header", 1, "kvant/base/a.h", "// Idea.\n#include <vector>\n#pragma once\n")
        self.assert_fires("header", 2, "kvant/base/a.h", ROOM_HEADER + "using namespace std;\n")
        self.assert_clean("kvant/base/a.h", "// Idea.\n/* more */\n#pragma once\n")

    def test_text_is_ascii_without_tabs_and_loose_ends(self):
        self.assert_fires("text", 1, "kvant/base/a.cc", "// caf\u00e9\n")
        self.assert_clean("docs/a.md", "caf\u00e9\n")
        self.assert_fires("text", 2, "kvant/base/a.cc", "\n\tint x;\n")
        self.assert_fires("text", 1, "docs/a.md", "word \n")
        self.assert_fires("text", 1, "kvant/base/a.cc", "int x;")

    def test_unfinished_marks_need_an_issue(self):
        mark = "TO" + "DO"
        self.assert_fires("text", 1, "kvant/base/a.cc", f"// {mark}: later\n")
        self.assert_clean("kvant/base/a.cc", f"// {mark}(#12): later\n")

    def test_paths_of_one_machine_are_refused(self):
        for top in ("work", "root", "tmp", "home"):
            self.assert_fires("paths", 1, "tests/a.json.in", f'"/{top}/x"\n')
        self.assert_clean("docs/a.md", "a framework/x and n/tmp/y and https://host/tmp/x\n")

    def test_links_lead_somewhere(self):
        self.assert_fires("links", 1, "docs/a.md", "[b](b.md)\n")
        self.assert_fires("links", 3, "docs/a.md", "# Top\n\n[b](#bottom)\n")
        self.assertEqual([], self.faults({"docs/a.md": "# Top Part\n[b](b.md#top-part) [c](#top-part)\n",
                                          "docs/b.md": "## Top Part\n[w](https://example.org)\n"}))

    def test_tests_that_a_page_names_exist(self):
        page = "`a_test.cc: A.Works`\n`b/a_test.cc: A.Works`\n"
        self.assertEqual([("tests", 2)], self.faults({
            "docs/a.md": page, "kvant/base/a_test.cc": "TEST(A, Works) {}\n"}))
        self.assertEqual([("tests", 1), ("tests", 2)], self.faults({
            "docs/a.md": page, "kvant/b/a_test.cc": "TEST_P(A, WorksToo) {}\n"})[-2:])
        self.assertEqual([], self.faults({"docs/a.md": page, "tests/b/a_test.cc":
                                          "RC_GTEST_PROP(A, Works, ()) {}\n"}))


if __name__ == "__main__":
    unittest.main()
