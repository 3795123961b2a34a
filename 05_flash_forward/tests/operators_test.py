"""Tests of the operators for PyTorch, on the library that FA_LIBRARY names; skipped without it."""

import importlib
import math
import os
import unittest

from common.bench.peers import torch
from common.bench.problems import for_all_heads, largest, visible

if torch is not None:
    operators = importlib.import_module("05_flash_forward.interface.operators")
    interface = importlib.import_module("05_flash_forward.interface.flash_attention")
    operators.load(os.environ["FA_LIBRARY"])
    DEVICE = "cuda" if operators.library().runs_on == "gpu" else "cpu"


def tensors(*shapes, dtype=None):
    torch.manual_seed(1)
    return [torch.randn(shape, dtype=dtype or torch.bfloat16, device=DEVICE) for shape in shapes]


def qkv(dtype=None):
    return tensors((2, 4, 33, 64), (2, 2, 50, 64), (2, 2, 50, 64), dtype=dtype)


def integers(*shape):
    return torch.zeros(shape, dtype=torch.int32, device=DEVICE)


def textbook(q, k, v, causal=False):
    k, v = (for_all_heads(x, q.shape[1]) for x in (k, v))
    scores = q.double() @ k.double().transpose(2, 3) / math.sqrt(q.shape[3])
    return scores.masked_fill(~visible(q, k, causal), -math.inf).softmax(-1) @ v.double()


if torch is None:
    print("skipped: PyTorch is not installed; python3 -m pip install torch")


