"""Inline PTX as calls of C++: the instructions that kernels are commonly written with.

Each instruction becomes a call of a function in include/lab_cuda/ptx.h; one that is not known
becomes an error of the compiler with its text.
"""

import re

from common.lab.cuda import hopper_ptx
from common.lab.cuda.hopper_ptx import elements, split

TYPES = {
    "f32": "float", "f64": "double", "s8": "signed char", "u8": "unsigned char",
    "s16": "short", "u16": "unsigned short", "b16": "unsigned short", "s32": "int",
    "u32": "unsigned", "b32": "unsigned", "s64": "long long", "u64": "unsigned long long",
    "b64": "unsigned long long", "f16": "__half", "bf16": "__nv_bfloat16", "pred": "bool",
    "b8": "unsigned char",
}  # fmt: skip
SPECIAL = {
    "laneid": "::lab_cuda::thread().lane",
    "warpid": "::lab_cuda::thread().number / 32",
    "smid": "::lab_cuda::streaming_multiprocessor()",
    "nsmid": "2",
    "clock": "::lab_cuda::clock_now()",
    "clock64": "::lab_cuda::clock_now()",
    "globaltimer": "::lab_cuda::clock_now()",
    "lanemask_eq": "1u << ::lab_cuda::thread().lane",
    "lanemask_lt": "(1u << ::lab_cuda::thread().lane) - 1",
    "lanemask_le": "(2u << ::lab_cuda::thread().lane) - 1",
    "lanemask_gt": "~((2u << ::lab_cuda::thread().lane) - 1)",
    "lanemask_ge": "~((1u << ::lab_cuda::thread().lane) - 1)",
    "dynamic_smem_size": "::lab_cuda::dynamic_shared_bytes()",
}
for _axis in "xyz":
    SPECIAL[f"tid.{_axis}"] = f"threadIdx.{_axis}"
    SPECIAL[f"ntid.{_axis}"] = f"blockDim.{_axis}"
    SPECIAL[f"ctaid.{_axis}"] = f"blockIdx.{_axis}"
    SPECIAL[f"nctaid.{_axis}"] = f"gridDim.{_axis}"
SPECIAL |= hopper_ptx.SPECIAL
HERE = "::lab_cuda::here()"
T = r"(?P<t>[fsub]\d+|bf16|b8)"
MODES = r"(?:\.(?:rn|rz|rm|rp|rni|rzi|rmi|rpi|ftz|sat|approx|full|lo|wide|relu))*"


def cast(kind, value):
    return f"::lab_cuda::ptx::as<{TYPES[kind]}>({value})"


def assign(target, value):
    return f"::lab_cuda::ptx::set({target}, {value});"


def binary(operator):
    def write(m, ops):
        return assign(ops[0], f"{cast(m['t'], ops[1])} {operator} {cast(m['t'], ops[2])}")

    return write


def function(name, count):
    def write(m, ops):
        values = ", ".join(cast(m["t"], op) for op in ops[1 : 1 + count])
        return assign(ops[0], f"{name}({values})")

    return write


def pairs(name, count):
    """An operation on two numbers of 16 bits at once."""

    def write(m, ops):
        kind = "__half2" if m["h"] == "f16x2" else "__nv_bfloat162"
        values = ", ".join(f"::lab_cuda::ptx::as<{kind}>({op})" for op in ops[1 : 1 + count])
        return assign(ops[0], f"{name}({values})")

    return write


def nothing(_m, _ops):
    return ";"


def pointer(space, address):
    inner = address[1:-1] if address.startswith("[") else address
    inner = re.sub(r"(\S)\s*\+\s*(-?\w+)$", r"\1 + \2", inner)
    if "shared" in space:
        return f"::lab_cuda::shared_pointer({inner})"
    return f"::lab_cuda::ptx::global({inner})"


