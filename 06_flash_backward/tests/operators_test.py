"""Tests of gradients through the operators for PyTorch, on the libraries that FA_FORWARD and
FA_LIBRARY name; skipped without PyTorch."""

import importlib
import math
import os
import unittest

from common.bench.peers import scaled_dot_product_attention, torch

if torch is not None:
    operators = importlib.import_module("06_flash_backward.interface.operators")
    operators.load(os.environ["FA_FORWARD"], os.environ["FA_LIBRARY"])
    DEVICE = "cuda" if operators.loaded[0].runs_on == "gpu" else "cpu"


def qkv(dtype, shapes=((2, 4, 33, 64), (2, 2, 33, 64), (2, 2, 33, 64))):
    torch.manual_seed(1)
    return [torch.randn(x, dtype=dtype, device=DEVICE, requires_grad=True) for x in shapes]


def packed_qkv():
    return qkv(torch.bfloat16, ((50, 4, 64), (50, 2, 64), (50, 2, 64)))


def layer(q, k, v):
    return (operators.attention(2 * q, k, v, causal=True) ** 2).sum()


if torch is None:
    print("skipped: PyTorch is not installed; python3 -m pip install torch")


@unittest.skipIf(torch is None, "PyTorch is needed")
class Operators(unittest.TestCase):
    def test_both_passes_are_operators_as_pytorch_asks(self):
        for dtype in (torch.float32, torch.bfloat16):
            q, k, v = qkv(dtype)
            torch.library.opcheck(operators.forward, (q, k, v), {"causal": True})
            with torch.no_grad():
                o, lse = operators.forward(q, k, v, True)
                torch.library.opcheck(operators.backward, (o + 1, q, k, v, o, lse, True))

    def test_gradients_are_those_of_pytorch_compiled_or_not(self):
        inputs = qkv(torch.float32)
        q, k, v = inputs
        o = scaled_dot_product_attention(
            2 * q, k.repeat_interleave(2, 1), v.repeat_interleave(2, 1), is_causal=True
        )
        expected = torch.autograd.grad((o**2).sum(), inputs)
        compiled = torch.compile(layer, backend="aot_eager", fullgraph=True)
        for function in (layer, compiled):
            for found, exact in zip(torch.autograd.grad(function(*inputs), inputs), expected):
                torch.testing.assert_close(found, exact, rtol=1e-3, atol=1e-3)

    def test_the_scale_is_that_of_the_forward_pass(self):
        inputs = qkv(torch.float32)
        q, k, v = inputs
        scaled = operators.attention(q, k, v, scale=0.3)
        usual = operators.attention(q * (0.3 * math.sqrt(64)), k, v)
        for a, b in zip(*(torch.autograd.grad((o**2).sum(), inputs) for o in (scaled, usual))):
            torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-3)

    def test_gradients_of_packed_sequences_are_those_of_each(self):
        inputs = packed_qkv()
        cu = torch.tensor([0, 17, 50], dtype=torch.int32, device=DEVICE)
        torch.library.opcheck(
            operators.forward_operators.forward_packed, (*inputs, cu, cu), {"causal": True}
        )

        def packed(*x):
            return (operators.packed_attention(*x, cu, cu, causal=True) ** 2).sum()

        def apart(*x):
            parts = ([y[of].transpose(0, 1)[None] for y in x] for of in (slice(17), slice(17, 50)))
            return sum((operators.attention(*part, causal=True) ** 2).sum() for part in parts)

        expected = torch.autograd.grad(apart(*inputs), inputs)
        compiled = torch.compile(packed, backend="aot_eager", fullgraph=True)
        for function in (packed, compiled):
            for found, exact in zip(torch.autograd.grad(function(*inputs), inputs), expected):
                torch.testing.assert_close(found, exact, rtol=0.02, atol=0.02)

        text = "gradients of packed sequences have no deterministic form"
        self.addCleanup(torch.use_deterministic_algorithms, False)
        torch.use_deterministic_algorithms(True)
        with self.assertRaisesRegex(RuntimeError, text):
            torch.autograd.grad(packed(*inputs), inputs)
        torch.use_deterministic_algorithms(True, warn_only=True)
        with self.assertWarnsRegex(UserWarning, text):
            torch.autograd.grad(packed(*inputs), inputs)

    def test_tokens_of_no_sequence_have_zero_gradients(self):
        inputs = packed_qkv()
        cu = torch.tensor([0, 10, 45], dtype=torch.int32, device=DEVICE)
        for _ in range(6):
            freed = [torch.full_like(x, math.nan) for x in inputs]
            del freed
            o = operators.packed_attention(*inputs, cu, cu)
            for gradient in torch.autograd.grad(o.sum(), inputs):
                self.assertTrue(torch.isfinite(gradient).all())
                self.assertEqual(gradient[45:].abs().max().item(), 0)
        with torch.no_grad():
            o, lse = operators.forward_operators.forward_packed(*inputs, cu, cu)
            torch.library.opcheck(
                operators.backward_packed, (o + 1, *inputs, cu, cu, o, lse), {"causal": True}
            )

    def test_wrong_shapes_are_refused_by_name(self):
        q, k, v = (x.detach() for x in qkv(torch.bfloat16))
        o, lse = operators.forward(q, k, v)
        refused = operators.interface.Refused
        for name, arguments in (
            ("d_o is", (o[:1], q, k, v, o, lse)),
            ("d_o is", (o.float(), q, k, v, o, lse)),
            ("o is", (o, q, k, v, o[..., :32], lse)),
            ("lse is", (o, q, k, v, o, lse[:, :1])),
            ("lse is", (o, q, k, v, o, lse.half())),
            ("k is", (o, q, k[:1], v, o, lse)),
        ):
            with self.subTest(name=name), self.assertRaisesRegex(refused, name):
                operators.backward(*arguments)
        cu = torch.tensor([0, 33], dtype=torch.int32, device=DEVICE)
        packed = [x[0].transpose(0, 1) for x in (o, q, k, v)]
        with self.assertRaisesRegex(refused, "cu_seqlens_k is"):
            operators.backward_packed(*packed, cu, cu[:1], packed[0], lse[0])

    def test_the_lse_has_no_gradient(self):
        o, lse = operators.forward(*qkv(torch.float32))
        self.assertEqual((o.requires_grad, lse.requires_grad), (True, False))


if __name__ == "__main__":
    unittest.main()
