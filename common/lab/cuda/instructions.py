"""The instructions of PTX that kernels are commonly written with, as C++: see ptx.py."""

import re

TYPES = {
    "f32": "float", "f64": "double", "s8": "signed char", "u8": "unsigned char",
    "s16": "short", "u16": "unsigned short", "b16": "unsigned short", "s32": "int",
    "u32": "unsigned", "b32": "unsigned", "s64": "long long", "u64": "unsigned long long",
    "b64": "unsigned long long", "f16": "__half", "bf16": "__nv_bfloat16", "pred": "bool",
    "b8": "unsigned char", "f16x2": "__half2", "bf16x2": "__nv_bfloat162",
}  # fmt: skip
HERE = "::lab_cuda::here()"
SPACE = r"(?:\.shared(?:::(?:cta|cluster))?)"
SCOPE = r"(?:\.(?:release|acquire|relaxed|cta|cluster))*"
LOAD = r"(\.mbarrier::complete_tx::bytes)?"
HINT = r"(?:\.L2::cache_hint)?"
T = r"(?P<t>[fsub]\d+|bf16|b8)"
H = r"(?P<t>f16x2|bf16x2)"
F = r"(?P<t>f32|f64)"
MODES = r"(?:\.(?:rn|rz|rm|rp|rni|rzi|rmi|rpi|ftz|sat|approx|full|lo|wide|relu))*"
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
    "cluster_ctarank": "::lab_cuda::cluster_rank()",
    "cluster_nctarank": "::lab_cuda::cluster_size()",
    "is_explicit_cluster": "::lab_cuda::cluster_size() > 1",
}
for _axis in "xyz":
    _of = f"::lab_cuda::cluster_dims().{_axis}"
    SPECIAL |= {
        f"tid.{_axis}": f"threadIdx.{_axis}",
        f"ntid.{_axis}": f"blockDim.{_axis}",
        f"ctaid.{_axis}": f"blockIdx.{_axis}",
        f"nctaid.{_axis}": f"gridDim.{_axis}",
        f"cluster_ctaid.{_axis}": f"blockIdx.{_axis} % {_of}",
        f"cluster_nctaid.{_axis}": _of,
        f"clusterid.{_axis}": f"blockIdx.{_axis} / {_of}",
        f"nclusterid.{_axis}": f"gridDim.{_axis} / {_of}",
    }


def split(text, mark=","):
    """Splits at marks outside of brackets."""
    parts, depth = [""], 0
    for character in text:
        depth += (character in "([{") - (character in ")]}")
        if character == mark and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]


def elements(op):
    return [part.strip() for part in op[1:-1].split("\0")] if op.startswith("{") else [op]


def pointer(op, function):
    """The pointer for an address, of which some bytes may be added."""
    base, *offset = split(split(op[1:-1])[0] if op.startswith("[") else op, "+")
    return " + ".join([f"::lab_cuda::ptx::{function}({base})", *offset])


def cast(kind, value):
    return f"::lab_cuda::ptx::as<{TYPES[kind]}>({value})"


class Operand(str):
    """One operand. The table below asks for it in a form: {0}, {0:t}."""

    def __new__(cls, text, match=None):
        result = super().__new__(cls, text)
        result.match = match
        return result

    def __format__(self, form):
        if form == "any":  # an address in the space that the instruction names
            form = "shared" if ".shared" in self.match[0] else "global"
        if form in ("shared", "global"):
            return pointer(self, form)
        if form == "tensor":  # [map, {x, y}]
            tensor, at = split(self[1:-1])
            each = ", ".join(f"static_cast<int>({part})" for part in split(at[1:-1]))
            return f"::lab_cuda::ptx::global({tensor}), {{{each}}}"
        if form == "each":  # {a, b}
            return ", ".join(elements(self))
        if form == "t":
            form = self.match["t"]
        return cast(form, self) if form else str(self)


def assign(target, value):
    return f"::lab_cuda::ptx::set({target}, {value});" if target != "_" else f"{value};"