def load(m, ops):
    into, kind = elements(ops[0]), TYPES[m["t"]]
    where = pointer(m["space"] or "", ops[1])
    if "acquire" in m["how"] or "relaxed" in m["how"]:
        order = "__ATOMIC_ACQUIRE" if "acquire" in m["how"] else "__ATOMIC_RELAXED"
        order += ", true" if ".cta" in m["how"] else ""
        flag = f"static_cast<const {kind}*>({where})"
        return assign(into[0], f"::lab_cuda::load_flag<{order}>({flag}, {HERE})")
    # As CUB polls flags: past the L1 cache.
    if len(into) == 1 and re.search(r"\.(volatile|cg|cv)\b", m[0]):
        return assign(into[0], f"*static_cast<const volatile {kind}*>({where})")
    lines = [f"{kind} lab_v[{len(into)}]; ::lab_cuda::ptx::load(lab_v, {where}, {HERE});"]
    if ".nc" in m[0]:
        lines.insert(
            0, f"::lab_cuda::reads_constant({where}, sizeof({kind}) * {len(into)}, {HERE});"
        )
    lines += [assign(name, f"lab_v[{i}]") for i, name in enumerate(into)]
    return f"{{ {' '.join(lines)} }}"


def store(m, ops):
    values, kind = elements(ops[1]), m["t"]
    where = pointer(m["space"] or "", ops[0])
    if "release" in m["how"] or "relaxed" in m["how"]:
        order = "__ATOMIC_RELEASE" if "release" in m["how"] else "__ATOMIC_RELAXED"
        flag = f"static_cast<{TYPES[kind]}*>({where})"
        order += ", true" if ".cta" in m["how"] else ""
        return f"::lab_cuda::store_flag<{order}>({flag}, {cast(kind, values[0])});"
    inner = ", ".join(cast(kind, value) for value in values)
    return (f"{{ {TYPES[kind]} lab_v[{len(values)}] = {{{inner}}}; "
            f"::lab_cuda::ptx::store({where}, lab_v, {HERE}); }}")  # fmt: skip


ATOMICS = {"add": "Add", "min": "Min", "max": "Max", "and": "And", "or": "Or", "xor": "Xor",
           "exch": "Exch", "cas": "CAS", "inc": "Inc", "dec": "Dec"}  # fmt: skip


def atomic(m, ops):
    target = None
    if m["what"] == "atom":
        target, *ops = ops
    where = pointer(m["how"], ops[0])
    of_block = ".cta" in m["how"]
    all_blocks = "false" if of_block else ""
    fence = f"::lab_cuda::fence({all_blocks}); " if re.search("release|acq_rel", m["how"]) else ""
    after = f" ::lab_cuda::fence({all_blocks});" if "acq" in m["how"] else ""
    kind, scope = TYPES[m["t"]], "_block" if of_block else ""
    # An operation on several elements is atomic for each of them. cas has two values.
    each = [[value] for value in elements(ops[1])] if len(ops) == 2 else [ops[1:]]
    calls = ""
    for i, values in enumerate(each):
        values = ", ".join(cast(m["t"], value) for value in values)
        to = f"static_cast<{kind}*>({where}) + {i}"
        call = f"atomic{ATOMICS[m['op']]}{scope}({to}, {values}, {HERE})"
        calls += assign(elements(target)[i], call) if target else call + ";"
    return f"{{ {fence}{calls}{after} }}"


def ldmatrix(m, ops):
    into = elements(ops[0])
    transposed = "true" if m["trans"] else "false"
    lines = [f"unsigned lab_r[{m['n']}]; ::lab_cuda::ptx::ldmatrix(lab_r, {m['n']}, {transposed}, "
             f"{pointer('shared', ops[1])}, {HERE});"]  # fmt: skip
    lines += [assign(name, f"lab_r[{i}]") for i, name in enumerate(into)]
    return f"{{ {' '.join(lines)} }}"


