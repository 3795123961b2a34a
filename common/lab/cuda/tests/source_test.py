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
    def launch(self, kernel, sizes, text):
        result = squeezed(text)
        self.assertIn(f"::lab_cuda::configure({sizes})", result)
        self.assertIn(f"{{{kernel}(lab_arguments...);}})(a,b)", result)

    def test_a_launch_becomes_a_call(self):
        self.launch("k", "1,2", "void f() { k<<<1, 2>>>(a, b); }")

    def test_template_arguments_belong_to_the_kernel(self):
        self.launch("k<T,(4>3),A<B<int>>>", "g,b,s,st",
                    "void f() { k<T, (4 > 3), A<B<int>>><<<g, b, s, st>>>(a, b); }")  # fmt: skip

    def test_qualified_kernels_members_and_pointers(self):
        for kernel in ("ns::k", "::ns::k<3>", "this->k", "kernels[i]", "(*pointer)", "A<B>::k"):
            with self.subTest(kernel):
                self.launch(kernel, "g,b", f"void f() {{ {kernel}<<<g, b>>>(a, b); }}")

    def test_sizes_may_have_shifts_and_templates(self):
        self.launch("k", "n>>1,f<int>(),sizeof(A<B<int>>)",
                    "void f() { k<<<n >> 1, f<int>(), sizeof(A<B<int>>)>>>(a, b); }")  # fmt: skip

    def test_a_keyword_before_a_parenthesis_is_no_function(self):
        result = squeezed("int f() { return (k)<<<1, 1>>>(a); }")
        self.assertIn("return::lab_cuda::configure", result)

    def test_the_marks_of_a_launch_may_be_apart(self):
        for text in ("k << <1, 2 >> >(a, b)", "k << < 1, 2 >> > (a, b)", "k<<<1, 2>> >(a, b)"):
            with self.subTest(text):
                self.launch("k", "1,2", f"void f() {{ {text}; }}")
        self.launch("k<T,3>", "g,n>>1", "void f() { k<T, 3> << <g, n >> 1 >> >(a, b); }")

    def test_a_literal_zero_stays_a_literal(self):
        self.assertIn("[=](auto&,auto&lab_1,auto&){k(0,lab_1,0);})(0,n+1,0)",
                      squeezed("void f() { k<<<1, 1>>>(0, n + 1, 0); }"))  # fmt: skip
        self.assertIn("lab_1", squeezed("void f() { k<<<1, 1>>>(0, f(1, 2)); }"))
        for text in (
            "k<<<1, 1>>>(0, f<1, 2>())",
            "k<<<1, 1>>>(0, x...)",
            "k<<<1, 1>>>(0, __VA_ARGS__)",
            "k<<<1, 1>>>(10)",
            "k<<<1, 1>>>()",
        ):
            with self.subTest(text):
                self.assertIn("k(lab_arguments...)", squeezed(f"void f() {{ {text}; }}"))

    def test_a_kernel_may_take_a_reference(self):
        kernel = "template <class T> __global__ void k(T& all, const S& s, int n) {}"
        self.assertIn(
            "{k<A>(lab_0.get(),lab_1,lab_2);})(::std::ref(*p),*p,f(1,2))",
            squeezed(kernel + "void f() { n::k<A><<<1, 1>>>(*p, *p, f(1, 2)); }").replace(
                "n::", ""
            ),
        )
        self.assertIn("lab_arguments...", squeezed(kernel + "void f() { j<<<1, 1>>>(*p); }"))

    def test_a_launch_in_a_macro(self):
        result = rewritten("#define RUN(k, ...) \\\n  k<<<g, b>>>(__VA_ARGS__)\nint x;\n")
        self.assertIn("::lab_cuda::configure( g, b", result.replace("configure(g", "configure( g"))
        self.assertIn("(__VA_ARGS__)", result)
        self.assertEqual(result.count("\n"), 3)

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