def written(template, match, ops):
    """An instruction by its row of the table: a function, or a text in which `=` means that the
    first operand gets a value, and lab:: the lab's namespace."""
    ops = [Operand(op, match) for op in ops]
    if callable(template):
        return template(match, ops)
    text = template.replace("lab::", "::lab_cuda::").format(*ops, here=HERE)
    return assign(ops[0], text[2:]) if text.startswith("= ") else text


# ---------------------------------------------------------------- those that need more than a text


def arrive(m, ops):
    if ops[0].startswith("["):
        ops = ["_", *ops]
    more = ops[2] if len(ops) > 2 else ("0" if m["tx"] else "1")
    counts = f"{more}, 1" if m["tx"] else f"0, {more}"
    drops = "true" if m["drop"] else "false"
    return assign(ops[0], f"::lab_cuda::arrive_at_barrier({ops[1]:any}, {counts}, {drops}, {HERE})")


def wgmma(m, ops):
    sums, halves = elements(ops[0]), m["d"] == "f16"
    count = int(m["n"]) // (4 if halves else 2)
    if len(sums) != count:
        raise ValueError
    in_registers = ops[1].startswith("{")
    # Elements of an array stay where they are; a parameter may be gone when they are read.
    fragment = [op if "[" in op else f"+{op}" for op in elements(ops[1])] if in_registers else []
    a = f"::lab_cuda::ptx::fragment({', '.join(fragment)})" if in_registers else "nullptr"
    adds, scale_a, scale_b, *transposed = ops[3:]
    transposed_a = "0" if in_registers or not transposed else transposed[0]
    transposed_b = transposed[-1] if transposed else "0"
    flags = (f"::lab_cuda::Wgmma::{m['a']}, ::lab_cuda::Wgmma::{m['b']}, {str(halves).lower()}, "
             f"static_cast<bool>({adds}), "
             f"(({scale_a}) < 0) != (({scale_b}) < 0), ({transposed_a}) != 0, "
             f"({transposed_b}) != 0")  # fmt: skip
    descriptors = f"{'0' if in_registers else f'static_cast<unsigned long long>({ops[1]})'}, " \
                  f"static_cast<unsigned long long>({ops[2]})"  # fmt: skip
    return (f"::lab_cuda::wgmma({{{flags}, {descriptors}}}, "
            f"::lab_cuda::ptx::accumulators({HERE}, {', '.join(sums)}), {count}, {a}, "
            f"{HERE});")  # fmt: skip


def elect(_m, ops):
    lane, chosen = split(ops[0], "|")
    to_lane = "" if lane == "_" else assign(lane, "lab_lane")
    choose = assign(chosen, f"::lab_cuda::elect({ops[1]}, &lab_lane, {HERE})")
    return f"{{ unsigned lab_lane; {choose} {to_lane} }}"


def shuffle(m, ops):
    into, *inside = split(ops[0], "|")
    width, by, how = f"(32 - (({ops[3]}) >> 8 & 31))", f"int({ops[2]})", m["how"]
    name = {"bfly": "_xor", "idx": ""}.get(how, f"_{how}")
    call = f"__shfl{name}_sync({ops[4]}, {ops[1]:b32}, {by}, {width}, {HERE})"
    if not inside:
        return assign(into, call)
    source = {"up": f"lab_lane >= {by}", "down": f"lab_lane + {by} < {width}",
              "bfly": f"(lab_lane ^ {by}) < {width}", "idx": "true"}[how]  # fmt: skip
    return (f"{{ const int lab_lane = ::lab_cuda::thread().lane % {width}; {assign(into, call)} "
            f"{assign(inside[0], source)} }}")  # fmt: skip


def ldmatrix(m, ops):
    transposed = "true" if m["trans"] else "false"
    return f"::lab_cuda::ptx::ldmatrix({transposed}, {ops[1]:shared}, {HERE}, {ops[0]:each});"


def stmatrix(m, ops):
    transposed = "true" if m["trans"] else "false"
    return f"::lab_cuda::ptx::stmatrix({transposed}, {ops[0]:shared}, {HERE}, {ops[1]:each});"