def mma(m, ops):
    d, a, b, c = (elements(op) for op in ops[:4])
    sums = "float" if m["d"] == "f32" else "unsigned" if m["d"] == "f16" else "int"
    element = {"f16": "kHalf", "bf16": "kBfloat16", "tf32": "kTf32", "s8": "kInt8"}[m["a"]]

    def array(name, kind, values):
        inner = ", ".join(f"::lab_cuda::ptx::as<{kind}>({value})" for value in values)
        return f"{kind} {name}[{len(values)}] = {{{inner}}};"

    lines = [array("lab_a", "unsigned", a), array("lab_b", "unsigned", b), array("lab_c", sums, c)]
    lines.append(f"{sums} lab_d[{len(d)}];")
    lines.append(f"::lab_cuda::ptx::mma(::lab_cuda::ptx::Element::{element}, {m['k']}, lab_a, "
                 f"lab_b, lab_c, lab_d, {HERE});")  # fmt: skip
    lines += [assign(name, f"lab_d[{i}]") for i, name in enumerate(d)]
    return f"{{ {' '.join(lines)} }}"


def cp_async(_m, ops):
    kept = ops[3] if len(ops) > 3 else ops[2]
    return (f"::lab_cuda::ptx::cp_async({pointer('shared', ops[0])}, {pointer('', ops[1])}, "
            f"{ops[2]}, {kept}, {HERE});")  # fmt: skip


def special(m, ops):
    return assign(ops[0], SPECIAL[ops[1]]) if ops[1] in SPECIAL else move(m, ops)


def move(m, ops):
    into, values = elements(ops[0]), elements(ops[1])
    if len(into) > 1:
        names = ", ".join(into)
        return f"::lab_cuda::ptx::unpack({values[0]}, {names});"
    if len(values) > 1:
        return f"::lab_cuda::ptx::pack({into[0]}, {', '.join(values)});"
    return assign(into[0], cast(m["t"], values[0]) if m["t"] in TYPES else values[0])


def convert(m, ops):
    to, source = m["to"], m["from"]
    if to in ("f16x2", "bf16x2"):
        kind = "__half2" if to == "f16x2" else "__nv_bfloat162"
        return assign(ops[0], f"{kind}({cast('f32', ops[2])}, {cast('f32', ops[1])})")
    if to == "tf32":
        return assign(ops[0], f"::lab_cuda::ptx::tf32({cast('f32', ops[1])})")
    value = cast(source, ops[1])
    if to in ("f16", "bf16") or source in ("f16", "bf16"):
        return assign(ops[0], f"static_cast<{TYPES[to]}>(static_cast<float>({value}))")
    mode = re.search(r"\.r([nzmp])i", m["mode"])
    if mode:
        value = {"n": "std::nearbyint", "z": "std::trunc", "m": "std::floor", "p": "std::ceil"}[
            mode[1]
        ] + f"({value})"
    return assign(ops[0], f"static_cast<{TYPES[to]}>({value})")


COMPARE = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


def setp(m, ops):
    return assign(ops[0], f"{cast(m['t'], ops[1])} {COMPARE[m['op']]} {cast(m['t'], ops[2])}")


def selp(m, ops):
    return assign(ops[0], f"{ops[3]} ? {cast(m['t'], ops[1])} : {cast(m['t'], ops[2])}")


def bar(_m, ops):
    threads = ops[1] if len(ops) > 1 else "0"
    return f"::lab_cuda::named_barrier({ops[0]}, {threads}, true, {HERE});"


