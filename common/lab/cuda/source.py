"""The source pass: makes C++ of a CUDA file, with every line where it was.

It rewrites what C++ does not have: `kernel<<<grid, block>>>(arguments)`, `extern __shared__`,
variables in device memory, and inline PTX. Everything else is left to the headers in include/.
"""

import pathlib
import re

from common.lab.cuda import macros, ptx
from common.lab.cuda.instructions import HERE

TOKEN = re.compile(
    r"""
    (?P<space>(?:[^\S\n]|\\\n)+|\n)
  | (?P<comment>//(?:[^\n\\]|\\.)*|/\*.*?\*/)
  | (?P<raw>(?:u8|[uUL])?R"(?P<delimiter>[^()\\\s]{0,16})\(.*?\)(?P=delimiter)")
  | (?P<string>(?:u8|[uUL])?"(?:[^"\\\n]|\\.)*")
  | (?P<char>(?:u8|[uUL])?'(?:[^'\\\n]|\\.)+')
  | (?P<number>\.?\d(?:[eEpP][+-]|'?[\w.])*)
  | (?P<name>[A-Za-z_$]\w*)
  | (?P<mark><<<|>>>|::|->|<<|>>|.)
    """,
    re.VERBOSE | re.DOTALL,
)
OPEN, CLOSE = {"(": ")", "[": "]", "{": "}"}, {")": "(", "]": "[", "}": "{"}
VARIABLE = ("__device__", "__constant__", "__managed__")
# What kernels may call: a constexpr function, too, with an option of nvcc.
FOR_KERNELS = (*VARIABLE, "__global__", "constexpr", "consteval")
DROPPED = (*VARIABLE, "static", "extern", "inline")
BUILT_IN = ("threadIdx", "blockIdx", "blockDim", "gridDim")
KEYWORDS = ("return", "else", "do", "case", "sizeof", "throw", "delete", "new", "co_return", "and",
            "or", "not")  # fmt: skip
HEADERS = pathlib.Path(__file__).parent / "include/lab_cuda"
DECLARED = r"^(?:(?:inline )?cudaError_t |LAB_CUDA_(?:DEFINE\(cudaError_t, |NOTHING\())(cuda\w+)"
RETURN_ERRORS = {
    name
    for header in ("host.h", "launch.h")
    for name in re.findall(DECLARED, (HEADERS / header).read_text(), re.M)
    # A launch has findings of its own.
    if not re.match("cuda(Get|PeekAt)LastError|cudaLaunch", name)
}
BY_POINTER = re.compile(r"cuda(LaunchKernel(ExC)?|LaunchCooperativeKernel|Func\w+|Occupancy\w+)$")


class Token:
    __slots__ = ("text", "kind", "line", "out", "directive")

    def __init__(self, text, kind, line, directive):
        self.text, self.kind, self.line, self.directive = text, kind, line, directive
        self.out = text  # what is written instead


def tokens_of(text):
    """All tokens of a file; those of a preprocessor directive have its number, others 0."""
    result, line, directive, number, fresh = [], 1, 0, 0, True
    for found in TOKEN.finditer(text):
        word, kind = found[0], found.lastgroup
        if kind == "delimiter":
            kind = "raw"
        if word == "\n":
            directive, fresh = 0, True
        elif word == "#" and fresh:
            number += 1
            directive = number
        elif kind not in ("space", "comment"):
            fresh = False
        result.append(Token(word, kind, line, directive))
        line += word.count("\n")
    return result


MOST_STATIC = (
    'static_assert(sizeof({}) <= 48 * 1024, "too much static shared memory: nvcc allows 49152 '
    "bytes in a kernel; declare an array as extern __shared__, and ask for its bytes by "
    "cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes) and in the "
    'launch");'
)
STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')
IN_STRING = re.compile(
    r"::lab_cuda::configure\((?P<sizes>.*?)\)"
    r'\(\\"(?P<kernel>.*?)\\", \[=\]\([^()]*\) \{.*?\); \}\)\('
)


def with_launches_as_written(text):
    """Preprocessed text whose strings, made of arguments of macros, show launches as they were."""
    return STRING.sub(lambda s: IN_STRING.sub(r"\g<kernel><<<\g<sizes>>>>(", s[0]), text)


def newlines(text):
    return "".join(re.findall(r"\\\n|\n", text))