def mma(m, ops):
    d, a, b, c = (elements(op) for op in ops[:4])
    sums = "f32" if m["d"] == "f32" else "u32" if m["d"] == "f16" else "s32"
    element = {"f16": "kHalf", "bf16": "kBfloat16", "tf32": "kTf32", "s8": "kInt8"}[m["a"]]

    def array(name, kind, values):
        inner = ", ".join(cast(kind, value) for value in values)
        return f"{TYPES[kind]} {name}[{len(values)}] = {{{inner}}};"

    lines = [array("lab_a", "u32", a), array("lab_b", "u32", b), array("lab_c", sums, c),
             f"{TYPES[sums]} lab_d[{len(d)}];",
             f"::lab_cuda::ptx::mma(::lab_cuda::ptx::Element::{element}, {m['k']}, lab_a, "
             f"lab_b, lab_c, lab_d, {HERE});",
             *(assign(name, f"lab_d[{i}]") for i, name in enumerate(d))]  # fmt: skip
    return f"{{ {' '.join(lines)} }}"


def cp_async(_m, ops):
    kept = ops[3] if len(ops) > 3 else ops[2]
    return (f"::lab_cuda::ptx::cp_async({ops[0]:shared}, {ops[1]:global}, {ops[2]}, {kept}, "
            f"{HERE});")  # fmt: skip


def load(m, ops):
    into, kind, where = elements(ops[0]), TYPES[m["t"]], f"{ops[1]:any}"
    order = re.search("acquire|relaxed", m["how"])
    if order:
        of_block = ", true" if ".cta" in m["how"] else ""
        flag = f"static_cast<const {kind}*>({where})"
        return assign(
            into[0],
            f"::lab_cuda::load_flag<__ATOMIC_{order[0].upper()}{of_block}>({flag}, {HERE})",
        )
    # As CUB polls flags: past the L1 cache.
    if len(into) == 1 and re.search(r"\.(volatile|cg|cv)\b", m[0]):
        return assign(into[0], f"*static_cast<const volatile {kind}*>({where})")
    read = ""
    if ".nc" in m[0]:
        read = f"::lab_cuda::reads_constant({where}, sizeof({kind}) * {len(into)}, {HERE}); "
    return f"{{ {read}::lab_cuda::ptx::load<{kind}>({where}, {HERE}, {', '.join(into)}); }}"


def store(m, ops):
    kind, where = TYPES[m["t"]], f"{ops[0]:any}"
    order = re.search("release|relaxed", m["how"])
    if not order:
        return f"::lab_cuda::ptx::store<{kind}>({where}, {HERE}, {ops[1]:each});"
    of_block = ", true" if ".cta" in m["how"] else ""
    return (f"::lab_cuda::store_flag<__ATOMIC_{order[0].upper()}{of_block}>("
            f"static_cast<{kind}*>({where}), {ops[1]:t});")  # fmt: skip


ATOMICS = {"add": "Add", "min": "Min", "max": "Max", "and": "And", "or": "Or", "xor": "Xor",
           "exch": "Exch", "cas": "CAS", "inc": "Inc", "dec": "Dec"}  # fmt: skip


def atomic(m, ops):
    target = None
    if m["what"] == "atom":
        target, *ops = ops
    of_block = ".cta" in m["how"]
    fence = f"::lab_cuda::fence({'false' if of_block else ''});"
    kind, scope = TYPES[m["t"]], "_block" if of_block else ""
    # An operation on several elements is atomic for each of them. cas has two values.
    each = [[value] for value in elements(ops[1])] if len(ops) == 2 else [ops[1:]]
    calls = [fence] if re.search("release|acq_rel", m["how"]) else []
    for i, values in enumerate(each):
        values = ", ".join(cast(m["t"], value) for value in values)
        to = f"static_cast<{kind}*>({ops[0]:any}) + {i}"
        call = f"atomic{ATOMICS[m['op']]}{scope}({to}, {values}, {HERE})"
        calls.append(assign(elements(target)[i] if target else "_", call))
    calls += [fence] if "acq" in m["how"] else []
    return f"{{ {' '.join(calls)} }}"