INSTRUCTIONS = [
    # Assemblers take its qualifiers in any order.
    (r"ldmatrix(?=.*\.x(?P<n>[124])\b)(?=(.*(?P<trans>\.trans)\b)?)"
     r"(\.(sync|aligned|m8n8|x[124]|trans|shared|shared::cta|b16))+", ldmatrix),
    (r"mma\.sync\.aligned\.m16n8k(?P<k>8|16|32)\.row\.col\.(?P<d>f32|f16|s32)\."
     r"(?P<a>f16|bf16|tf32|s8)\.(f16|bf16|tf32|s8)\.(f32|f16|s32)", mma),
    (r"cp\.async\.c[ag]\.shared(::cta)?\.global(\.L2::(128|256|64)B|\.L2::cache_hint)?", cp_async),
    (r"cp\.async\.commit_group", lambda m, ops: "::lab_cuda::commit_copies();"),
    (r"cp\.async\.wait_group", lambda m, ops: f"::lab_cuda::wait_copies({ops[0]});"),
    (r"cp\.async\.wait_all", lambda m, ops:
     "{ ::lab_cuda::commit_copies(); ::lab_cuda::wait_copies(0); }"),
    (r"ld(?P<how>(\.(acquire|relaxed|volatile|weak|gpu|cta|sys))*)(?P<space>\.(global|shared"
     r"(::cta)?|const))?(\.(nc|ca|cg|cs|lu|cv|L1::\w+|L2::\w+))*(\.v[24])?\." + T, load),
    (r"st(?P<how>(\.(release|relaxed|volatile|weak|gpu|cta|sys))*)(?P<space>\.(global|shared"
     r"(::cta)?))?(\.(wb|cg|cs|wt|L1::\w+|L2::\w+))*(\.v[24])?\." + T, store),
    (r"(?P<what>atom|red)(?P<how>(\.(relaxed|acquire|release|acq_rel|gpu|cta|sys|global|shared"
     r"(::cta)?))*)\.(?P<op>\w+?)(\.noftz)?(\.v[248])?\." + T, atomic),
    (r"mov\." + T, special),
    (r"cvt(?P<mode>(\.(rn|rz|rm|rp|rni|rzi|rmi|rpi|rna|ftz|sat|relu|satfinite))*)\."
     r"(?P<to>\w+)\.(?P<from>\w+)", convert),
    (r"cvta(\.to)?\.shared\.u(32|64)", lambda m, ops:
     assign(ops[0], f"::lab_cuda::shared_address(::lab_cuda::ptx::global({ops[1]}))")),
    (r"cvta(\.to)?\.global\.u64", lambda m, ops: assign(ops[0], ops[1])),
    (r"setp\.(?P<op>eq|ne|lt|le|gt|ge)(\.ftz)?\." + T, setp),
    (r"selp\." + T, selp),
    (r"bra(\.uni)?", lambda m, ops: f"goto lab_at_{ops[0]};"),
    (r"(bar|barrier)(\.cta)?\.sync(\.aligned)?", bar),
    (r"(bar|barrier)(\.cta)?\.arrive(\.aligned)?", lambda m, ops:
     f"::lab_cuda::named_barrier({ops[0]}, {ops[1]}, false, {HERE});"),
    (r"bar\.warp\.sync", lambda m, ops: f"::lab_cuda::sync_warp({ops[0]}, {HERE});"),
    (r"membar\.cta|fence\.(acq_rel|sc)\.cta", lambda m, ops: "::lab_cuda::fence(false);"),
    (r"membar\.(gl|sys)|fence\.(acq_rel|sc)\.(gpu|cluster|sys)", lambda m, ops:
     "::lab_cuda::fence();"),
    (r"griddepcontrol\.wait", lambda m, ops: "::lab_cuda::wait_for_previous_grids();"),
    (r"(prefetch|prefetchu|discard|griddepcontrol|nanosleep)\b.*", nothing),
    (r"createpolicy\b.*", lambda m, ops: assign(ops[0], "0ull")),
    (r"trap", lambda m, ops: f"::lab_cuda::stop_kernel(\"trap\", \"trap was executed\", {HERE});"),
    (r"ex2\.approx(\.ftz)?\.(?P<t>f32)", function("std::exp2", 1)),
    (r"lg2\.approx(\.ftz)?\.(?P<t>f32)", function("std::log2", 1)),
    (r"tanh\.approx\.(?P<t>f32)", function("std::tanh", 1)),
    (r"sin\.approx(\.ftz)?\.(?P<t>f32)", function("std::sin", 1)),
    (r"cos\.approx(\.ftz)?\.(?P<t>f32)", function("std::cos", 1)),
    (r"rcp" + MODES + r"\.(?P<t>f32|f64)", function("1 / ", 1)),
    (r"rsqrt" + MODES + r"\.(?P<t>f32|f64)", function("1 / std::sqrt", 1)),
    (r"sqrt" + MODES + r"\.(?P<t>f32|f64)", function("std::sqrt", 1)),
    (r"add" + MODES + r"\.(?P<h>f16x2|bf16x2)", pairs("__hadd2", 2)),
    (r"sub" + MODES + r"\.(?P<h>f16x2|bf16x2)", pairs("__hsub2", 2)),
    (r"mul" + MODES + r"\.(?P<h>f16x2|bf16x2)", pairs("__hmul2", 2)),
    (r"fma" + MODES + r"\.(?P<h>f16x2|bf16x2)", pairs("__hfma2", 3)),
    (r"max\.(?P<h>f16x2|bf16x2)", pairs("__hmax2", 2)),
    (r"add" + MODES + r"\." + T, binary("+")),
    (r"sub" + MODES + r"\." + T, binary("-")),
    (r"mul" + MODES + r"\." + T, binary("*")),
    (r"div" + MODES + r"\." + T, binary("/")),
    (r"and\." + T, binary("&")),
    (r"or\." + T, binary("|")),
    (r"xor\." + T, binary("^")),
    (r"shl\." + T, binary("<<")),
    (r"shr\." + T, binary(">>")),
    (r"(fma|mad)" + MODES + r"\." + T, lambda m, ops: assign(
        ops[0], f"::lab_cuda::ptx::fma({', '.join(cast(m['t'], op) for op in ops[1:4])})")),
    (r"min(\.ftz)?\." + T, function("min", 2)),
    (r"max(\.ftz)?\." + T, function("max", 2)),
    (r"abs(\.ftz)?\." + T, function("std::abs", 1)),
    (r"neg(\.ftz)?\." + T, function("-", 1)),
    (r"not\." + T, function("~", 1)),
    (r"popc\." + T, function("__popcll", 1)),
    (r"brev\.(?P<t>b32)", function("__brev", 1)),
    (r"clz\.(?P<t>b32)", function("__clz", 1)),
    (r"prmt\.(?P<t>b32)", function("__byte_perm", 3)),
    (r"lop3\.b32", lambda m, ops: assign(ops[0], f"::lab_cuda::ptx::lop3({', '.join(ops[1:5])})")),
]  # fmt: skip
INSTRUCTIONS = [(re.compile(pattern), write) for pattern, write in INSTRUCTIONS]
INSTRUCTIONS = hopper_ptx.INSTRUCTIONS + INSTRUCTIONS
LABEL = re.compile(r"([A-Za-z_$][\w$]*)\s*:(?!:)\s*")


