"""Submissions that are broken or malicious get their marks, and harm nothing."""

import os
import pathlib
import signal
import subprocess
import tempfile
import time
import unittest
import unittest.mock

from common.classroom import grading, hostile, sandbox, stage, toolchain
from common.classroom.tests import support

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
        cls.tools = support.toolchain()
        cls.one_step = support.exercise("03_one_step")
        cls.layers = "\n".join(sandbox.layers(cls.tools.confine))
        cls.usual, stage.RUN.seconds = stage.RUN.seconds, 2

    @classmethod
    def tearDownClass(cls):
        stage.RUN.seconds = cls.usual

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

    def test_an_endless_loop_is_killed_and_its_line_named(self):
        result = self.easy("volatile bool on = true; while (on) {}")
        self.assertEqual(result.verdict, "refused")
        self.assertRegex(
            result.message,
            r"still running after 2 seconds of processor time at one_step\.hpp:\d+",
        )
        self.assertLess(result.seconds, stage.RUN.clock)

    def test_a_sleeping_program_is_killed(self):
        with unittest.mock.patch.object(stage.RUN, "clock", 2):
            result = self.easy("for (;;) pause();", "#include <unistd.h>")
        self.assertEqual(result.verdict, "refused")
        self.assertIn("still running after 2 seconds by the clock", result.message)
        self.assertLess(result.seconds, 10)

    def test_a_program_that_is_slow_by_the_clock_alone_is_not_killed(self):
        with tempfile.TemporaryDirectory() as folder:
            for clock, status in ((60, 0), (1, -signal.SIGKILL)):
                limits = sandbox.Limits(seconds=1, clock=clock)
                words = ["/bin/sleep", "2"]  # as a machine that is busy with other work
                outcome = sandbox.run(self.tools.confine, words, folder, limits)
                self.assertEqual((outcome.status, outcome.timed_out), (status, status != 0))

    def test_an_allocation_of_a_hundred_gigabytes_is_refused(self):
        result = self.easy("volatile char* p = new char[100'000'000'000]; p[0] = 1;")
        self.assertEqual(result.verdict, "refused")
        self.assertIn("memory", result.message)

    def test_many_small_allocations_are_refused(self):
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

    def test_it_can_write_to_its_own_folder(self):
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

    def test_hostile_submissions_get_no_marks(self):
        for name in hostile.submissions(self.one_step):
            with self.subTest(name):
                self.assertEqual(hostile.passed(self.tools, (self.one_step, name)), [])

    def test_a_start_with_something_added_gets_no_marks_for_what_it_passed_before(self):
        one = support.exercise("02_row_max")
        right = one.solution()
        found = one.start().replace("answer: ?", "answer: -3 -1 -2")
        ends_early = right.replace("j < s.size(0)", "j < s.size(0) && j < 3")
        for answer, passed in (
            (one.start(), ["compiles"]),
            (one.start() + "\n#define check(...) void()\n", ["compiles"]),
            (one.start().replace("double m = ", "double m = 1 * "), ["compiles"]),
            (found, ["compiles", "found", "easy"]),
            (ends_early.replace("answer: -3 -1 -2", ""), ["compiles"]),
            (right.replace("answer: -3 -1 -2", "answer: ?"), ["compiles", "easy", "odd"]),
            (right, ["compiles", "found", "easy", "odd"]),
        ):
            results = grading.marks(self.tools, one, answer)
            self.assertEqual([r.name for r in results if r.passed], passed, answer)
        self.assertEqual(hostile.passed(self.tools, (one, "macros")), [])

    def gives_no_marks(self, answer):
        """Grades a file as it is; all but compiling must be refused."""
        results = grading.grade(self.tools, self.one_step, answer, stop=False)
        self.assertFalse(any(result.passed for result in results[1:]), [r.message for r in results])
        return results

    def test_files_of_the_grader_cannot_be_included(self):
        folder = "03_online_softmax/exercises/one_step"
        root = self.one_step.root
        for name in (
            f"{folder}/frame.txt",
            f"{folder}/grader.cpp",
            f"{root}/{folder}/frame.txt",
            f"../../../..{root}/{folder}/frame.txt",
            "03_online_softmax/recurrence.hpp",
            "03_online_softmax/proof.hpp",
            "06_flash_backward/exercises/grading/mistakes.hpp",
            "common/classroom/grader.hpp",
        ):
            result = self.gives_no_marks(f'#include "{name}"\n')[0]
            self.assertEqual((result.name, result.verdict), ("compiles", "refused"), name)

    def test_files_of_the_grader_cannot_be_embedded(self):
        path = self.one_step.folder / "frame.txt"
        code = f'asm(".section .rodata\\nstolen: .incbin \\"{path}\\"\\n.previous");\n'
        if "Landlock" not in self.layers:
            self.skipTest("no Landlock here")
        self.assertEqual(self.gives_no_marks(code + self.one_step.start())[0].verdict, "refused")

    def test_an_exit_in_a_call_does_not_count(self):
        for call in ("_exit(0)", "std::exit(0)", "std::quick_exit(0)"):
            result = self.easy(call + ";", "#include <cstdlib>\n#include <unistd.h>")
            self.assertEqual(result.verdict, "refused")
            self.assertIn("exited with status 0 before", result.message)

    def test_it_cannot_reach_memory_or_files_of_the_grader(self):
        code = """
            #include <cstdio>
            #include <cstdlib>
            #include <fcntl.h>
            #include <string>
            #include <sys/ptrace.h>
            #include <sys/uio.h>
            #include <unistd.h>
            static int reach(pid_t other) {
              int found = 0;
              const std::string of = "/proc/" + std::to_string(other);
              for (const char* name : {"/mem", "/maps", "/environ", "/fd/3", "/fd/5", "/fd/6"}) {
                found += open((of + name).c_str(), O_RDWR) >= 0;
                found += open((of + name).c_str(), O_RDONLY) >= 0;
              }
              char byte = 0;
              iovec here{&byte, 1}, there{reinterpret_cast<void*>(0x400000), 1};
              found += process_vm_readv(other, &here, 1, &there, 1, 0) >= 0;
              found += ptrace(PTRACE_ATTACH, other, 0, 0) >= 0;
              return found;
            }
            static const int tried = [] {
              if (reach(getppid()) + reach(%d) > 0) std::abort();
              return 0;
            }();
        """
        if "Landlock" not in self.layers or "seccomp" not in self.layers:
            self.skipTest("neither Landlock nor seccomp here")
        results = grading.grade(
            self.tools, self.one_step, self.one_step.solution() + code % os.getpid(), stop=False
        )
        self.assertTrue(all(result.passed for result in results), [r.message for r in results])

    def test_a_running_program_cannot_read_the_course(self):
        if "Landlock" not in self.layers:
            self.skipTest("no Landlock here")
        path = self.one_step.folder / "frame.txt"
        results = self.attack(
            f'if (fopen("{path}", "r") || fopen("/proc/self/maps", "r")) abort();',
            "#include <cstdio>\n#include <cstdlib>",
        )
        self.assertTrue(all(result.passed for result in results), [r.message for r in results])

    def test_processes_share_one_limit_of_memory(self):
        limit, stage.RUN.memory = stage.RUN.memory, 600
        try:
            result = self.easy(
                "for (int i = 0; i < 4; ++i) if (fork() == 0) { "
                "volatile char* p = (volatile char*)malloc(400 << 20); "
                "if (!p) _exit(1); "
                "for (;;) for (long j = 0; j < 400l << 20; j += 4096) p[j] = 1; } "
                "for (;;) pause();",
                "#include <cstdlib>\n#include <unistd.h>",
            )
        finally:
            stage.RUN.memory = limit
        self.assertEqual(result.verdict, "refused")
        self.assertIn("more memory", result.message)
        self.assertLess(result.seconds, stage.RUN.clock)  # not when its time was over

    def test_a_fork_bomb_is_killed(self):
        result = self.easy("for (;;) fork();", "#include <unistd.h>")
        self.assertEqual(result.verdict, "refused")
        self.assertIn("processes", result.message)
        self.assertLess(result.seconds, stage.RUN.clock)

    def test_many_threads_are_refused(self):
        result = self.easy(
            "for (;;) std::thread([] { for (;;) pause(); }).detach();",
            "#include <thread>\n#include <unistd.h>",
        )
        self.assertEqual(result.verdict, "refused")
        self.assertRegex(result.message, "processes or threads|Resource temporarily|more memory")

    def test_many_files_share_one_limit(self):
        result = self.easy(
            "char text[1 << 16] = {}; for (int i = 0; i < 1000; ++i) { char name[16]; "
            'snprintf(name, 16, "f%d", i); FILE* f = fopen(name, "w"); if (!f) break; '
            "for (int j = 0; j < 128; ++j) fwrite(text, 1, sizeof text, f); fclose(f); "
            "usleep(2000); } for (;;) pause();",
            "#include <cstdio>\n#include <unistd.h>",
        )
        self.assertEqual(result.verdict, "refused")
        self.assertIn("files", result.message)

    def test_large_output_is_discarded(self):
        results = self.attack(
            'if (once++ == 0) for (int i = 0; i < 3000000; ++i) std::puts("ten bytes");',
            "#include <cstdio>",
            "static int once = 0;",
        )
        self.assertTrue(all(result.passed for result in results), [r.message for r in results])

    @unittest.skipUnless(os.geteuid() == 0, "only root can read more than others")
    def test_the_compiler_cannot_read_files_of_root(self):
        if not self.tools.readable:
            self.skipTest("the course itself is root's alone")
        with tempfile.NamedTemporaryFile("w", suffix=".hpp") as secret:
            secret.write("the marks of the others")
            secret.flush()
            result = self.attack("", outside=f'#include "{secret.name}"')[0]
        self.assertEqual((result.name, result.verdict), ("compiles", "refused"))
        self.assertNotIn("marks of the others", result.message)

    def test_processes_left_behind_are_killed(self):
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
        for process in sandbox.processes():
            try:
                about = pathlib.Path(f"/proc/{process}/stat").read_text(errors="replace")
            except OSError:
                continue
            state, parent = about.rpartition(")")[2].split()[:2]
            self.assertFalse(state == "Z" and int(parent) == os.getpid(), about)

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
        self.assertRegex(
            result.message, r"crashed \(SIGSEGV\) at one_step\.hpp:\d+: it accessed memory"
        )

    def test_an_index_out_of_range_is_named_with_its_line(self):
        result = self.easy(
            "std::vector<int> few(3); volatile int i = 7; few[i] = 1;", "#include <vector>"
        )
        self.assertRegex(result.message, r"SIGABRT\) at one_step\.hpp:\d+: an assertion failed")
        self.assertIn("an index out of range", result.message)

    def test_an_index_beyond_an_array_is_named_with_its_line(self):
        result = self.easy("int few[3] = {}; volatile int i = 3; few[i] = 1; x.l += few[0];")
        self.assertRegex(
            result.message, r"SIGILL\) at one_step\.hpp:\d+: an index lies beyond the end"
        )

    def test_a_failed_assertion_is_quoted(self):
        code = 'std::fputs("a.h:7: f: Assertion `i < n\' failed.\\n", stderr); std::abort();'
        result = self.easy(code, "#include <cstdio>\n#include <cstdlib>")
        self.assertRegex(
            result.message, r"\(SIGABRT\) at one_step\.hpp:\d+: an assertion failed, `i < n`"
        )

    def test_an_exception_is_reported(self):
        self.assertIn("it threw", self.easy("throw 7;").message)

    def test_a_compilation_without_end_is_killed(self):
        limit, toolchain.COMPILE.seconds = toolchain.COMPILE.seconds, 2
        try:
            deep = (
                "template <int n, long path> struct Deep { static constexpr long value = "
                "Deep<n - 1, 2 * path>::value + Deep<n - 1, 2 * path + 1>::value; };\n"
                "template <long path> struct Deep<0, path> { static constexpr long value = 0; };\n"
                "const long deep = Deep<40, 1>::value;"
            )
            wide = '#include "/dev/urandom"'
            for code in (deep, wide):
                result = self.attack("", outside=code)[0]
                self.assertEqual((result.name, result.verdict), ("compiles", "refused"))
                self.assertRegex(result.message, "time limit|memory")
                self.assertLess(result.seconds, toolchain.COMPILE.clock)
        finally:
            toolchain.COMPILE.seconds = limit

    def test_each_way_to_end_a_compiler_is_explained(self):
        gcc = "c++: {}: {} signal terminated program cc1plus"
        clang = "clang++: error: unable to execute command: {}"
        over, killed = "CPU time limit exceeded", "Killed"
        for output, exceeded, expected in (
            (gcc.format("internal compiler error", over), "", "did not finish within its time"),
            (gcc.format("fatal error", killed), "", "too much memory or reached its time limit"),
            (clang.format(over), "", "did not finish within its time limit"),
            (clang.format(killed), "", "too much memory or reached its time limit"),
            (gcc.format("fatal error", killed), "it used more memory", "it used more memory"),
            ("student/a.hpp:1:1: error: Killer is not declared", "", "it does not compile"),
        ):
            outcome = sandbox.Outcome(1, False, output, "", 1, exceeded)
            message = grading.compiler_says(outcome, pathlib.Path("scratch"), "student/")
            self.assertIn(expected, message)

    def test_its_folder_is_removed(self):
        self.attack(
            'if (once++ == 0) (void)!system("mkdir -p a/b && chmod 0 a");',
            "#include <cstdlib>",
            "static int once = 0;",
        )
        self.assertEqual(os.listdir(self.own), [])