class BuiltIns(unittest.TestCase):
    def test_a_variable_of_the_host_may_be_called_like_a_built_in_one(self):
        self.assertIn(
            "g(); dim3 lab_gridDim(1), lab_blockDim; lab_blockDim.x = 64;",
            rewritten("void f() { g(); dim3 gridDim(1), blockDim; blockDim.x = 64; }"),
        )
        self.assertIn(
            "(const dim3& lab_gridDim, int n) { g(lab_gridDim.x); } int i = gridDim.x;",
            rewritten("void f(const dim3& gridDim, int n) { g(gridDim.x); } int i = gridDim.x;"),
        )
        self.assertIn("lab_gridDim", rewritten("void f() { int blocks; config.gridDim = blocks; }"))

    def test_uses_of_the_built_in_ones_stay(self):
        for text in (
            "__global__ void k(int n) { int i = n * blockDim.x + threadIdx.x; }",
            "__global__ void k() { dim3 d(1, blockDim.x); int s = sizeof blockIdx, t = d.y; }",
            "__device__ int f() { return blockIdx.x; }",
            "extern const uint3 threadIdx; __global__ void k() { f(threadIdx.x); }",
        ):
            with self.subTest(text):
                self.assertEqual(rewritten(text), text)


class Memory(unittest.TestCase):
    def test_dynamic_shared_memory_in_a_function(self):
        for text in ("extern __shared__ float s[];", "extern __shared__ __align__(16) float s[];",
                     "extern __align__(sizeof(int)) __shared__ float s[];",
                     "extern __shared__ alignas(128) float s[];"):  # fmt: skip
            with self.subTest(text):
                self.assertIn("float(*s)=(float(*))::lab_cuda::dynamic_shared();",
                              squeezed(f"void k() {{ {text} }}"))  # fmt: skip

    def test_dynamic_shared_memory_of_several_dimensions(self):
        self.assertIn("unsigned char (*s)[4]=(unsigned char (*)[4])".replace(" ", ""),
                      squeezed("void k() { extern __shared__ unsigned char s[][4]; }"))  # fmt: skip

    def test_dynamic_shared_memory_of_a_file(self):
        result = squeezed("extern __shared__ int s[];")
        self.assertRegex(
            result,
            r'staticint\(\*s\)__asm__\("lab_cuda\.s\.\d+"\)=\(int\(\*\)\)::lab_cuda::add_dynamic',
        )

    def test_static_shared_memory(self):
        result = rewritten("void k() { static __shared__ alignas(16) float a[2], b; }")
        self.assertIn("__shared__ __align__(16) float a[2] = {}, b = {};", result)

    def test_variables_of_the_device(self):
        result = rewritten("__device__ int a[2] = {1, 2}, *b;\n")
        self.assertIn("static int  lab_image_a [ 2 ] = { 1 , 2 }", result)
        self.assertIn('= ::lab_cuda::variable(lab_image_b, "b", false)', result)
        self.assertIn('"m", true', rewritten("__managed__ float m;\n"))

    def test_functions_members_and_constants_stay(self):
        for text in ("__device__ int f(int x);\n", "struct A { static __device__ int x; };\n",
                     "__device__ const float pi = 3;\n", "__device__ __forceinline__ T* g() {}\n",
                     "template <class T> __device__ T v;\n"):  # fmt: skip
            with self.subTest(text):
                self.assertEqual(rewritten(text), text)

    def test_what_is_swapped_may_be_read_before(self):
        result = squeezed("void f() { int old = *p, b; do b = old; while (atomicCAS(p, b, 1)); }")
        self.assertIn("old=::lab_cuda::before_swap(p),", result)
        text = "void f() { int old = *q; atomicCAS(p, old, 1); }"
        self.assertEqual(rewritten(text), text)