def sections(tokens):
    """The template of an asm statement and its operands: [(name, expression)]; None if unknown."""
    parts, depth = [[]], 0
    for kind, text, space in tokens:
        depth += (text in "([{") - (text in ")]}") if len(text) == 1 else 0
        if depth == 0 and text in (":", "::"):
            parts += [[] for _ in text]
            continue
        parts[-1].append((kind, text, space))
    if any(kind not in ("string", "raw") for kind, _, _ in parts[0]):
        return None
    template = "".join(
        re.sub(r'^R"\w*\(|\)\w*"$', "", text) if kind == "raw" else text[1:-1]
        for kind, text, _ in parts[0]
    )
    operands = []
    for part in parts[1:3]:
        depth, name, inner = 0, "", []
        for kind, text, space in part + [("mark", ",", False)]:
            if depth == 0 and text == "[":
                name = None
            elif name is None and kind == "name":
                name = text
            elif depth == 0 and text == ",":
                if inner:
                    operands.append((name or "", "".join(inner[1:-1])))
                name, inner = "", []
            elif text in ("(",) or depth > 0:
                depth += (text == "(") - (text == ")")
                inner.append(f" {text}" if space else text)
                if depth == 0:
                    continue
    return template, operands


def operand(text, operands, names, registers):
    """An operand of an instruction in C++."""
    text = text.strip()
    if text.startswith("{"):
        parts = (operand(part, operands, names, registers) for part in split(text[1:-1]))
        return "{" + "\0".join(parts) + "}"
    if text.startswith("["):
        return "[" + operand(text[1:-1], operands, names, registers) + "]"
    if re.fullmatch(r"%%?[a-z_]\w*(\.[xyz])?", text):
        return text.lstrip("%")

    def one(found):
        word = found[0]
        if word.startswith("%["):
            return f"({operands[names[word[2:-1]]][1]})"
        if word.startswith("%"):
            return f"({operands[int(word[1:])][1]})"
        if word in registers:
            return f"lab_ptx_{word}"
        if re.fullmatch(r"0[fF][0-9a-fA-F]{8}", word):
            return f"::lab_cuda::ptx::as<float>(0x{word[2:]}u)"
        return word

    return re.sub(r"%\[\w+\]|%\d+|[A-Za-z_0-9]\w*", one, text)


