"""Whatever form a submission has, its files are found or named."""

import io
import os
import tarfile
import unittest
import zipfile

from common.classroom import catalogue, submissions
from common.classroom.catalogue import Fault
from common.classroom.grading import LONGEST, text_of
from common.classroom.tests.support import exercise, said
from common.classroom.toolchain import remove
from common.testing.tree import TreeTest

ALL = catalogue.exercises()
STEP, RING = "03_one_step", "04_ring"
FILE = exercise(STEP).file
HEAD = "// Exercise {}: see ./learn exercise start {}\n"


class Submissions(TreeTest):
    def setUp(self):
        super().setUp()
        self.top = self.root / "students"
        self.top.mkdir()
        self.addCleanup(remove, self.top)

    def put(self, name, data="mine"):
        return self.write(f"students/{name}", data)

    def read(self, name):
        return submissions.read(name, self.top / name, ALL)

    def assert_unread(self, found, *names):
        for name in names:
            self.assertTrue(any(name in words for words in found.unread), (name, found.unread))

    def test_a_file_is_found_in_any_folder(self):
        for place in (
            f"my_exercises/{STEP}/{FILE}",
            f"{STEP}/{FILE}",
            FILE,
            f"upload/week 3/my_exercises/{STEP}/{FILE}",
            f"hw/{FILE}",
            "one_step (1).hpp",
            f"{STEP} (2)/one_step-1.hpp",
        ):
            student = f"s{abs(hash(place))}"
            self.put(f"{student}/{place}", place)
            self.assertEqual(self.read(student).answers, {STEP: place}, place)

    def test_files_that_several_exercises_have_are_told_apart(self):
        for one in (RING, "05_ring"):
            student, file = f"s{one}", exercise(one).file
            self.put(f"{student}/{file}", HEAD.format(one, one))
            self.assertEqual(list(self.read(student).answers), [one])
        self.put(f"bare/{file}", "no first line")
        found = self.read("bare")
        self.assertEqual(found.answers, {})
        self.assert_unread(found, file)

    def test_an_archive_of_this_folder_is_read(self):
        path = self.put(f"a/my_exercises/{STEP}/{FILE}")
        with tarfile.open(self.put("b/a.tgz"), "w:gz") as archive:
            archive.add(path.parents[2], "./")
        self.assertEqual(self.read("b").answers, {STEP: "mine"})

    def test_archives_are_read_and_reach_nothing_outside(self):
        outside = self.top.parent / FILE
        entries = {f"../../{FILE}": "out", f"my_exercises/{STEP}/{FILE}": "in"}
        for kind in ("zip", "tar", "tar.gz"):
            path, data = self.put(f"{kind}/upload.{kind}"), io.BytesIO()
            if kind == "zip":
                with zipfile.ZipFile(path, "w") as archive:
                    for name, text in entries.items():
                        archive.writestr(name, text)
            else:
                with tarfile.open(path, "w:gz" if kind == "tar.gz" else "w") as archive:
                    link = tarfile.TarInfo(f"my_exercises/{RING}/{exercise(RING).file}")
                    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
                    archive.addfile(link)
                    for name, text in entries.items():
                        one, data = tarfile.TarInfo(name), io.BytesIO(text.encode())
                        one.size = len(text)
                        archive.addfile(one, data)
            found = self.read(kind)
            self.assertEqual(found.answers, {STEP: "in"}, kind)
            self.assert_unread(found, FILE, *(["a link"] if kind != "zip" else []))
        self.assertFalse(outside.exists())

    def test_archives_that_are_damaged_or_unpack_to_too_much_are_named(self):
        self.put("ann/broken.zip", b"PK\x03\x04 and no more")
        self.put("ann/broken.tar.gz", b"\x1f\x8b nothing")
        with tarfile.open(self.put("ann/large.tar"), "w") as archive:
            large = tarfile.TarInfo(f"{STEP}/{FILE}")
            large.size = submissions.UNPACKED + 1
            archive.fileobj.write(large.tobuf())
        self.put(f"ann/{STEP}/{FILE}")
        found = self.read("ann")
        self.assertEqual(list(found.answers), [STEP])
        self.assert_unread(found, "broken.zip", "broken.tar.gz", "large.tar")

    def test_each_file_that_was_not_read_is_named_with_the_reason(self):
        (self.top / "eve" / STEP).mkdir(parents=True)
        (self.top / "eve" / STEP / FILE).symlink_to("/etc/passwd")
        self.put("eve/04_map/map.cuh", "x" * (LONGEST + 1))
        self.put("eve/report.pdf")
        self.put("eve/my.rar")
        os.mkfifo(self.top / "eve" / "merge.hpp")
        found = self.read("eve")
        self.assertEqual(found.answers, {})
        self.assert_unread(found, FILE, str(LONGEST), "report.pdf", "my.rar", "merge.hpp")

    def test_the_newest_of_several_is_taken_and_what_commands_write_is_not_reported(self):
        for number, (name, when) in enumerate((("", 100), (" (1)", 300), (" (2)", 200))):
            os.utime(self.put(f"a/one_step{name}.hpp", str(number)), (when, when))
        found = self.read("a")
        self.assertEqual((found.answers, found.times), ({STEP: "1"}, {STEP: 300}))
        self.assertEqual(len(found.unread), 2)
        for name in (f"{STEP}/{FILE}", f"{STEP}/one_step.before_1.hpp", "progress.json", ".clangd"):
            self.put(f"b/my_exercises/{name}")
        self.put(f"b/newer/{FILE}", "not this")
        for number in range(submissions.MANY):
            self.put(f"b/other/{number}.md")
        self.put("b/broken.zip")
        found = self.read("b")
        self.assertEqual(found.answers, {STEP: "mine"})
        self.assertEqual(len(found.unread), 2)  # of a clone
        self.assert_unread(found, "broken.zip", "newer")

    def test_nested_folders_and_many_files_come_to_an_end(self):
        here = os.getcwd()
        try:
            (self.top / "a").mkdir()
            os.chdir(self.top / "a")
            for _ in range(1500):
                os.mkdir("d")
                os.chdir("d")
        finally:
            os.chdir(here)
        self.put(f"a/{STEP}/{FILE}")
        found = self.read("a")
        self.assertEqual(list(found.answers), [STEP])
        self.assert_unread(found, "folders")
        remove(self.top)
        self.assertFalse(self.top.exists())

    def test_students_are_folders_and_archives(self):
        self.put(f"ann/my_exercises/{STEP}/{FILE}", "ann's")
        with zipfile.ZipFile(self.top / "bob.zip", "w") as archive:
            archive.writestr(FILE, "bob's")
        (self.top / "cat").mkdir()
        self.put("list.txt")
        found, text = said(submissions.students_in, self.top, ALL)
        answers = {one.name: one.answers.get(STEP) for one in found}
        self.assertEqual(answers, {"ann": "ann's", "bob": "bob's", "cat": None})
        self.assertIn("list.txt", text)
        for alone in (self.top / "ann", self.top / "bob.zip"):
            self.assertEqual(len(said(submissions.students_in, alone, ALL)[0]), 1)

    def test_texts_are_read_as_editors_write_them(self):
        for code in ("utf-8", "utf-8-sig", "utf-16", "cp1252"):
            self.assertEqual(text_of("// größer\r\nint".encode(code)), "// größer\nint")
        with self.assertRaisesRegex(Fault, str(LONGEST)):
            text_of(b"x" * (LONGEST + 1))


if __name__ == "__main__":
    unittest.main()
