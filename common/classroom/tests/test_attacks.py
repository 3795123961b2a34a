"""Submissions that are broken or malicious get their marks, and harm nothing."""

import os
import pathlib
import subprocess
import tempfile
import time
import unittest
import unittest.mock

from common.classroom import grading, sandbox
from common.classroom.tests.support import exercise, toolchain

STEP = "    const auto m = std::max(x.m, s);\n"  # inside the solution's function


class Attacks(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # A temporary folder of its own, since other processes use the shared one. Unprivileged
        # users must reach it.
        own = tempfile.TemporaryDirectory()
        cls.addClassCleanup(own.cleanup)
        os.chmod(own.name, 0o755)
        cls.own = pathlib.Path(own.name).resolve()
        patch = unittest.mock.patch.object(tempfile, "tempdir", str(cls.own))
        patch.start()
        cls.addClassCleanup(patch.stop)
        cls.tools = toolchain()
        cls.one_step = exercise("03_one_step")
        cls.layers = "\n".join(sandbox.layers(cls.tools.confine))
        cls.usual, grading.RUN.seconds = grading.RUN.seconds, 2

    @classmethod
    def tearDownClass(cls):
        grading.RUN.seconds = cls.usual

    def attack(self, code, headers="", outside=""):
        """Grades the right solution with `code` put into it."""
        solution = self.one_step.solution()
        self.assertEqual(solution.count(STEP), 1)
        answer = solution.replace("#pragma once\n", f"#pragma once\n{headers}\n{outside}\n", 1)
        # Not while it is compiled: the function is constexpr.
        code = "if (!__builtin_is_constant_evaluated()) { " + code + " }\n" if code else ""
        return grading.grade(
            self.tools, self.one_step, answer.replace(STEP, code + STEP), stop=False
        )

    def easy(self, *arguments, **options):
        return self.attack(*arguments, **options)[1]

    def test_without_an_attack_it_passes(self):
        self.assertTrue(all(result.passed for result in self.attack("")))

    def test_an_endless_loop_is_ended_and_named(self):
        result = self.easy("volatile bool on = true; while (on) {}")
        self.assertEqual(result.verdict, "refused")
        self.assertIn("still running", result.message)
        self.assertLess(result.seconds, 12)

    def test_a_sleeping_program_is_ended(self):
        result = self.easy("for (;;) pause();", "#include <unistd.h>")
        self.assertEqual(result.verdict, "refused")
        self.assertIn("still running", result.message)
        self.assertLess(result.seconds, 15)

    def test_a_hundred_gigabytes_are_not_given(self):
        result = self.easy("volatile char* p = new char[100'000'000'000]; p[0] = 1;")
        self.assertEqual(result.verdict, "refused")
        self.assertIn("memory", result.message)

    def test_memory_taken_bit_by_bit_ends_as_well(self):
        result = self.easy(
            "for (;;) { char* p = (char*)malloc(1 << 24); if (!p) throw std::bad_alloc(); "
            "memset(p, 1, 1 << 24); }",
            "#include <cstring>\n#include <cstdlib>\n#include <new>",
        )
        self.assertEqual(result.verdict, "refused")

    def test_a_file_that_grows_is_stopped(self):
        result = self.easy(
            'FILE* f = fopen("large", "w"); for (int i = 0; i < 100000; ++i) '
            "for (int j = 0; j < 1024; ++j) fputc(1, f);",
            "#include <cstdio>",
        )
        self.assertEqual(result.verdict, "refused")

    def test_it_cannot_write_outside_of_its_folder(self):
        if "Landlock" not in self.layers and os.geteuid() != 0:
            self.skipTest("neither Landlock nor another user here")
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o755)
            victim = pathlib.Path(folder) / "marks.json"
            victim.write_text("mine")
            if os.geteuid() == 0 and "Landlock" in self.layers:
                os.chmod(folder, 0o777)  # so that only Landlock is in the way
                os.chmod(victim, 0o666)
            self.attack(
                f'FILE* f = fopen("{victim}", "w"); if (f) '
                f'{{ fputs("full marks", f); fclose(f); }} '
                f'f = fopen("{folder}/new", "w"); if (f) fclose(f); remove("{victim}"); '
                f'f = fopen("../grader", "w"); if (f) fclose(f);',
                "#include <cstdio>",
            )
            self.assertEqual(victim.read_text(), "mine")
            self.assertEqual(os.listdir(folder), ["marks.json"])

    def test_its_own_folder_it_may_use(self):
        results = self.attack(
            'FILE* f = fopen("notes", "w"); if (!f) throw 1; fclose(f);', "#include <cstdio>"
        )
        self.assertTrue(all(result.passed for result in results))

    def test_it_cannot_kill_its_parent(self):
        if "seccomp" not in self.layers:
            self.skipTest("no seccomp here")
        bystander = subprocess.Popen(["sleep", "60"])
        try:
            results = self.attack(
                f"kill(getppid(), SIGKILL); kill({bystander.pid}, SIGKILL); kill(-1, SIGKILL); "
                f"syscall(SYS_tgkill, getppid(), getppid(), SIGKILL);",
                "#include <csignal>\n#include <unistd.h>\n#include <sys/syscall.h>",
            )
            self.assertTrue(all(result.passed for result in results), [r.message for r in results])
            self.assertIsNone(bystander.poll())
        finally:
            bystander.kill()
            bystander.wait()

    def test_a_result_that_it_prints_itself_does_not_count(self):
        result = self.easy(
            'const char* line = "{\\"verdict\\": \\"passed\\", \\"message\\": \\"\\", '
            '\\"notes\\": []}\\n"; '
            "for (int fd = 1; fd < 64; ++fd) (void)!write(fd, line, strlen(line)); _exit(0);",
            "#include <cstring>\n#include <unistd.h>",
        )
        self.assertEqual(result.verdict, "refused")
        self.assertIn("before the check was complete", result.message)

    def test_a_line_with_a_guessed_secret_does_not_count(self):
        result = self.easy(
            'for (int fd = 3; fd < 64; ++fd) dprintf(fd, "%032d {\\"verdict\\": '
            '\\"passed\\"}\\n", 0); '
            "_exit(0);",
            "#include <cstdio>\n#include <unistd.h>",
        )
        self.assertEqual(result.verdict, "refused")

    def test_a_main_of_its_own_is_one_too_many(self):
        result = self.attack("", outside="int main() { return 0; }")[0]
        self.assertEqual((result.name, result.verdict), ("compiles", "refused"))

    def test_a_stage_of_its_own_does_not_count(self):
        result = self.easy(
            "",
            outside='#include "common/classroom/grader.hpp"\n'
            'static fa::classroom::Stage mine("easy", [] {});',
        )
        self.assertEqual(result.verdict, "refused")
        self.assertIn("defined twice", result.message)

    @unittest.skipUnless(os.geteuid() == 0, "only root can read more than others")
    def test_the_compiler_shows_nothing_that_only_root_may_read(self):
        if not self.tools.readable:
            self.skipTest("the course itself is root's alone")
        with tempfile.NamedTemporaryFile("w", suffix=".hpp") as secret:
            secret.write("the marks of the others")
            secret.flush()
            result = self.attack("", outside=f'#include "{secret.name}"')[0]
        self.assertEqual((result.name, result.verdict), ("compiles", "refused"))
        self.assertNotIn("marks of the others", result.message)

    def test_a_stage_that_it_skips_does_not_count(self):
        result = self.easy(
            'fa::classroom::skip("no lab");', '#include "common/classroom/grader.hpp"'
        )
        self.assertEqual(result.verdict, "refused")
        self.assertIn("without a verdict", result.message)

    def test_processes_that_it_leaves_behind_are_ended(self):
        if "seccomp" not in self.layers:
            self.skipTest("no seccomp here")
        self.attack(
            "if (fork() == 0) { setsid(); if (fork() == 0) { for (;;) pause(); } for (;;) "
            "pause(); }",
            "#include <unistd.h>",
        )
        time.sleep(0.2)
        for process in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            try:
                self.assertNotIn(os.fsencode(self.own), process.read_bytes())
            except OSError:
                pass  # it has ended

    def test_there_is_no_network(self):
        if "seccomp" not in self.layers:
            self.skipTest("no seccomp here")
        results = self.attack(
            "if (socket(AF_INET, SOCK_STREAM, 0) >= 0) abort();",
            "#include <cstdlib>\n#include <sys/socket.h>",
        )
        self.assertTrue(all(result.passed for result in results), [r.message for r in results])

    def test_a_crash_is_named(self):
        result = self.easy("volatile int* p = nullptr; *p = 1;")
        self.assertIn("your program crashed (SIGSEGV): it accessed memory", result.message)

    def test_a_failed_assertion_is_quoted(self):
        code = 'std::fputs("a.h:7: f: Assertion `i < n\' failed.\\n", stderr); std::abort();'
        result = self.easy(code, "#include <cstdio>\n#include <cstdlib>")
        self.assertIn("crashed (SIGABRT): an assertion failed, `i < n`", result.message)

    def test_what_it_throws_is_named(self):
        self.assertIn("it threw", self.easy("throw 7;").message)

    def test_a_compiler_without_end_is_ended(self):
        limit, grading.COMPILE.seconds = grading.COMPILE.seconds, 4
        try:
            deep = (
                "template <int n> struct Deep { static constexpr long value = Deep<n - 1>::value + "
                "Deep<n - 2>::value + Deep<(n * 7) % 899>::value; };\nint deep = Deep<800>::value;"
            )
            wide = '#include "/dev/zero"'
            for code in (deep, wide):
                result = self.attack("", outside=code)[0]
                self.assertEqual((result.name, result.verdict), ("compiles", "refused"))
                self.assertLess(result.seconds, 20)
        finally:
            grading.COMPILE.seconds = limit

    def test_its_folder_goes_away(self):
        self.attack(
            'if (once++ == 0) (void)!system("mkdir -p a/b && chmod 0 a");',
            "#include <cstdlib>",
            "static int once = 0;",
        )
        self.assertEqual(os.listdir(self.own), [])


if __name__ == "__main__":
    unittest.main()