def instruction(text, operands, names, registers):
    """One instruction in C++; None where it is not known."""
    found = re.match(r"(?:@(?P<no>!?)(?P<p>[%\w]+)\s+)?(?P<op>[\w.:]+)\s*(?P<rest>.*)$", text, re.S)
    if not found:
        return None
    if found["op"].startswith(".reg"):
        kind = found["op"].split(".")[2] if found["op"].count(".") > 1 else ""
        rest = found["rest"]
        if not kind:
            kind, rest = rest.lstrip(".").split(None, 1)
        new = [name.strip() for name in rest.split(",")]
        registers.update(new)
        if kind not in TYPES:
            return None
        return " ".join(f"{TYPES[kind]} lab_ptx_{name};" for name in new)
    ops = [operand(op, operands, names, registers) for op in split(found["rest"])]
    ops = [op for op in ops if op]
    for pattern, write in INSTRUCTIONS:
        match = pattern.fullmatch(found["op"])
        if match:
            try:
                result = write(match, ops)
            except (KeyError, IndexError, ValueError):
                return None
            if found["p"]:
                condition = operand(found["p"], operands, names, registers)
                result = f"if ({'!' if found['no'] else ''}({condition})) {{ {result} }}"
            return result
    return None


def translate(tokens):
    """An asm statement in C++; None for one that says nothing, or that is not understood at all.

    `tokens` stand between its parentheses: (kind, text, whether there is space before it).
    """
    parsed = sections(tokens)
    if parsed is None:
        return 'static_assert(false, "PTX: an asm() whose text is a macro")'
    template, operands = parsed
    names = {name: i for i, (name, _) in enumerate(operands) if name}
    text = re.sub(r"\\[nt]", "\n", template).replace("\\\n", "\n").replace('\\"', '"')
    text = re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.S).replace("%=", "")
    for names_of in re.findall(r"\.reg\s*\.\w+\s+([^;]*);", text):  # as %p or %%p, too
        for name in re.findall(r"%%?([A-Za-z_]\w*)", names_of):
            text = re.sub(rf"%%?{name}\b", name, text)
    if not text.strip():  # registers are memory here
        return '__asm__ volatile("" ::: "memory")' if operands else None
    registers, lines, labels = set(), [], []
    for part in text.split(";"):
        statement = " ".join(part.split()).lstrip("{} ").strip()
        while label := LABEL.match(statement):
            labels.append(f"lab_at_{label[1]}")
            lines.append(f"{labels[-1]}:;")
            statement = statement[label.end() :].lstrip("{} ")
        if statement.endswith("}") and "{" not in statement:
            statement = statement[:-1].strip()
        if not statement:
            continue
        line = instruction(statement, operands, names, registers)
        if line is None:
            quoted = statement.replace('"', "'").replace("\\", "")
            return f'static_assert(false, "PTX: {quoted}")'
        lines.append(line)
    if labels:
        lines.insert(0, f"__label__ {', '.join(dict.fromkeys(labels))};")
    return f"do {{ {' '.join(lines)} }} while (0)"
