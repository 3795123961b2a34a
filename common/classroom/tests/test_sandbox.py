"""Submissions that are broken or malicious get no marks, and harm nothing: a test for each kind."""

import dataclasses
import os
import pathlib
import subprocess
import tempfile
import time
import unittest
import unittest.mock

from common.classroom import grade, grading, sandbox, toolchain
from common.classroom.tests import support

STEP = "    const auto m = std::max(x.m, s);\n"  # inside the solution's function
LAYERS = "\n".join(sandbox.layers())
needs_landlock = unittest.skipUnless("Landlock" in LAYERS, "no Landlock here")
needs_seccomp = unittest.skipUnless("seccomp" in LAYERS, "no seccomp here")


class Sandbox(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.tools, cls.one = support.toolchain(), support.exercise("03_one_step")
        quick = dataclasses.replace(sandbox.Limits(), seconds=2)
        patch = unittest.mock.patch.object(grading, "RUN", quick)
        patch.start()
        cls.addClassCleanup(patch.stop)

    def grade(self, answer):
        """Grades a file as it is."""
        return grading.marks(self.tools, self.one, answer)

    def attack(self, code, headers="", outside=""):
        """Grades the right solution with `code` in its function."""
        solution = self.one.solution()
        self.assertEqual(solution.count(STEP), 1)
        above = "\n".join(f"#include <{name}>" for name in headers.split())
        answer = solution.replace("#pragma once\n", f"#pragma once\n{above}\n{outside}\n", 1)
        # Not while it is compiled: the function is constexpr.
        code = "if (!__builtin_is_constant_evaluated()) { " + code + " }\n" if code else ""
        return self.grade(answer.replace(STEP, code + STEP))

    def assert_no_marks(self, results, *words):
        """Whether nothing but compiling gives points, and the first refusal holds these words."""
        self.assertEqual([r.name for r in results[1:] if r.passed], [])
        message = next(r.message for r in results if r.verdict == "refused")
        for word in words:
            self.assertIn(word, message)

    def assert_harmless(self, results):
        """Whether what the code tried has failed, and the rest was as without."""
        self.assertTrue(all(r.passed for r in results), [r.message for r in results])

    # ------------------------------------------------------------ forged marks

    def test_the_solution_passes_and_the_start_gets_points_for_compiling_only(self):
        self.assert_harmless(self.attack(""))
        self.assert_no_marks(self.grade(self.one.start()))

    def test_a_verdict_that_it_prints_does_not_count(self):
        line = r"{\"verdict\": \"passed\", \"message\": \"\", \"notes\": []}\n"
        results = self.attack(
            f'const char* line = "{line}"; for (int fd = 1; fd < 1024; ++fd) '
            "(void)!write(fd, line, strlen(line)); _exit(0);",
            "cstring unistd.h",
        )
        self.assert_no_marks(results)

    def test_results_that_it_sends_itself_are_compared_like_others(self):
        forged = r"""
            #include <cstdint>
            #include <string>
            #include <unistd.h>
            static const int forged = [] {
              const std::uint64_t count = 4, size = 8 + 32;
              std::string message = "r";
              message.append(reinterpret_cast<const char*>(&size), 8);
              message.append(reinterpret_cast<const char*>(&count), 8);
              message.append(32, 0);
              for (int fd = 3; fd < 64; ++fd) (void)!write(fd, message.data(), message.size());
              return 0;
            }();
        """
        self.assert_no_marks(self.grade(self.one.start() + forged))

    def test_exit_does_not_count(self):
        self.assert_no_marks(self.attack("std::exit(0);", "cstdlib"), "status 0")

    def test_a_program_and_macros_of_its_own_do_not_count(self):
        self.assert_no_marks(self.grade(self.one.start() + "\nint main() { return 0; }\n"))
        macros = "#define check(...) void()\n#define require(...) void()\n"
        self.assert_no_marks(self.grade(macros + self.one.start()))

    def test_files_of_the_grader_cannot_be_included(self):
        folder = "03_online_softmax/exercises/one_step"
        own = f"{folder}/exercise.cpp"
        hidden = ("03_online_softmax/recurrence.hpp", "common/classroom/grader.hpp")
        for name in (own, f"{self.one.root}/{own}", *hidden):
            results = self.grade(f'#include "{name}"\n' + self.one.start())
            self.assertEqual((results[0].name, results[0].verdict), ("compiles", "refused"), name)

    @needs_landlock
    def test_files_of_the_system_cannot_be_shown(self):
        for line in (
            '#include "/etc/passwd"',
            "#/**/include <//etc/passwd>",
            '%:include "/etc/passwd"',
            '#import "/etc/passwd"',
            '#include_next "/etc/passwd"',
            '#inc\\ \nlude "/etc/passwd"',
            '#include "../../../../../etc/passwd"',
            '#define FILE "/etc/passwd"\n#include FILE',
            '__asm__(".incbin \\"/etc/passwd\\"");',
        ):
            result = self.grade(f"{line}\n{self.one.solution()}")[0]
            self.assertEqual((result.name, result.verdict), ("compiles", "refused"), line)
            self.assertNotIn("root:", result.message)
            self.assertIn("etc/passwd", result.message)
            if not line.startswith(("#inc\\", '#include "..')):
                self.assertTrue(grade.SUSPICIOUS.search(line), line)

    def test_what_the_start_passes_gives_points_only_with_another_stage(self):
        one = support.exercise("02_row_max")
        found = one.start().replace("answer: ?", "answer: -3 -1 -2")
        for answer, passed in (
            (one.start(), ["compiles"]),
            (found, ["compiles", "found", "easy"]),
            (one.solution(), ["compiles", "found", "easy", "odd"]),
        ):
            results = grading.marks(self.tools, one, answer)
            self.assertEqual([r.name for r in results if r.passed], passed)

    def test_accesses_cannot_be_hidden_from_the_lab(self):
        one = support.exercise("04_map")
        for word in ("FA_UNWATCHED", "[[gnu::no_sanitize_thread]]"):
            answer = one.solution().replace("__global__", f"{word} __global__")
            results = grading.grade(self.tools, one, answer)
            self.assertEqual((results[0].name, results[0].verdict), ("compiles", "refused"))
        calls = (
            "wmemcpy(to, from, 4)|wmemmove(to, from, 4)|wmemset(to, 0, 4)"
            "|std::char_traits<wchar_t>::copy(to, from, 4)|__builtin_mempcpy(to, from, 16)"
            "|memccpy(to, from, 0, 16)|swab(from, to, 16)"
            "|wcscpy(to, from)"
            '|__asm__ volatile("rep movsb" : "+D"(to), "+S"(from) : "c"(16) : "memory")'
        )
        for call in calls.split("|"):
            code = "".join(f"#include <{name}>\n" for name in ("cstring", "cwchar", "unistd.h"))
            code += f"void copy(wchar_t* to, const wchar_t* from) {{ {call}; }}\n"
            with self.subTest(call):
                result = grading.grade(self.tools, one, code + one.solution())[0]
                self.assertEqual((result.name, result.verdict), ("compiles", "refused"))
                self.assertIn("keeps accesses from the lab", result.message)

    def test_a_test_of_the_student_cannot_tell_which_stage_runs(self):
        one = support.exercise("02_invariance")
        one.points = {"compiles": 1, "odd": 1}  # right ones are among the wrong ones, too
        verdict = "return far[0] > 0 && far[0] < 1e-12;"
        self.assertEqual(one.solution().count(verdict), 1)
        results = grading.grade(self.tools, one, one.solution().replace(verdict, "return false;"))
        self.assert_no_marks(results, "your test refuses")
        answer = """#pragma once
            #include <cstdlib>
            #include <functional>
            #include <string>
            #include <unistd.h>
            #include <vector>
            namespace student {
            using Row = std::vector<double>;
            inline bool is_right(const std::function<Row(const Row&)>& softmax) {
              static std::string seen;
              seen += std::to_string(int(10 * softmax({0, 1})[1])) + ",";
              if (seen.size() < 12) return false;
              for (const char* name : {"HOME", "TMPDIR", "PWD"}) {
                seen += std::string(" ") + (getenv(name) ? getenv(name) : getcwd(nullptr, 0));
              }
              puts(seen.c_str());
              std::exit(1);
            }
            }"""
        orders, places = set(), set()
        with toolchain.scratch_folder() as scratch:
            (scratch / "student").mkdir()
            (scratch / "student" / one.file).write_text(answer, encoding="utf-8")
            self.assertEqual(self.tools.compile(one, scratch)[0], 0)
            for _ in range(10):
                said = grading.run_stage(self.tools, one, "odd", scratch, "", "")["message"]
                order, *folders = said.rpartition("its last output: ")[2].split()
                self.assertEqual(len(set(folders)), 1, said)
                self.assertNotRegex(said, r"\bodd\b|invariance|stage")
                orders.add(order)
                places.add(folders[0])
        self.assertEqual(len(places), 10)
        self.assertGreater(len(orders), 1)

    # ------------------------------------------------------------ other processes and files

    @needs_landlock
    @needs_seccomp
    def test_it_reaches_neither_memory_nor_files_nor_life_of_the_grader(self):
        code = """
            static int reach(pid_t other) {
              int found = 0;
              const std::string of = "/proc/" + std::to_string(other);
              for (const char* name : {"/mem", "/maps", "/environ", "/fd/3", "/fd/5", "/fd/6"}) {
                found += open((of + name).c_str(), O_RDONLY) >= 0;
              }
              char byte = 0;
              iovec here{&byte, 1}, there{reinterpret_cast<void*>(0x400000), 1};
              found += process_vm_readv(other, &here, 1, &there, 1, 0) >= 0;
              found += ptrace(PTRACE_ATTACH, other, 0, 0) >= 0;
              found += kill(other, SIGKILL) == 0;
              found += fcntl(0, F_SETOWN, other) == 0;
              found += setpriority(PRIO_PROCESS, other, 19) == 0;
              cpu_set_t all;
              found += sched_getaffinity(0, sizeof all, &all) == 0 &&
                       sched_setaffinity(other, sizeof all, &all) == 0;
              return found;
            }
            static const int tried = [] {
              if (reach(getppid()) + reach(BYSTANDER) > 0 || kill(-1, SIGKILL) == 0) std::abort();
              return 0;
            }();
        """
        # Another student's program, which runs at the same time.
        user = {"user": sandbox.NOBODY} if sandbox.is_root() else {}
        bystander = subprocess.Popen(["sleep", "60"], **user)
        try:
            code = code.replace("BYSTANDER", str(bystander.pid))
            headers = "csignal cstdlib fcntl.h sched.h string sys/resource.h sys/ptrace.h sys/uio.h"
            self.assert_harmless(self.attack("", f"{headers} unistd.h", code))
            self.assertIsNone(bystander.poll())
        finally:
            bystander.kill()
            bystander.wait()

    @needs_landlock
    def test_it_can_neither_write_files_nor_read_the_course(self):
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o777)  # so that only Landlock is in the way
            victim = pathlib.Path(folder) / "marks.json"
            victim.write_text("mine")
            victim.chmod(0o666)
            task = self.one.grader
            self.assert_harmless(
                self.attack(
                    f'if (fopen("{victim}", "w") || fopen("{folder}/new", "w") || '
                    f'fopen("here", "w") || fopen("{task}", "r") || !remove("{victim}")) abort();',
                    "cstdio cstdlib",
                )
            )
            self.assertEqual(victim.read_text(), "mine")

    @needs_seccomp
    def test_it_has_no_network_and_starts_no_processes(self):
        code = (
            "if (socket(AF_INET, SOCK_STREAM, 0) >= 0 || fork() >= 0 || vfork() >= 0 || "
            'popen("true", "r")) abort();'
        )
        self.assert_harmless(self.attack(code, "cstdio cstdlib sys/socket.h unistd.h"))

    @needs_seccomp
    def test_nothing_outlives_it(self):
        code = (
            "if (shmget(IPC_PRIVATE, 1 << 20, 0600) >= 0 || semget(IPC_PRIVATE, 1, 0600) >= 0 || "
            "msgget(IPC_PRIVATE, 0600) >= 0 || mq_open(name, O_CREAT | O_RDWR, 0600, 0) >= 0 || "
            'syscall(SYS_add_key, "user", name, name, 1, -4) >= 0) abort();'
        )
        headers = "cstdlib fcntl.h mqueue.h sys/msg.h sys/sem.h sys/shm.h sys/syscall.h unistd.h"
        name = f"/fa{os.getpid()}"
        self.assert_harmless(self.attack(f'const char* name = "{name}"; {code}', headers))

    @unittest.skipUnless(os.geteuid() == 0, "only root can read more than others")
    def test_the_compiler_cannot_show_files_of_root(self):
        with tempfile.NamedTemporaryFile("w", suffix=".hpp") as secret:
            secret.write("the marks of the others")
            secret.flush()
            result = self.attack("", outside=f'#include "{secret.name}"')[0]
        self.assertEqual((result.name, result.verdict), ("compiles", "refused"))
        self.assertNotIn("marks of the others", result.message)

    # ------------------------------------------------------------ time and memory

    def test_an_endless_loop_is_killed_and_its_line_named(self):
        results = self.attack("volatile bool on = true; while (on) {}")
        self.assert_no_marks(results, "2 seconds of processor time at one_step.hpp:")

    def test_a_program_that_sleeps_is_killed(self):
        with unittest.mock.patch.object(grading.RUN, "clock", 2):
            began = time.monotonic()
            results = self.attack("for (;;) pause();", "unistd.h")
        self.assertLess(time.monotonic() - began, 30)
        self.assert_no_marks(results, "2 seconds by the clock")

    def test_memory_without_end_is_refused(self):
        results = self.attack("for (;;) { volatile char* p = new char[1 << 26]; p[0] = 1; }")
        self.assert_no_marks(results, "memory")

    def test_threads_and_output_without_end_are_refused(self):
        code = "for (;;) std::thread([] { for (;;) pause(); }).detach();"
        self.assert_no_marks(self.attack(code, "thread unistd.h"))
        self.assert_no_marks(self.attack('for (;;) std::puts("text");', "cstdio"), "SIGXFSZ")

    def test_a_compilation_without_end_is_killed(self):
        deep = (
            "template <int n, long path> struct Deep { static constexpr long value = "
            "Deep<n - 1, 2 * path>::value + Deep<n - 1, 2 * path + 1>::value; };\n"
            "template <long path> struct Deep<0, path> { static constexpr long value = 0; };\n"
            "const long deep = Deep<40, 1>::value;"
        )
        with unittest.mock.patch.object(toolchain.COMPILE, "seconds", 2):
            result = self.attack("", outside=deep)[0]
        self.assertEqual((result.name, result.verdict), ("compiles", "refused"))
        self.assertIn("time", result.message)

    # ------------------------------------------------------------ honest mistakes

    def test_a_crash_names_its_signal_its_line_and_the_likely_cause(self):
        line = "one_step.hpp:"
        array = "volatile int i = 7; few[i] = 1; x.l += few[0];"
        for code, *words in (
            ("volatile int* p = nullptr; *p = 1;", "SIGSEGV", line),
            (f"std::vector<int> few(3); {array}", "SIGABRT", line, "index out of range"),
            (f"int few[3] = {{}}; {array}", "SIGILL", line, "beyond the end of an array"),
            ("throw 7;", "threw"),
        ):
            self.assert_no_marks(self.attack(code, "vector"), *words)
