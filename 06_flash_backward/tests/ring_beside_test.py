"""How the comparison of rings of GPUs finds ring-flash-attn. PyTorch is not needed."""

import importlib
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

from common.bench.command import Failure

beside = importlib.import_module("06_flash_backward.ring.beside_pytorch")


class RingFlashTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        places = mock.patch.object(sys, "path", vars(sys)["path"][:])
        for patch in (mock.patch.dict(sys.modules), places):
            patch.start()
            self.addCleanup(patch.stop)

    def write(self, name, text):
        path = pathlib.Path(self.folder, name)
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def test_what_is_asked_for_must_be_there(self):
        with mock.patch.object(beside, "version_of", return_value=""):
            self.assertEqual(beside.load_ring_flash(), ({}, ""))
            with self.assertRaisesRegex(Failure, "not installed$"):
                beside.load_ring_flash("")
            with self.assertRaisesRegex(Failure, f"not installed in {self.folder}$"):
                beside.load_ring_flash(self.folder)

    def test_it_is_found_in_a_folder_and_gets_pytorch_s_functions(self):
        self.write("ring_flash_attn-0.1.dist-info/METADATA", "Name: ring-flash-attn\nVersion: 0.1")
        self.write("ring_flash_attn/__init__.py", "import a_package_that_is_not_there")
        imports = "from flash_attn.flash_attn_interface import _flash_attn_forward as f\n"
        for name in ("ring_flash_attn", "zigzag_ring_flash_attn"):
            text = f"{imports}def {name}_func():\n    return '{name}', f\n"
            self.write(f"ring_flash_attn/{name}.py", text)
        versions = {"ring-flash-attn": beside.version_of, "flash-attn": lambda _: ""}
        with mock.patch.object(beside, "version_of", lambda name: versions[name](name)):
            functions, what = beside.load_ring_flash(self.folder)
        self.assertEqual(what, "ring-flash-attn 0.1, with PyTorch's FlashAttention-2")
        for causal, name in ((False, "ring_flash_attn"), (True, "zigzag_ring_flash_attn")):
            found, forward = functions[causal]()
            self.assertEqual(found, name)
            self.assertEqual(forward.__module__, beside.__name__)


if __name__ == "__main__":
    unittest.main()