class Source:
    """One file as tokens, while it is rewritten. `hopper`: its kernels may form clusters."""

    def __init__(self, text, where, marks=None, hopper=False, known=None):
        self.tokens = tokens_of(text)
        self.where, self.count, self.hopper = where, 0, hopper
        self.marks = set() if marks is None else marks  # macros with __device__, of all files
        self.launches_in_argument = False  # maybe of a macro
        self.statics = {}  # names in declarations of static shared memory, and their lines
        self.real = [i for i, t in enumerate(self.tokens) if t.kind not in ("space", "comment")]
        self.place = {index: k for k, index in enumerate(self.real)}
        self.macros = macros.Macros() if known is None else known  # of all files
        self.definitions()
        self.marks |= {
            self.text(k + 2)
            for k in range(len(self.real))
            if self.text(k + 1) == "define" and self.token(k + 1).directive and any(
                self.text(i) in FOR_KERNELS for i in range(k, min(k + 9, len(self.real)))
                if self.same_directive(k, i)
            )
        }  # fmt: skip

    # ------------------------------------------------------------ moving among tokens

    def text(self, k):
        """The k-th token that is neither space nor comment."""
        return self.tokens[self.real[k]].text if 0 <= k < len(self.real) else ""

    def token(self, k):
        return self.tokens[self.real[k]]

    def same_directive(self, k, other):
        return (
            0 <= other < len(self.real) and self.token(k).directive == self.token(other).directive
        )

    def closing(self, k):
        """Where the bracket that opens at k closes; None without an end."""
        stack = []
        for i in range(k, len(self.real)):
            text = self.text(i)
            if text in OPEN:
                stack.append(OPEN[text])
            elif text in CLOSE:
                if not stack or stack.pop() != text:
                    return None
                if not stack:
                    return i
        return None

    def opening(self, k):
        """Where the bracket that closes at k opens."""
        depth = 0
        for i in range(k, -1, -1):
            text = self.text(i)
            depth += (text in CLOSE) - (text in OPEN)
            if depth == 0:
                return i
        return None

    def angle_opening(self, k):
        """Where the template arguments that end at k begin."""
        depth, i = 0, k
        while i >= 0:
            text = self.text(i)
            if text in (">", ">>", ">>>"):
                depth += len(text)
            elif text == "<":
                depth -= 1
                if depth == 0:
                    return i
            elif text in CLOSE:
                i = self.opening(i)
                if i is None:
                    return None
            elif text in (";", "{"):
                return None
            i -= 1
        return None

    def source(self, first, end):
        """The text of the tokens first to end - 1, on one line."""
        words, last = [], first
        for k in range(first, end):
            if words and self.real[k] > self.real[last] + 1:
                words.append(" ")
            words.append(self.text(k))
            last = k
        return "".join(words)

    def replace(self, first, end, text):
        """Writes `text` instead of the tokens first to end - 1, with the lines that they had."""
        begin, stop = self.real[first], self.real[end - 1] + 1
        lost = "".join(newlines(t.text) for t in self.tokens[begin:stop])
        for token in self.tokens[begin:stop]:
            token.out = ""
        self.tokens[begin].out = text + lost

    def result(self):
        return "".join(token.out for token in self.tokens)

    # ------------------------------------------------------------ launches

    def kernel_begin(self, k):
        """Where the expression for a kernel that ends before k begins; None where there is none."""
        i = k - 1
        while True:
            if self.text(i) in (">", ">>", ">>>"):
                i = self.angle_opening(i)
                if i is None:
                    return None
                i -= 1
                if not self.is_name(i):
                    return None
            elif self.text(i) in (")", "]"):
                i = self.opening(i)
                if i is None:
                    return None
                if self.is_name(i - 1) and self.text(i - 1) not in ("return", "else", "do"):
                    i -= 1
            elif not self.is_name(i):
                return None
            before = self.text(i - 1)
            if before == "template":
                i -= 1
                before = self.text(i - 1)
            if before in (".", "->"):
                i -= 2
            elif before == "::":
                if self.is_name(i - 2) and self.text(i - 2) != "return":
                    i -= 2
                elif self.text(i - 2) in (">", ">>"):
                    i -= 2
                else:
                    return i - 1
            else:
                return i

    def is_name(self, k):
        return 0 <= k < len(self.real) and self.token(k).kind == "name"

    def mark(self, k, mark):
        """The end of <<< or >>> that begins at k, also as formatters write it: << <."""
        if self.text(k) == mark:
            return k + 1
        return k + 2 if (self.text(k), self.text(k + 1)) == (mark[:2], mark[:1]) else None

    def shows_text(self):
        """Whether a macro of this file makes a string of its argument."""
        return any(
            self.text(k) == "#" and self.token(k).directive and self.same_directive(k, k - 1)
            for k in range(1, len(self.real))
        )

    def launches(self):
        inside = 0  # of how many parentheses
        for k in range(len(self.real)):
            inside += (self.text(k) == "(") - (self.text(k) == ")")
            sizes = self.mark(k, "<<<")
            if sizes is None or self.token(k).kind != "mark":
                continue
            begin, depth, end = self.kernel_begin(k), 0, None
            for i in range(sizes, len(self.real)):
                text = self.text(i)
                depth += (text in OPEN) - (text in CLOSE)
                if depth < 0 or text == ";":
                    break
                if depth == 0 and self.mark(i, ">>>"):
                    end = i
                    break
            after = end and self.mark(end, ">>>")
            if begin is None or end is None or self.text(after) != "(":
                continue
            kernel = self.source(begin, k)
            name = kernel.replace("\\", "\\\\").replace('"', '\\"')
            last = self.closing(after)
            for i in range(after + 1, last or 0):  # NULL would become a number on its way
                if self.text(i) == "NULL":
                    self.token(i).out = "nullptr"
            parameters, passed = self.parameters(after + 1, last or after, self.name(begin, k))
            self.replace(begin, sizes, "::lab_cuda::configure(")
            call = f"[=]({parameters}) {{ {kernel}({passed}); }}"
            self.replace(end, after, f')("{name}", {call})')
            self.launches_in_argument |= inside > 0

    def name(self, begin, end):
        """Of a kernel, without namespace and template arguments."""
        at = end - 1
        if self.text(at) in (">", ">>", ">>>"):
            at = self.angle_opening(at) - 1
        return self.text(at) if at >= begin else ""

    def pieces(self, first, last):
        """Where the arguments in the tokens first to last - 1 begin and end; none if a comma may
        stand in template arguments, or a pack among them."""
        result, depth, start = [], 0, first
        words = [self.text(i) for i in range(first, last)]
        if {"<", "__VA_ARGS__"} & set(words) or "..." in "".join(words):
            return []
        for i, word in enumerate([*words, ","], first):
            depth += (word in OPEN) - (word in CLOSE)
            if depth == 0 and word == ",":
                result.append((start, i))
                start = i + 1
        return result

    def references(self):
        """Of each kernel of this file, which parameters are references to what may change."""
        result = {}
        for k in range(len(self.real)):
            if self.text(k) != "(" or not self.is_name(k - 1):
                continue
            first, _ = self.statement(k - 1)
            if "__global__" not in (self.text(i) for i in range(first, k)):
                continue
            pieces = self.pieces(k + 1, self.closing(k) or k + 1)
            for n, (begin, end) in enumerate(pieces):
                words = [self.text(i) for i in range(begin, end)]
                if "&" in words and "const" not in words:
                    result.setdefault(self.text(k - 1), set()).add(n)
        return result

    def parameters(self, first, last, kernel):
        """For a launch with the arguments first to last - 1: the parameters of the call in its
        place, and what that passes on. A literal 0 stays one, for it may be a pointer."""
        pieces, each, plain = self.pieces(first, last), [], True
        for n, (begin, end) in enumerate(pieces):
            if self.source(begin, end) == "0":
                each.append(("auto&", "0"))
            elif n in self.by_reference.get(kernel, ()) and end > begin:
                self.token(begin).out = f"::std::ref({self.token(begin).out}"
                self.token(end - 1).out += ")"
                each.append((f"auto& lab_{n}", f"lab_{n}.get()"))
            else:
                each.append((f"auto& lab_{n}", f"lab_{n}"))
                continue
            plain = False
        if plain:
            return "auto&... lab_arguments", "lab_arguments..."
        return ", ".join(a for a, _ in each), ", ".join(b for _, b in each)

    # ------------------------------------------------------------ shared memory

    def statement(self, k):
        """The first token of the statement around k, and its semicolon or end."""
        first = k
        while first > 0 and self.same_directive(k, first - 1):
            before = self.text(first - 1)
            if before == ")":
                first_of = self.opening(first - 1)
                if not self.is_alignment(first_of):
                    break
                first = first_of
            elif before in (";", "{", "}", ":"):
                break
            else:
                first -= 1
        if self.token(k).directive and self.text(first) == "#":
            first = k
        end = k
        while end < len(self.real) and self.same_directive(k, end) and self.text(end) != ";":
            if self.text(end) in OPEN:
                end = self.closing(end) or end
            end += 1
        return first, end

    def is_alignment(self, k):
        """Whether the bracket at k belongs to an attribute."""
        return k is not None and self.text(k - 1) in ("__align__", "alignas", "__attribute__")

    def shared(self, scopes):
        for k in range(len(self.real)):
            if self.text(k) != "__shared__":
                continue
            first, end = self.statement(k)
            words = [self.text(i) for i in range(first, end)]
            if "extern" in words and "[" in words:
                while self.text(first) in ("#", "define"):
                    first += 1
                in_file = scopes[k] and not self.token(k).directive
                self.dynamic(first + words.index("extern"), end, in_file)
                continue
            if self.hopper and not self.token(k).directive and self.place_shared(first, end):
                continue
            for i in range(first, end):
                if self.text(i) == "static" and i < k + 3:
                    self.token(i).out = ""
                elif self.text(i) == "alignas":
                    self.token(i).out = "__align__"
            for i in range(first, end):
                self.statics.setdefault(self.text(i), self.token(i).line)
            self.initialise(k, end)

    def place_shared(self, first, end):
        """Static variables in the shared memory of their block, not in that of the thread of the
        system, which the blocks of a cluster have in common. Whether they are variables."""
        if self.text(end) != ";":
            return False
        words, names, i, angle = [], [], first, 0
        while i < end:
            text = self.text(i)
            if text in ("__align__", "alignas", "__attribute__"):
                close = self.closing(i + 1)
                words.append(self.source(i, close + 1))
                i = close
            elif text == "{" and {"struct", "union"} & set(words) or text == "[":
                close = self.closing(i)
                words.append(self.source(i, close + 1))
                i = close
            elif text in OPEN:
                return False  # no variable, or one with a value
            elif text not in ("__shared__", "static", "extern", "volatile"):
                words.append(text)
            angle += {"<": 1, ">": -1, ">>": -2}.get(text, 0)
            after = self.text(i + 1)
            if self.is_name(i) and after in ("[", ",", ";") and angle <= 0:
                names.append(text)
            i += 1
        self.count += 1
        kind = f"lab_shared_{self.count}"
        const = "volatile " if "volatile" in (self.text(i) for i in range(first, end)) else ""
        each = "".join(
            f' auto& {name} = ::lab_cuda::named_shared({kind}_here.{name}, "{name}");'
            for name in names
        )
        here = f"::lab_cuda::Placed<{kind}>::here()"
        self.replace(first, end + 1, f"struct {kind} {{ {const}{' '.join(words)}; }}; "
                     f"{kind}& {kind}_here = {here};{each} {MOST_STATIC.format(kind)}")  # fmt: skip
        return True

    def kernels(self):
        """Kernels say their __cluster_dims__ when they are asked."""
        for k in range(len(self.real)):
            if self.text(k) != "__global__":
                continue
            sizes, i = "", k + 1
            while self.same_directive(k, i) and self.text(i) not in ("{", ";"):
                close = self.closing(i) if self.text(i) == "(" else None
                if close and self.text(i - 1) == "__cluster_dims__":
                    sizes = self.source(i + 1, close)
                i = (close or i) + 1
            if self.same_directive(k, i) and self.text(i) == "{":
                self.token(i).out += f" LAB_CUDA_KERNEL({sizes})"

    def initialise(self, k, end):
        """Zeros, which the lab does not count as written: for arrays of classes compilers then emit
        no code at the first use."""
        if self.text(end) != ";":
            return
        i, angle, valued = k, 0, False
        while i <= end:
            text = self.text(i)
            if text in OPEN:
                if text == "(" and not self.is_alignment(i):
                    return  # no variable
                i = self.closing(i) or end
            elif text in ("<", ">", ">>"):
                angle += {"<": 1, ">": -1, ">>": -2}[text]
            elif text == "=":
                valued = True
            elif text in (",", ";") and angle <= 0:
                if not valued and (self.is_name(i - 1) or self.text(i - 1) == "]"):
                    self.token(i).out = f" = {{}}{text}"
                valued = False
            i += 1

    def dynamic(self, first, end, at_file_scope):
        """extern __shared__ T name[];"""
        words, i = [], first
        while i < end:
            if self.text(i) in ("__align__", "alignas", "__attribute__"):
                i = self.closing(i + 1)
            elif self.text(i) not in ("extern", "__shared__", "static"):
                words.append(self.text(i))
            i += 1
        bracket = words.index("[")
        name, kind = words[bracket - 1], " ".join(words[: bracket - 1])
        dimensions = "".join(words[words.index("]") + 1 :])
        if at_file_scope:
            value = f"::lab_cuda::add_dynamic_shared(&{name})"
        else:
            value = "::lab_cuda::dynamic_shared()"
        static = "static " if at_file_scope else ""
        pointer = f"{kind} (*{name}){dimensions}"
        label = self.symbol(name, static) if at_file_scope else ""
        self.replace(first, end, f"{static}{pointer}{label} = ({kind} (*){dimensions}){value}")

    # ------------------------------------------------------------ variables of the device

    def scopes(self):
        """Of each token, whether it stands in no function and no class."""
        result, stack = [], []
        classes = []  # whether each brace around is that of a namespace or class
        begin = 0  # of what stands before a brace
        for k in range(len(self.real)):
            text = self.text(k)
            result.append(all(stack))
            if self.token(k).directive:
                if not self.same_directive(k, k + 1):
                    begin = k + 1
                continue
            if text == "{":
                head = [self.text(i) for i in range(begin, k)]
                of_function = self.is_function(begin, k)
                if of_function and all(classes):
                    self.for_host(k, head)
                stack.append(
                    "namespace" in head[:2]
                    or (head[:1] == ["extern"] and head[1:2] in (['"C"'], ['"C++"']) and
                        len(head) == 2)
                )  # fmt: skip
                calls = [i for i in range(begin, k) if self.text(i) == "("]
                of_class = all(self.is_alignment(i) for i in calls) and (
                    not {"struct", "class", "union"}.isdisjoint(head)
                )
                classes.append(stack[-1] or of_class)
                begin = k + 1
            elif text == "}":
                if stack:
                    stack.pop()
                    classes.pop()
                begin = k + 1
            elif text == ";":
                begin = k + 1
        return result

    def is_function(self, begin, k):
        """Whether the brace at k, with a head from `begin` on, opens a function that has a type."""
        while k > begin and self.text(k - 1) in ("const", "noexcept", "override", "final"):
            k -= 1
        first = next((i for i in range(begin, k) if self.text(i) in ("(", "=")), k)
        return (
            self.text(k - 1) == ")" and self.text(first) == "(" and first > begin + 1
            and self.is_name(first - 1) and not self.is_alignment(first)
        )  # fmt: skip

    def for_host(self, k, head):
        """A function that no kernel may call says so when one does. An unknown word in capitals may
        be a macro with __device__."""
        name = head[head.index("(") - 1]
        words = {word for word in head if re.fullmatch(r"[A-Z][A-Z0-9_]+", word)} - {name}
        if not (self.marks | set(FOR_KERNELS) | words) & set(head) and name not in self.device:
            self.token(k).out += f' LAB_CUDA_OF_HOST("{name}")'
        else:
            self.heap(k, self.closing(k) or k)

    def heap(self, first, end):
        """In a function for kernels new, malloc() and free() use the heap of the device."""
        for k in range(first, end):
            text, before, after = (self.text(i) for i in (k, k - 1, k + 1))
            if text == "new" and after != "(" and before != "operator":
                self.token(k).out = "new (::lab_cuda::heap_of_kernels)"
            elif text in ("malloc", "free") and after == "(" and before not in (".", "->", "::"):
                self.token(k).out = f"::lab_cuda::heap_{text}"

    def variables(self, scopes):
        k = 0
        while k < len(self.real):
            if self.text(k) in VARIABLE and scopes[k] and not self.token(k).directive:
                first, end = self.statement(k)
                if self.declares_variable(first, end):
                    self.variable(first, end)
                    k = end
            k += 1

    def device_names(self):
        """The names in declarations of variables of the device, and maybe others."""
        words, result = self.marks | set(VARIABLE), set()
        for k in range(len(self.real)):
            i = k + 1
            if self.text(k) not in words:
                continue
            while self.same_directive(k, i) and self.text(i) not in (";", "{", "("):
                if self.is_name(i):
                    result.add(self.text(i))
                i = (self.closing(i + 1) or i) + 1 if self.is_alignment(i + 1) else i + 1
        return result

    def declares_variable(self, first, end):
        if self.text(first) in ("template", "typedef", "using", "friend"):
            return False
        angle, i = 0, first
        while i < end:
            text = self.text(i)
            if text in ("const", "constexpr", "class", "enum", "operator"):
                return False
            if text in ("struct", "union"):
                i = self.end_of_type(i) - 1
                if i + 1 >= end:
                    return False  # no variable of it
            if text in ("__align__", "alignas", "__attribute__", "__launch_bounds__", "decltype"):
                i = self.closing(i + 1) or end
            elif text in ("<", ">", ">>"):
                angle += {"<": 1, ">": -1, ">>": -2}[text]
            elif text in ("=", "[", "{") and angle == 0:
                return self.is_name(i - 1)
            elif text == "(":
                return False
            i += 1
        return end < len(self.real) and self.text(end) == ";"

    def end_of_type(self, k):
        """Behind the struct at k and its members, if they stand here."""
        k += 1 + self.is_name(k + 1)
        return (self.closing(k) or k) + 1 if self.text(k) == "{" else k

    def variable(self, first, end):
        """__device__ T a[2] = {1, 2}, *b; memory of the device with these images."""
        words, attribute, i = [], "", first
        kinds = [self.text(i) for i in range(first, end)]
        while i < end:
            if self.text(i) in ("__align__", "alignas", "__attribute__"):
                close = self.closing(i + 1)
                attribute = self.source(i, close + 1).replace("alignas", "__align__") + " "
                i = close
            elif self.text(i) in ("struct", "union"):
                words.append(self.source(i, self.end_of_type(i)))
                i = self.end_of_type(i) - 1
            elif self.text(i) not in DROPPED:
                words.append(self.text(i))
            i += 1
        declarators, depth, angle = [[]], 0, 0
        for word in words:
            depth += (word in OPEN) - (word in CLOSE)
            angle += {"<": 1, ">": -1, ">>": -2}.get(word, 0) if depth == 0 else 0
            if word == "," and depth == 0 and angle <= 0:
                declarators.append([])
            else:
                declarators[-1].append(word)
        stop = next((i for i, w in enumerate(declarators[0]) if w in ("[", "=", "{")), None)
        head = declarators[0][:stop]
        name_at = len(head) - 1
        base_end = name_at
        while base_end > 0 and head[base_end - 1] == "*":
            base_end -= 1
        base, declarators[0] = " ".join(head[:base_end]), declarators[0][base_end:]
        static = "static " if "static" in kinds else ""
        kind = "Managed" if "__managed__" in kinds else "Device"
        kind = "Constant" if "__constant__" in kinds else kind
        text = []
        for words in declarators:
            at = next(i for i, word in enumerate(words) if word != "*")
            stars, name, rest = " ".join(words[:at]), words[at], " ".join(words[at + 1 :])
            if "extern" in kinds and "=" not in words:
                text.append(f"extern {base} {stars} (&{name}){rest}{self.symbol(name, '')}")
                continue
            image = f"lab_image_{name}"
            text.append(f"static {attribute}{base} {stars} {image} {rest}")
            text.append(
                f"{static}decltype({image})& {name}{self.symbol(name, static)} = "
                f'::lab_cuda::variable({image}, "{name}", ::lab_cuda::Variable::k{kind})'
            )
        self.replace(first, end, "; ".join(text))

    def symbol(self, name, static):
        """The name for the linker, by which the lab knows what is its own."""
        number = f".{abs(hash((str(self.where), self.count)))}" if static else ""
        self.count += 1
        return f' __asm__("lab_cuda.{name}{number}")'

    # ------------------------------------------------------------ the rest

    def words_from(self, first, end):
        """Tokens as macros.py has them."""
        return [
            (self.token(k).kind, self.text(k), self.real[k] > self.real[k - 1] + 1)
            for k in range(first, end)
        ]

    def definitions(self):
        """Notes the macros of this file."""
        for k in range(1, len(self.real) - 1):
            if self.text(k) != "define" or not self.token(k).directive:
                continue
            if self.text(k - 1) != "#" or not self.same_directive(k, k + 1):
                continue
            parameters, begin = None, k + 2
            if (
                self.same_directive(k, begin)
                and self.text(begin) == "("
                and (self.real[begin] == self.real[begin - 1] + 1)
            ):
                close = self.closing(begin) or begin
                inner = self.source(begin + 1, close).replace("...", "__VA_ARGS__")
                parameters = [name.strip() for name in inner.split(",") if name.strip()]
                begin = close + 1
            end = begin
            while self.same_directive(k, end):
                end += 1
            self.macros.define(self.text(k + 1), parameters, self.words_from(begin, end))

    def callers(self):
        """Functions with inline assembly take the line of their call, for findings; so do short
        ones that call such a function once. Those that are declared elsewhere, or that another type
        of theirs would break, stay as they are."""
        self.called, found = [], []  # the latter: name, bracket of parameters, body, takes it
        for k in range(1, len(self.real)):
            if self.text(k) != "(" or not self.is_name(k - 1) or self.token(k).directive:
                continue
            close = self.closing(k)
            begin = close + 1 if close else k
            while self.text(begin) in ("const", "noexcept"):
                begin += 1
            if self.text(begin) not in ("{", ";") or not close:
                continue
            first, _ = self.statement(k - 1)
            if not ({"__device__"} | self.marks) & {self.text(i) for i in range(first, k - 1)}:
                continue
            end = self.closing(begin) or begin
            if self.text(begin) == ";" or not self.may_take_line(first, k, begin, end):
                self.macros.declared.add(self.text(k - 1))
            else:
                found.append((self.text(k - 1), k, begin, end))
        taken = {}  # by name: how many parameters
        for name, k, begin, end in found:
            if name not in self.macros.declared and self.has_assembly(begin, end):
                taken.setdefault(name, set()).add(self.arguments(k))
                self.take_line(k, begin, end)
        short = [one for one in found if one[3] - one[2] < 40 and one[0] not in taken]
        for _, k, begin, end in (one for one in short if one[0] not in self.macros.declared):
            calls = [i for i in range(begin, end) if self.text(i) in taken]
            if len(calls) == 1 and self.text(calls[0] + 1) == "(":
                call = calls[0] + 1
                if taken[self.text(call - 1)] == {self.arguments(call)}:
                    self.add_argument(call, "lab_where")
                    self.take_line(k, begin, end)

    def may_take_line(self, first, k, begin, end):
        """Whether a function, with parameters at k, may have another one."""
        head = {self.text(i) for i in range(first, k - 1)}
        parameters = {self.text(i) for i in range(k, begin)}
        inner = any(  # a lambda does not see it
            self.text(i) == "]" and self.text(i + 1) in ("(", "{", "mutable")
            for i in range(begin, end)
        )
        return (
            {"__global__", "~", "operator", "virtual", "friend"}.isdisjoint(head) and not inner
            and {"...", "."}.isdisjoint(parameters) and self.source(k, k + 3) != "(void)"
            and self.source(first, first + 3) not in ("template<>", "template <>")
        )  # fmt: skip

    def has_assembly(self, begin, end):
        """Whether there is any that says something."""
        words = [self.text(i) for i in range(begin, end)]
        if any(word in macros.ASM or self.macros.is_asm(word) for word in words):
            return any("." in word and word[-1] == '"' for word in words)
        return any(self.macros.needs(word) for word in words)

    def arguments(self, k):
        """How many stand in the bracket at k."""
        close, depth, count = self.closing(k), 0, 0
        for i in range(k + 1, close):
            depth += (self.text(i) in OPEN) - (self.text(i) in CLOSE)
            count += self.text(i) == "," and depth == 0
        return count + (close > k + 1)

    def add_argument(self, k, text):
        close = self.closing(k)
        comma = ", " if close > k + 1 else ""
        self.token(close).out = f"{comma}{text})"

    def take_line(self, k, begin, end):
        self.add_argument(k, "LAB_CUDA_WHERE")
        self.called.append((begin, end))

    def assembly(self):
        self.callers()
        k = 0
        while k < len(self.real):
            k = self.statement_of_assembly(k) or k + 1

    def statement_of_assembly(self, k):
        """Translates the asm statement at k, or a macro that is one; where it ends."""
        text, known = self.text(k), self.macros
        if self.text(k - 1) == "define" or not self.is_name(k):
            return None
        if text in macros.ASM or known.is_asm(text):
            i = k + 1
            while self.text(i) in macros.VOLATILE:
                i += 1
            end = self.closing(i) if self.text(i) == "(" else None
            if end is None:
                return None
            inside = self.words_from(i + 1, end)
            if not macros.is_literal(inside):
                if self.token(k).directive:
                    return end  # where the macro is used
                inside = [token[:3] for token in known.expand(inside)]
            translated = ptx.translate(inside)
            if translated is not None:
                self.replace(k, end + 1, self.at_call(translated, k))
            return end
        if text not in known.known or self.text(k + 1) != "(" or self.token(k).directive:
            return None
        end = self.closing(k + 1)
        if end is None or not any(known.needs(self.text(i)) for i in range(k, end)):
            return None
        expanded = Source(macros.text_of(known.expand(self.words_from(k, end + 1))), self.where)
        expanded.assembly()
        self.replace(k, end + 1, self.at_call(expanded.result(), k))
        return end

    def at_call(self, text, k):
        """A translated statement with the line that its findings have."""
        if any(begin < k < end for begin, end in self.called):
            return text.replace(HERE, "lab_where")
        return text

    def words(self):
        for k in range(len(self.real)):
            text = self.text(k)
            if text == "__noinline__" and self.text(k - 1) != "(":
                self.token(k).out = "__attribute__((noinline))"
            elif text == "main" and self.text(k + 1) == "(" and self.text(k - 1) == "void":
                self.token(k - 1).out = "int"
            elif self.is_name(k) and BY_POINTER.match(text):
                # The types of a kernel's parameters get lost in a void*.
                for i in range(k + 2, min(k + 12, len(self.real))):
                    cast = self.source(i, i + 4)
                    if cast in ("(void*)", "(void *)"):
                        self.replace(i, i + 4, "")
                    elif self.source(i, i + 5) in ("(const void*)", "(const void *)"):
                        self.replace(i, i + 5, "")

    def built_ins(self):
        """A variable or member of the host that is called like a built-in variable of kernels gets
        a name of its own."""
        for k in range(len(self.real)):
            if self.text(k) not in BUILT_IN:
                continue
            name = self.text(k)
            last = k if self.text(k - 1) in (".", "->") else self.scope_of(k)
            for i in range(k, k if last is None else last + 1):
                if self.text(i) == name:
                    self.token(i).text = self.token(i).out = f"lab_{name}"

    def scope_of(self, k):
        """The last token of the scope of the variable that is declared at k; None where k declares
        nothing, or something outside of functions and classes."""
        i = k - 1
        while self.text(i) in ("&", "*"):
            i -= 1
        if self.text(i) == "," and i == k - 1:
            while i >= 0 and self.text(i) not in (";", *OPEN):
                if self.text(i) == "}" and self.text(i + 1) != ",":
                    break
                i = (self.opening(i) or 0) - 1 if self.text(i) in CLOSE else i - 1
            if self.text(i + 1) not in ("dim3", "const", "uint3") or self.text(i) in ("(", "["):
                return None
        elif not self.is_name(i) or self.text(i) in KEYWORDS:
            return None
        elif self.token(k).directive and self.text(i - 1) == "define":
            return None  # the name of a macro
        elif i < k - 1 and self.text(i) not in ("dim3", "uint3", "int3", "const"):
            return None  # a * b
        depth = 0
        for i in range(k, len(self.real)):
            depth += (self.text(i) in OPEN) - (self.text(i) in CLOSE)
            if depth < 0 or not self.same_directive(k, i):
                break
        else:
            return None
        if self.text(i) != ")":
            return i - 1
        while self.text(i) not in ("{", ";"):  # a parameter
            i += 1
            if i >= len(self.real):
                return None
        return self.closing(i) if self.text(i) == "{" else i

    def compare_and_swap(self):
        """`old = *p` before a loop of atomicCAS(p, ...): what was read is checked by it."""
        for k in range(len(self.real) - 4):
            if [self.text(k), self.text(k + 1)] != ["=", "*"] or not self.is_name(k + 2):
                continue
            if self.text(k + 3) not in (",", ";"):
                continue
            name = self.text(k + 2)
            for i in range(k + 4, min(k + 60, len(self.real) - 2)):
                if self.text(i) == "atomicCAS" and self.text(i + 2) == name:
                    self.replace(k + 1, k + 3, f"::lab_cuda::before_swap({name})")
                    break

    def unseen(self):
        """Calls of the runtime that are a whole statement: the lab looks at what they return."""
        for k in range(1, len(self.real) - 1):
            if self.text(k) not in RETURN_ERRORS or self.text(k + 1) != "(":
                continue
            before, end = self.text(k - 1), self.closing(k + 1)
            if end is None or self.text(end + 1) != ";":
                continue
            if before == ")":
                opening = self.opening(k - 1)
                if opening is None or self.text(opening - 1) not in ("if", "for", "while"):
                    continue
            elif before not in (";", "{", "}", "else", "do"):
                continue
            token = self.token(k)
            token.out = f'::lab_cuda::unseen("{token.text}", {token.out}'
            self.token(end).out += ")"

    def rewrite(self, names=()):
        """The text in C++; `names` are of the device in other files."""
        self.device = self.device_names() | set(names)
        scopes = self.scopes()
        self.built_ins()
        self.assembly()
        self.variables(scopes)
        self.shared(scopes)
        if self.hopper:
            self.kernels()
        self.words()
        self.compare_and_swap()
        self.unseen()
        self.by_reference = self.references()
        self.launches()
        return self.result()