class Assembly(unittest.TestCase):
    def test_known_instructions_are_calls(self):
        for text, part in (
            ('asm("cp.async.ca.shared.global [%0], [%1], %2;\\n" :: "r"(d), "l"(s), "n"(8));',
             "ptx::cp_async(::lab_cuda::shared_pointer((d))"),
            ('asm("mov.u32 %0, %%laneid;" : "=r"(lane));', "thread().lane"),
            ('asm("add.s32 %0, %1, %2;" : "=r"(c) : "r"(a), "r"(b));', "as<int>((a)) +"),
            ('asm("{.reg .pred p; setp.eq.u32 p, %1, 3; @!p mov.u32 %0, 5;}" : "=r"(a) : "r"(b));',
             "if (!(lab_ptx_p))"),
            ('asm volatile("membar.gl;");', "fence()"),
            ('asm("st.shared.v2.f32 [%0 + 8], {%1, %2};" :: "r"(p), "f"(a), "f"(b));',
             "ptx::store("),
            ('asm("add.f32 %[c], %[a], %1;" : [c] "=f"(x) : [a] "f"(y));', "(y)"),
        ):  # fmt: skip
            with self.subTest(text):
                self.assertIn(part, rewritten(f"void f() {{ {text} }}"))

    def test_unknown_instructions_say_their_text(self):
        result = rewritten('void f() { asm volatile("mapa.u64 %0, %1, 3;" : "=l"(a) : "l"(b)); }')
        self.assertIn('static_assert(false, "PTX: mapa.u64 %0, %1, 3")', result)

    def test_a_macro_that_is_asm(self):
        text = (
            '#define A asm volatile\n#define B(x) asm(x)\nvoid f() { A("membar.gl;"); B("bad;"); }'
        )
        result = rewritten(text)
        self.assertIn("fence();", result)
        self.assertIn("#define A asm volatile", result)
        self.assertIn('B("bad;")', result)

    def test_a_reduction_of_several_elements(self):
        result = squeezed('asm("red.relaxed.gpu.global.add.v2.f32 [%0], {%1, %2};" '
                          ':: "l"(p), "f"(a), "f"(b));')  # fmt: skip
        for i, value in enumerate("ab"):
            self.assertIn(f"+{i},::lab_cuda::ptx::as<float>(({value}))", result)

    def test_an_empty_statement_stays(self):
        text = 'void f() { asm volatile("" ::: "memory"); }'
        self.assertEqual(rewritten(text), text)

    def test_the_two_orders_of_ldmatrix(self):
        for name in ("m8n8.x4", "x4.m8n8"):
            text = squeezed(f'asm("ldmatrix.sync.aligned.{name}.shared.b16 {{%0,%1,%2,%3}}, [%4];" '
                            ': "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"(p));')  # fmt: skip
            self.assertIn("::lab_cuda::ptx::ldmatrix(lab_r,4,false,", text)

    def test_the_scope_of_a_block(self):
        text = squeezed('asm("atom.cta.global.add.u32 %0, [%1], 1;" : "=r"(a) : "l"(p));')
        self.assertIn("atomicAdd_block(", text)
        self.assertIn("fence(false)", squeezed('asm("membar.cta;");'))
        self.assertIn("fence()", squeezed('asm("membar.gl;");'))


class Advice(unittest.TestCase):
    def test_libraries_of_the_toolkit(self):
        self.assertIn("matmul", advice.of_toolkit("cublas_v2.h"))
        self.assertIn("reduction", advice.of_toolkit("cub/cub.cuh"))
        self.assertIsNone(advice.of_toolkit("cubes.h"))
        self.assertIsNone(advice.of_toolkit("mine/thrust_curve.h"))

    def test_names_that_are_unknown(self):
        self.assertIn("one after the other",
                      advice.of_error("'cudaGraphAddNode' was not declared"))  # fmt: skip
        self.assertEqual(advice.of_error("expected ';'"), "expected ';'")


if __name__ == "__main__":
    unittest.main()
