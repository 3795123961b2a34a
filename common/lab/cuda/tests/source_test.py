"""Tests of the source pass."""

import pathlib
import re
import unittest

from common.lab.cuda import advice
from common.lab.cuda.source import Source


def rewritten(text):
    return Source(text, pathlib.Path("x.cu")).rewrite()


def squeezed(text):
    return re.sub(r"\s+", "", rewritten(text))


class Launches(unittest.TestCase):
    def test_a_launch_becomes_a_call(self):
        for kernel, sizes in (
            ("k", "1,2"),
            ("k<T,(4>3),A<B<int>>>", "g,b,s,st"),
            ("k", "n>>1,f<int>(),sizeof(A<B<int>>)"),
            ("ns::k", "g,b"),
            ("::ns::k<3>", "g,b"),
            ("this->k", "g,b"),
            ("kernels[i]", "g,b"),
            ("(*pointer)", "g,b"),
            ("A<B>::k", "g,b"),
        ):
            with self.subTest(kernel):
                result = squeezed(f"int f() {{ {kernel}<<<{sizes}>>>(a, b); }}")
                self.assertIn(f"::lab_cuda::configure({sizes})", result)
                self.assertIn(f"{{{kernel}(lab_arguments...);}})(a,b)", result)
        result = squeezed("int f() { return (k)<<<1, 1>>>(a); }")
        self.assertIn("return::lab_cuda::configure", result)

    def test_text_and_comments_stay(self):
        for text in ('const char* a = "k<<<1, 2>>>(3)";', "// k<<<1, 2>>>(3)\n",
                     "/* k<<<1,\n2>>>(3) \" */", 'auto a = R"x(k<<<1, 2>>>(3)" )x";',
                     "char c = '\"'; int n = 1'000'000; // don't\n"):  # fmt: skip
            with self.subTest(text):
                self.assertEqual(rewritten(text), text)

    def test_lines_stay_where_they_were(self):
        text = (
            "void f() {\n  k<int,\n    4>\n  <<<\n g,\n b>>>(\n a);\n}\n__device__ int\n x = 3;\n"
        )
        text += "int y;\n"
        result = rewritten(text)
        self.assertEqual(result.count("\n"), text.count("\n"))
        self.assertEqual(result.splitlines()[-1], "int y;")


class Memory(unittest.TestCase):
    def test_dynamic_shared_memory_in_a_function(self):
        for text in ("extern __shared__ float s[][4];",
                     "extern __shared__ __align__(16) float s[][4];",
                     "extern __align__(sizeof(int)) __shared__ float s[][4];",
                     "extern __shared__ alignas(128) float s[][4];"):  # fmt: skip
            with self.subTest(text):
                self.assertIn("float(*s)[4]=(float(*)[4])::lab_cuda::dynamic_shared();",
                              squeezed(f"void k() {{ {text} }}"))  # fmt: skip

    def test_functions_members_and_constants_stay(self):
        for text in ("__device__ int f(int x);\n", "struct A { static __device__ int x; };\n",
                     "__device__ const float pi = 3;\n", "__device__ __forceinline__ T* g() {}\n",
                     "template <class T> __device__ T v;\n",
                     '__device__ void f() { asm volatile("" ::: "memory"); }'):  # fmt: skip
            with self.subTest(text):
                self.assertEqual(rewritten(text), text)

    def test_what_is_swapped_may_be_read_before(self):
        result = squeezed("void f() { int old = *p, b; do b = old; while (atomicCAS(p, b, 1)); }")
        self.assertIn("old=::lab_cuda::before_swap(p),", result)
        text = "__device__ void f() { int old = *q; atomicCAS(p, old, 1); }"
        self.assertEqual(rewritten(text), text)


class Assembly(unittest.TestCase):
    def test_known_instructions_are_calls(self):
        for text, part in (
            ('"{.reg .b32 %%r; .reg .pred %p; elect.sync %%r|%p, %1; @%p mov.s32 %0, 1;}"'
             ' : "+r"(a) : "r"(b)', "set(lab_ptx_p,::lab_cuda::elect((b),&lab_lane"),
            ('"membar.gl;"', "fence()"),
            ('"membar.cta;"', "fence(false)"),
            ('"atom.cta.global.add.u32 %0, [%1], 1;" : "=r"(a) : "l"(p)', "atomicAdd_block("),
            ('"st.shared.v2.f32 [%0 + 8], {%1, %2};" :: "r"(p), "f"(a), "f"(b)',
             "ptx::store<float>(::lab_cuda::ptx::shared((p))+8"),
            ('"red.global.add.v2.f32 [%0], {%1, %2};" :: "l"(p), "f"(a), "f"(b)',
             "+1,::lab_cuda::ptx::as<float>((b))"),
            ('"ldmatrix.sync.aligned.x1.m8n8.shared.b16 {%0}, [%1];" : "=r"(a) : "r"(p)',
             "ldmatrix(false,"),
            ('"add.f32 %[c], %[a], %1;" : [c] "=f"(x) : [a] "f"(y)', "(y)"),
        ):  # fmt: skip
            with self.subTest(text):
                self.assertIn(part, squeezed(f"void f() {{ asm volatile({text}); }}"))

    def test_a_macro_that_is_asm(self):
        text = '#define A asm volatile\n#define B(x) asm(x)\nvoid f() { A("membar.gl;"); B("b;"); }'
        result = rewritten(text)
        self.assertIn("fence();", result)
        self.assertIn("#define A asm volatile", result)
        self.assertIn('static_assert(false, "PTX: b")', result)

    def test_findings_have_the_line_of_the_call(self):
        text = '__device__ void f(int a) { asm("bar.sync 1, 32;"); }\n'
        more = "__device__ void g() { f(1); }\n__global__ void k() { g(); }"
        result = squeezed(text + more)
        self.assertIn("f(inta,LAB_CUDA_WHERE){", result)
        self.assertIn("named_barrier(1,32,true,lab_where)", result)
        self.assertIn("g(LAB_CUDA_WHERE){f(1,lab_where);}", result)
        self.assertIn("voidk(){g();}", result)
        for other in ("__device__ void f(int a);\n" + text, text.replace("int a", "int a, ..."),
                      text.replace("__device__", "template <> __device__")):  # fmt: skip
            self.assertIn("here()", squeezed(other + more))


class Advice(unittest.TestCase):
    def test_what_is_known_of_headers_and_names(self):
        self.assertIn("matmul", advice.of_toolkit("cublas_v2.h"))
        self.assertIn("reduction", advice.of_toolkit("cub/cub.cuh"))
        self.assertIsNone(advice.of_toolkit("cubes.h"))
        self.assertIn("cuda/ptx", advice.of_error("cuda/work: No such file or directory"))
        self.assertIn("OpenMP", advice.of_name("omp_get_max_threads"))
        self.assertIsNone(advice.of_toolkit("mine/thrust_curve.h"))
        self.assertNotEqual(advice.of_name("cudaGraphAddNode"), None)
        self.assertEqual(advice.of_error("expected ';'"), "expected ';'")


if __name__ == "__main__":
    unittest.main()