@unittest.skipIf(torch is None, "PyTorch is needed")
class Operators(unittest.TestCase):
    def check_close(self, found, expected):
        self.assertLess(largest(found.double() - expected), 0.02)

    def test_forward_is_an_operator_as_pytorch_asks(self):
        q, k, v = qkv()
        torch.library.opcheck(operators.forward, (q, k, v), {"causal": True})
        torch.library.opcheck(operators.forward, tuple(qkv(torch.float32)), {"scale": 0.3})
        across = (x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v))
        torch.library.opcheck(operators.forward, tuple(across))

    def test_rows_that_the_kernels_do_not_take_are_copied(self):
        q, k, v = qkv()
        expected = operators.attention(q, k, v)
        q_odd = torch.empty(*q.shape[:3], 65, dtype=q.dtype, device=q.device)[..., 1:].copy_(q)
        k_transposed = k.transpose(2, 3).contiguous().transpose(2, 3)
        self.assertTrue(torch.equal(operators.attention(q_odd, k_transposed, v), expected))
        torch.library.opcheck(operators.forward, (q_odd, k_transposed, v))

    def test_decode_is_an_operator_as_pytorch_asks(self):
        q, k, v = tensors((3, 8, 2, 64), (7, 2, 16, 64), (7, 2, 16, 64))
        table = torch.tensor([[5, 0], [3, -1], [6, 2]], dtype=torch.int32, device=DEVICE)
        lengths = torch.tensor([31, 7, 32], dtype=torch.int32, device=DEVICE)
        arguments = (q, k, v, lengths, table, 32, True)
        torch.library.opcheck(operators.decode, arguments)
        o, _ = operators.decode(*arguments)
        for b, length in enumerate(lengths.tolist()):
            pages = table[b, : -(-length // 16)].long()
            own = [x[pages].transpose(0, 1).flatten(1, 2)[None, :, :length] for x in (k, v)]
            self.check_close(o[b : b + 1], textbook(q[b : b + 1], *own, causal=True))

    def test_packed_sequences_do_not_see_their_neighbours(self):
        # Tensors of a few rows, at the beginning and at the end of what PyTorch allocates at once.
        for lengths in ((1,), (0, 3), (1, 0, 1, 40), (5, 130, 2, 1), (200, 7, 128)):
            begins = [sum(lengths[:i]) for i in range(len(lengths) + 1)]
            cu = torch.tensor(begins, dtype=torch.int32, device=DEVICE)
            q, k, v = tensors(*[(begins[-1], heads, 128) for heads in (4, 2, 2)])
            for i, causal in ((i, c) for i in range(len(lengths)) for c in (False, True)):
                own, others = slice(begins[i], begins[i + 1]), []
                for x in (q, k, v):
                    others.append(torch.full_like(x, math.nan))
                    others[-1][own] = x[own]
                o = operators.packed_attention(*others, cu, cu, causal=causal)
                if lengths[i] == 0:
                    continue
                alone = [x[own].transpose(0, 1)[None] for x in (q, k, v)]
                self.check_close(o[own].transpose(0, 1)[None], textbook(*alone, causal=causal))

    def test_a_compiled_function_without_a_graph_break(self):
        def layer(q, k, v):
            return operators.attention(2 * q, k, v, causal=True).transpose(1, 2).flatten(2) + 1

        q, k, v = qkv()
        compiled = torch.compile(layer, backend="aot_eager", fullgraph=True)
        self.assertTrue(torch.equal(compiled(q, k, v), layer(q, k, v)))
        longer = torch.cat((q, q), 2)  # another length: dynamic shapes
        self.assertTrue(torch.equal(compiled(longer, k, v), layer(longer, k, v)))
        self.check_close(operators.attention(q, k, v, causal=True), textbook(q, k, v, causal=True))

    def test_tokens_of_no_sequence_get_zeros(self):
        q, k, v = tensors((50, 4, 64), (50, 2, 64), (50, 2, 64))
        cu = torch.tensor([3, 10, 45], dtype=torch.int32, device=DEVICE)
        torch.library.opcheck(operators.forward_packed, (q, k, v, cu, cu, True))
        o, lse = operators.forward_packed(q, k, v, cu, cu)
        for of in (slice(3), slice(45, 50)):
            self.assertEqual(largest(o[of]), 0)
            self.assertTrue(torch.isneginf(lse[:, of]).all())

    def test_first_keys_of_a_cache_without_pages(self):
        q, k, v = tensors((2, 4, 3, 64), (2, 2, 50, 64), (2, 2, 50, 64))
        o, _ = operators.decode(q, k, v, length_k=20)
        self.check_close(o, textbook(q, k[:, :, :20], v[:, :, :20]))

    def check_refused(self, cases, call):
        for name, arguments in cases:
            with self.subTest(name=name, given=[getattr(x, "shape", x) for x in arguments]):
                with self.assertRaisesRegex(interface.Refused, name):
                    call(*arguments)

    def test_wrong_shapes_are_refused_by_name(self):
        q, k, v = qkv()
        cases = (
            ("4 dimensions", (q[0], k, v)),
            ("4 dimensions", (q, k[0], v)),
            ("v is", (q, k, v[:, :1])),
            ("v is", (q, k, v[:, :, :49])),
            ("k is", (q, k[:1], v)),
            ("k is", (q, k[..., :56], v)),
            ("k is", (q, k.half(), v)),
            ("q is", (q.double(), k.double(), v.double())),
            ("heads is 4", (q, torch.cat((k, k[:, :1]), 1), torch.cat((v, v[:, :1]), 1))),
            ("batch is 0", (q[:0], k[:0], v[:0])),
        )
        self.check_refused(cases, operators.forward)

    def test_wrong_shapes_of_caches_are_refused_by_name(self):
        q, k, v = tensors((3, 8, 2, 64), (7, 2, 16, 64), (7, 2, 16, 64))
        table, lengths = integers(3, 2), integers(3)
        cases = (
            ("length_k is None", (q, k, v, lengths, table)),
            ("length_k is 1.5", (q, k, v, lengths, table, 1.5)),
            ("length_k is 4294967312", (q, k, v, lengths, table, 2**32 + 16)),
            ("most_pages is 2", (q, k, v, lengths, table, 33)),
            ("lengths_k is", (q, k, v, lengths[:2], table, 32)),
            ("lengths_k is", (q, k, v, lengths.long(), table, 32)),
            ("block_table is", (q, k, v, lengths, table[0], 32)),
            ("block_table is", (q, k, v, lengths, table[:2], 32)),
            ("block_table is", (q, k, v, lengths, integers(2, 3).T, 32)),
            ("v is", (q, k, v[:6], lengths, table, 32)),
            ("k is", (q, k, v)),
            ("length_k is 17", (q, k[:3], v[:3], None, None, 17)),
            ("length_k is 0", (q, k[:3], v[:3], None, None, 0)),
        )
        self.check_refused(
            cases,
            lambda q, k, v, lengths_k=None, block_table=None, length_k=None: (
                operators.library().prepare_decode(
                    q, k, v, lengths_k=lengths_k, block_table=block_table, length_k=length_k
                )[0]()
            ),
        )

    def test_wrong_shapes_of_packed_sequences_are_refused_by_name(self):
        q, k, v = tensors((50, 4, 64), (60, 2, 64), (60, 2, 64))
        cu = integers(4)
        cases = (
            ("packed tensor", (q[None], k, v, cu, cu)),
            ("v is", (q, k, v[:59], cu, cu)),
            ("cu_seqlens_q is", (q, k, v, cu[0], cu)),
            ("cu_seqlens_k is", (q, k, v, cu, cu[:3])),
            ("cu_seqlens_k is", (q, k, v, cu, cu.long())),
            ("cu_seqlens_q is", (q, k, v, integers(8)[::2], cu)),
            ("sequences is 0", (q, k, v, cu[:1], cu[:1])),
            ("sequences is -1", (q, k, v, cu[:0], cu[:0])),
        )
        self.check_refused(cases, operators.forward_packed)

    def test_wrong_tables_of_functors_are_refused_by_name(self):
        q, k, v = tensors((2, 4, 20, 64), (2, 2, 24, 64), (2, 2, 24, 64))
        numbers = {"dtype": torch.float32, "device": DEVICE}
        blocks = torch.zeros(1, 1, 1, dtype=torch.uint8, device=DEVICE)
        right = {
            "bias": torch.zeros(2, 1, 20, 24, **numbers),
            "slopes": torch.zeros(4, **numbers),
            "sinks": torch.zeros(4, **numbers),
            "documents": integers(2, 24, 2) + torch.tensor([0, 24], dtype=torch.int32).to(DEVICE),
            "bits": integers(2, 20, 1),
            "blocks": torch.ones(4, 2, 2, dtype=torch.uint8, device=DEVICE),
        }
        kinds = {"slopes": "alibi", "blocks": "block_sparse"}

        def call(name, table):
            sizes = {"block_size": 16} if name == "blocks" else {}
            operators.library().prepare_functor(
                q, k, v, kinds.get(name, name), **{name: table}, **sizes
            )[0]()

        for name, table in right.items():
            call(name, table)
            wrong = [table[..., :-1], table[None], table.double(), table.tolist(), 0.5]
            wrong += [table[:-1]] if name != "bias" else []
            wrong += [torch.cat((table, table), -1)[..., ::2]]
            wrong += {
                "bias": [
                    torch.zeros(shape, **numbers)
                    for shape in ((2, 1, 2, 24), (1, 1, 20, 1), (3, 1, 20, 24), (2, 2, 20, 24))
                ],
                "slopes": [torch.zeros(1, **numbers)],
                "sinks": [torch.zeros(1, **numbers)],
                "documents": [integers(2, 20, 2), integers(1, 24, 2)],
                "bits": [integers(1, 20, 1), integers(2, 24, 1)],
                "blocks": [blocks, blocks.expand(4, 2, 2)],
            }[name]
            self.check_refused([(f"{name} is", (x,)) for x in wrong], lambda x: call(name, x))
        for name, value in (("left", 2**32), ("prefix", 1.5), ("windows", 3), ("block_size", None)):
            with self.subTest(name=name), self.assertRaisesRegex(interface.Refused, name):
                operators.library().prepare_functor(q, k, v, "prefix", **{name: value})

    def test_what_the_library_refuses_is_an_error(self):
        q, k, v = qkv()
        with self.assertRaisesRegex(Exception, "head_dim is 60"):
            operators.attention(q[..., :60], k[..., :60], v[..., :60])


if __name__ == "__main__":
    unittest.main()