def move(m, ops):
    into, values = elements(ops[0]), elements(ops[1])
    if len(into) > 1:
        return f"::lab_cuda::ptx::unpack({values[0]}, {', '.join(into)});"
    if len(values) > 1:
        return f"::lab_cuda::ptx::pack({into[0]}, {', '.join(values)});"
    return assign(into[0], SPECIAL.get(values[0]) or cast(m["t"], values[0]))


ROUNDED = {"n": "std::nearbyint", "z": "std::trunc", "m": "std::floor", "p": "std::ceil"}


def convert(m, ops):
    to, source = m["to"], m["from"]
    if source in ("e4m3x2", "e5m2x2"):  # by cuda_fp8.h
        decode, codes = f"::lab_cuda::E{source[1:4]}::decode", f"{ops[1]:u32}"
        return assign(ops[0], f"{TYPES[to]}({decode}({codes} & 255), {decode}({codes} >> 8 & 255))")
    if to in ("f16x2", "bf16x2"):
        return assign(ops[0], f"{TYPES[to]}({ops[2]:f32}, {ops[1]:f32})")
    if to == "tf32":
        return assign(ops[0], f"::lab_cuda::ptx::tf32({ops[1]:f32})")
    value, mode = cast(source, ops[1]), re.search(r"\.r([nzmp])i", m["mode"])
    if to in ("f16", "bf16") or source in ("f16", "bf16"):
        value = f"static_cast<float>({value})"
    elif mode:
        value = f"{ROUNDED[mode[1]]}({value})"
    return assign(ops[0], f"static_cast<{TYPES[to]}>({value})")


def bar(_m, ops):
    return f"::lab_cuda::named_barrier({ops[0]}, {[*ops, '0'][1]}, true, {HERE});"


# ---------------------------------------------------------------- the table

BY, SHARED = "gpu|cta|cluster|sys", "shared(::cta|::cluster)?"
LANDED = "lab::commit_copies(); lab::wait_copies(0);"
TO_SHARED = r"cp\.async\.bulk\.shared(::\w+)?\."
WGMMA = r"wgmma\.mma_async\.sync\.aligned\.m64n(?P<n>\d+)"
TENSOR = r"cp\.async\.bulk\.tensor\.[1-5]d\."
INSTRUCTIONS = [
    # mbarriers
    (rf"mbarrier\.init{SPACE}?\.b64", "lab::init_barrier({0:any}, {1}, {here});"),
    (rf"mbarrier\.inval{SPACE}?\.b64", "lab::invalidate_barrier({0:any});"),
    (rf"mbarrier\.arrive(?P<drop>_drop)?(?P<tx>\.expect_tx)?(\.noComplete)?{SCOPE}{SPACE}?\.b64",
     arrive),
    (rf"mbarrier\.expect_tx{SCOPE}{SPACE}?\.b64", "lab::expect_at_barrier({0:any}, {1}, {here});"),
    (rf"mbarrier\.(try|test)_wait(\.parity)?{SCOPE}{SPACE}?\.b64",
     "= lab::test_barrier({1:any}, {2}, {here})"),
    # The thread's copies have landed before its arrival counts.
    (rf"cp\.async\.mbarrier\.arrive{SPACE}?\.b64", f"{{{{ {LANDED} }}}}"),
    (rf"cp\.async\.mbarrier\.arrive\.noinc{SPACE}?\.b64",
     f"{{{{ {LANDED} lab::arrive_at_barrier({{0:any}}, 0, 1, false, {{here}}); }}}}"),
    # Bulk copies
    (TO_SHARED + rf"shared(::\w+)?{LOAD}{HINT}",
     "lab::bulk_copy_to_peer({0:shared}, {1:shared}, {2}, {3:shared}, {here});"),
    (TO_SHARED + rf"global{LOAD}{HINT}",
     "lab::bulk_load({0:shared}, {1:global}, {2}, {3:shared}, 0, {here});"),
    (TO_SHARED + rf"global{LOAD}\.multicast::cluster{HINT}",
     "lab::bulk_load({0:shared}, {1:global}, {2}, {3:shared}, {4}, {here});"),
    (rf"cp\.async\.bulk\.global\.shared(::\w+)?(\.bulk_group)?{HINT}",
     "lab::bulk_store({0:global}, {1:shared}, {2}, lab::Reduction::kNone, {here});"),
    (rf"cp\.reduce\.async\.bulk\.global\.shared(::\w+)?(\.bulk_group)?{HINT}\.add\.f32",
     "lab::bulk_store({0:global}, {1:shared}, {2}, lab::Reduction::kAdd, {here});"),
    (TENSOR + rf"shared(::\w+)?\.global(\.tile)?{LOAD}{HINT}",
     "lab::tensor_load({0:shared}, {1:tensor}, {2:shared}, 0, {here});"),
    (TENSOR + rf"shared(::\w+)?\.global(\.tile)?{LOAD}\.multicast::cluster{HINT}",
     "lab::tensor_load({0:shared}, {1:tensor}, {2:shared}, {3}, {here});"),
    (TENSOR + rf"global\.shared(::\w+)?(\.tile)?(\.bulk_group)?{HINT}",
     "lab::tensor_store({0:tensor}, {1:shared}, {here});"),
    (r"cp\.async\.bulk\.commit_group", "lab::commit_stores();"),
    (r"cp\.async\.bulk\.wait_group", "lab::wait_stores({0}, true);"),
    (r"cp\.async\.bulk\.wait_group\.read", "lab::wait_stores({0}, false);"),
    # Fences of Hopper, wgmma, clusters
    (r"fence\.proxy\.async(::\w+)?", "lab::fence_async();"),
    (r"fence\.proxy\.async(::\w+)?\.global", "lab::fence_async(false, true);"),
    (r"fence\.proxy\.async(::\w+)?\.shared(::\w+)?", "lab::fence_async(true, false);"),
    (r"fence\.mbarrier_init\.release\.cluster", "lab::fence_barriers();"),
    (r"wgmma\.fence\.sync\.aligned", "lab::wgmma_fence();"),
    (r"wgmma\.commit_group\.sync\.aligned", "lab::wgmma_commit();"),
    (r"wgmma\.wait_group\.sync\.aligned", "lab::wgmma_wait({0});"),
    (WGMMA + r"(?=k8\.f32\.tf32|k16\.(f32|f16)\.f16|k16\.f32\.bf16)"
     r"k\d+\.(?P<d>\w+)\.(?P<a>\w+)\.(?P<b>(?P=a))", wgmma),
    (WGMMA + r"k32\.(?P<d>f32|f16)\.(?P<a>e4m3|e5m2)\.(?P<b>e4m3|e5m2)", wgmma),
    (r"setmaxnreg\.(inc|dec)\.sync\.aligned\.u32", "lab::set_registers({0}, {here});"),
    (rf"barrier\.cluster\.arrive{SCOPE}(\.aligned)?", "lab::cluster_arrive({here});"),
    (rf"barrier\.cluster\.wait{SCOPE}(\.aligned)?", "lab::cluster_wait({here});"),
    (r"mapa\.u64", "= lab::peer_shared({1:global}, {2}, {here})"),
    (rf"mapa{SPACE}?\.u(32|64)", "= lab::peer_address({1}, {2})"),
    (r"elect\.sync", elect),
    # Fragments. Assemblers take the qualifiers in any order.
    (r"stmatrix(?=.*\.x[124]\b)(?=(.*(?P<trans>\.trans)\b)?)"
     r"(\.(sync|aligned|m8n8|x[124]|trans|shared|shared::cta|b16))+", stmatrix),
    (r"ldmatrix(?=.*\.x[124]\b)(?=(.*(?P<trans>\.trans)\b)?)"
     r"(\.(sync|aligned|m8n8|x[124]|trans|shared|shared::cta|b16))+", ldmatrix),
    (r"mma\.sync\.aligned\.m16n8k(?P<k>8|16|32)\.row\.col\.(?P<d>f32|f16|s32)\."
     r"(?P<a>f16|bf16|tf32|s8)\.(f16|bf16|tf32|s8)\.(f32|f16|s32)", mma),
    # Copies, loads, stores, atomics
    (r"cp\.async\.c[ag]\.shared(::cta)?\.global(\.L2::(128|256|64)B|\.L2::cache_hint)?", cp_async),
    (r"cp\.async\.commit_group", "lab::commit_copies();"),
    (r"cp\.async\.wait_group", "lab::wait_copies({0});"),
    (r"cp\.async\.wait_all", f"{{{{ {LANDED} }}}}"),
    (rf"ld(?P<how>(\.(acquire|relaxed|volatile|weak|{BY}))*)(\.(global|{SHARED}|const))?"
     r"(\.(nc|ca|cg|cs|lu|cv|L1::\w+|L2::\w+))*(\.v[24])?\." + T, load),
    (rf"st(?P<how>(\.(release|relaxed|volatile|weak|{BY}))*)(\.(global|{SHARED}))?"
     r"(\.(wb|cg|cs|wt|L1::\w+|L2::\w+))*(\.v[24])?\." + T, store),
    (rf"(?P<what>atom|red)(?P<how>(\.(relaxed|acquire|release|acq_rel|{BY}|global|{SHARED}))*)"
     r"\.(?P<op>\w+?)(\.noftz)?(\.v[248])?\." + T, atomic),
    # Barriers, fences, control
    (r"(bar|barrier)(\.cta)?\.sync(\.aligned)?", bar),
    (r"(bar|barrier)(\.cta)?\.arrive(\.aligned)?",
     "lab::named_barrier({0}, {1}, false, {here});"),
    (r"bar\.warp\.sync", "lab::sync_warp({0}, {here});"),
    (r"activemask\.b32", "= lab::active_lanes()"),
    (r"shfl\.sync\.(?P<how>bfly|up|down|idx)\.b32", shuffle),
    *((rf"vote\.sync\.{name}\.\w+", f"= __{name}_sync({{2}}, {{1}}, {{here}})")
      for name in ("ballot", "any", "all")),
    *((rf"redux\.sync\.{name}\.{T}", f"= __reduce_{name}_sync({{2}}, {{1:t}}, {{here}})")
      for name in ("add", "min", "max", "and", "or", "xor")),
    (r"match\.any\.sync\.b(32|64)", "= __match_any_sync({2}, {1}, {here})"),
    (r"membar\.cta|fence\.(acq_rel|sc)\.cta", "lab::fence(false);"),
    (r"membar\.(gl|sys)|fence\.(acq_rel|sc)\.(gpu|cluster|sys)", "lab::fence();"),
    (r"griddepcontrol\.wait", "lab::wait_for_previous_grids();"),
    (r"(prefetch|prefetchu|discard|griddepcontrol|nanosleep|fence\.proxy\.(alias|tensormap)"
     r"|cp\.async\.bulk\.prefetch)\b.*", ";"),
    (r"createpolicy\b.*", "= 0ull"),
    (r"trap", 'lab::stop_kernel("trap", "trap was executed", {here});'),
    (r"bra(\.uni)?", "goto lab_at_{0};"),
    # Arithmetic
    (r"mov\." + T, move),
    (r"cvt(?P<mode>(\.(rn|rz|rm|rp|rni|rzi|rmi|rpi|rna|ftz|sat|relu|satfinite))*)\."
     r"(?P<to>\w+)\.(?P<from>\w+)", convert),
    (r"cvta(\.to)?\.shared\.u(32|64)", "= lab::shared_address({1:global})"),
    (r"cvta(\.to)?\.global\.u64", "= {1}"),
    (r"selp\." + T, "= {3} ? {1:t} : {2:t}"),
    (rf"rcp{MODES}\.{F}", "= 1 / {1:t}"),
    (rf"rsqrt{MODES}\.{F}", "= 1 / std::sqrt({1:t})"),
    (rf"sqrt{MODES}\.{F}", "= std::sqrt({1:t})"),
    (rf"fma{MODES}\.{H}", "= __hfma2({1:t}, {2:t}, {3:t})"),
    (rf"max\.{H}", "= __hmax2({1:t}, {2:t})"),
    *((rf"{name}\.wide\.(?P<t>{sign}(16|32))", f"= 1{one} * {{1:t}} * {{2:t}}{more}")
      for sign, one in (("u", "ull"), ("s", "ll"))
      for name, more in (("mul", ""), ("mad", " + {3}"))),
    (rf"(fma|mad){MODES}\.{T}", "= lab::ptx::fma({1:t}, {2:t}, {3:t})"),
    (rf"div{MODES}\.{T}", "= {1:t} / {2:t}"),
    (rf"abs(\.ftz)?\.{T}", "= std::abs({1:t})"),
    (rf"neg(\.ftz)?\.{T}", "= -({1:t})"),
    (rf"not\.{T}", "= ~({1:t})"),
    (rf"popc\.{T}", "= __popcll({1:t})"),
    (r"brev\.b32", "= __brev({1:b32})"),
    (r"clz\.b32", "= __clz({1:b32})"),
    (r"prmt\.b32", "= __byte_perm({1:b32}, {2:b32}, {3:b32})"),
    *((rf"shf\.{side}\.{mode}\.b32", f"= __funnelshift_{side}{end}({{1:b32}}, {{2:b32}}, {{3}})")
      for side in "lr" for mode, end in (("wrap", ""), ("clamp", "c"))),
    (r"bfe\.u32", "= static_cast<unsigned long long>({1:u32}) >> {2} & (1ull << {3}) - 1"),
    (r"bfi\.b32", "= ({2:b32} & ~(((1ull << {4}) - 1) << {3}))"
                  " | ({1:b32} & ((1ull << {4}) - 1)) << {3}"),
    (r"bfind\.u32", "= 31 - __clz({1:b32})"),
    (r"dp4a\.(?P<t>[us]32)\.(?P=t)", "= __dp4a({1:t}, {2:t}, {3:t})"),
    (rf"copysign\.{F}", "= std::copysign({2:t}, {1:t})"),
    (rf"rem\.{T}", "= {1:t} % {2:t}"),
    (r"mul\.hi\.u32", "= __umulhi({1:u32}, {2:u32})"),
    (r"mul\.hi\.s32", "= __mulhi({1:s32}, {2:s32})"),
    (r"lop3\.b32", "= lab::ptx::lop3({1}, {2}, {3}, {4})"),
    *((rf"{name}\.approx(\.ftz)?\.f32", f"= std::{function}({{1:f32}})")
      for name, function in (("ex2", "exp2"), ("lg2", "log2"), ("tanh", "tanh"), ("sin", "sin"),
                             ("cos", "cos"))),
    *((rf"{name}(\.ftz)?\.{T}", f"= {name}({{1:t}}, {{2:t}})") for name in ("min", "max")),
    *((rf"{name}{MODES}\.{H}", f"= __h{name}2({{1:t}}, {{2:t}})")
      for name in ("add", "sub", "mul")),
    *((rf"setp\.{name}{after}(\.ftz)?\.{T}", f"= {{1:t}} {operator} {{2:t}}{more}")
      for after, more in (("", ""), (r"\.and", " && {3}"), (r"\.or", " || {3}"))
      for name, operator in (("eq", "=="), ("ne", "!="), ("lt", "<"), ("le", "<="), ("gt", ">"),
                             ("ge", ">="))),
    *((rf"{name}{MODES}\.{T}", f"= {{1:t}} {operator} {{2:t}}")
      for name, operator in (("add", "+"), ("sub", "-"), ("mul", "*"), ("and", "&"), ("or", "|"),
                             ("xor", "^"), ("shl", "<<"), ("shr", ">>"))),
]  # fmt: skip
INSTRUCTIONS = [(re.compile(pattern), template) for pattern, template in INSTRUCTIONS]
