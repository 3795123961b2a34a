"""PTX of Hopper as calls of C++: mbarriers, bulk copies, wgmma, clusters. See ptx.py."""

import re

HERE = "::lab_cuda::here()"
SPACE = r"(?:\.shared(?:::(?:cta|cluster))?)"
SCOPE = r"(?:\.(?:release|acquire|relaxed|cta|cluster))*"
HINT = r"(?:\.L2::cache_hint)?"


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


def inside(op):
    """What stands in brackets: [a, {b, c}] are a and {b, c}."""
    return (split(op[1:-1]) + [""])[:2]


def elements(op):
    return [part.strip() for part in op[1:-1].split("\0")] if op.startswith("{") else [op]


def shared(op):
    """The pointer for an address in shared memory, which may be of another block."""
    address = inside(op)[0] if op.startswith("[") else op
    return f"::lab_cuda::ptx::shared({address})"


def any_space(op):
    return f"::lab_cuda::ptx::global({inside(op)[0]})"


def barrier(m, op):
    return shared(op) if ".shared" in m[0] else any_space(op)


def result(ops, value):
    """The instruction's result, which may be dropped: _."""
    return f"{value};" if ops[0] == "_" else f"::lab_cuda::ptx::set({ops[0]}, {value});"


def init(m, ops):
    return f"::lab_cuda::init_barrier({barrier(m, ops[0])}, {ops[1]}, {HERE});"


def arrive(m, ops):
    if ops[0].startswith("["):
        ops = ["_", *ops]
    more = ops[2] if len(ops) > 2 else ("0" if m["tx"] else "1")
    bytes_, count = (more, "1") if m["tx"] else ("0", more)
    drops = "true" if m["drop"] else "false"
    where = f"{barrier(m, ops[1])}, {bytes_}, {count}, {drops}, {HERE}"
    return result(ops, f"::lab_cuda::arrive_at_barrier({where})")


def expect(m, ops):
    return f"::lab_cuda::expect_at_barrier({barrier(m, ops[0])}, {ops[1]}, {HERE});"


def test(m, ops):
    return result(ops, f"::lab_cuda::test_barrier({barrier(m, ops[1])}, {ops[2]}, {HERE})")


def copies_arrive(m, ops):
    """cp.async.mbarrier.arrive: the thread's copies have landed before its arrival counts."""
    landed = "::lab_cuda::commit_copies(); ::lab_cuda::wait_copies(0);"
    if not m["noinc"]:
        return f"{{ {landed} }}"
    return (
        f"{{ {landed} ::lab_cuda::arrive_at_barrier({barrier(m, ops[0])}, 0, 1, false, {HERE}); }}"
    )


def blocks(m, ops, at):
    return ops[at] if "multicast" in m[0] else "0"


def bulk(m, ops):
    if m["to"].startswith("shared"):
        to, bar = shared(ops[0]), shared(ops[3])
        if m["from"].startswith("shared"):
            return (f"::lab_cuda::bulk_copy_to_peer({to}, {shared(ops[1])}, {ops[2]}, {bar}, "
                    f"{HERE});")  # fmt: skip
        return (f"::lab_cuda::bulk_load({to}, {any_space(ops[1])}, {ops[2]}, {bar}, "
                f"{blocks(m, ops, 4)}, {HERE});")  # fmt: skip
    how = "kAdd" if m["reduce"] else "kNone"
    return (f"::lab_cuda::bulk_store({any_space(ops[0])}, {shared(ops[1])}, {ops[2]}, "
            f"::lab_cuda::Reduction::{how}, {HERE});")  # fmt: skip


def tensor(m, ops):
    if m["to"].startswith("shared"):
        map_, at = inside(ops[1])
        return (f"::lab_cuda::tensor_load({shared(ops[0])}, ::lab_cuda::ptx::global({map_}), "
                f"{coordinates(at)}, {shared(ops[2])}, {blocks(m, ops, 3)}, {HERE});")  # fmt: skip
    map_, at = inside(ops[0])
    return (f"::lab_cuda::tensor_store(::lab_cuda::ptx::global({map_}), {coordinates(at)}, "
            f"{shared(ops[1])}, {HERE});")  # fmt: skip


def coordinates(text):
    each = (f"static_cast<int>({part})" for part in split(text[1:-1]))
    return "{" + ", ".join(each) + "}"


def fence_async(m, _ops):
    of = m["space"] or ""
    shared_, global_ = "global" not in of, "shared" not in of
    return f"::lab_cuda::fence_async({str(shared_).lower()}, {str(global_).lower()});"


def wgmma(m, ops):
    sums, count = elements(ops[0]), int(m["n"]) // 2
    if len(sums) != count:
        raise ValueError
    in_registers = ops[1].startswith("{")
    # Elements of an array stay where they are; a parameter may be gone when they are read.
    fragment = [op if "[" in op else f"+{op}" for op in elements(ops[1])] if in_registers else []
    a = f"::lab_cuda::ptx::fragment({', '.join(fragment)})" if in_registers else "nullptr"
    adds, scale_a, scale_b, *transposed = ops[3:]
    transposed_a = "0" if in_registers or not transposed else transposed[0]
    transposed_b = transposed[-1] if transposed else "0"
    flags = (f"::lab_cuda::Wgmma::{m['t']}, static_cast<bool>({adds}), "
             f"(({scale_a}) < 0) != (({scale_b}) < 0), ({transposed_a}) != 0, "
             f"({transposed_b}) != 0")  # fmt: skip
    descriptors = f"{'0' if in_registers else f'static_cast<unsigned long long>({ops[1]})'}, " \
                  f"static_cast<unsigned long long>({ops[2]})"  # fmt: skip
    return (f"::lab_cuda::wgmma({{{flags}, {descriptors}}}, "
            f"::lab_cuda::ptx::accumulators({HERE}, {', '.join(sums)}), {count}, {a}, "
            f"{HERE});")  # fmt: skip


def elect(_m, ops):
    lane, _, chosen = ops[0].partition("|")
    chosen, lane = chosen.strip(), lane.strip()
    to_lane = "" if lane == "_" else f" ::lab_cuda::ptx::set({lane}, lab_lane);"
    return (f"{{ unsigned lab_lane; ::lab_cuda::ptx::set({chosen}, "
            f"::lab_cuda::elect({ops[1]}, &lab_lane, {HERE}));{to_lane} }}")  # fmt: skip


def mapa(m, ops):
    if ".u64" in m[0] and ".shared" not in m[0]:
        return (f"::lab_cuda::ptx::set({ops[0]}, ::lab_cuda::peer_shared("
                f"::lab_cuda::ptx::global({ops[1]}), {ops[2]}, {HERE}));")  # fmt: skip
    return f"::lab_cuda::ptx::set({ops[0]}, ::lab_cuda::peer_address({ops[1]}, {ops[2]}));"


def stmatrix(m, ops):
    registers = ", ".join(f"::lab_cuda::ptx::as<unsigned>({part})" for part in elements(ops[1]))
    return (f"{{ const unsigned lab_r[] = {{{registers}}}; ::lab_cuda::stmatrix({shared(ops[0])}, "
            f"lab_r, {m['n']}, {'true' if m['trans'] else 'false'}, {HERE}); }}")  # fmt: skip


def call(text):
    return lambda m, ops: text


INSTRUCTIONS = [
    (rf"mbarrier\.init{SPACE}?\.b64", init),
    (rf"mbarrier\.inval{SPACE}?\.b64", lambda m, ops:
     f"::lab_cuda::invalidate_barrier({barrier(m, ops[0])});"),
    (rf"mbarrier\.arrive(?P<drop>_drop)?(?P<tx>\.expect_tx)?(\.noComplete)?{SCOPE}{SPACE}?\.b64",
     arrive),
    (rf"mbarrier\.expect_tx{SCOPE}{SPACE}?\.b64", expect),
    (rf"mbarrier\.(try|test)_wait(\.parity)?{SCOPE}{SPACE}?\.b64", test),
    (rf"cp\.async\.mbarrier\.arrive(?P<noinc>\.noinc)?{SPACE}?\.b64", copies_arrive),
    (rf"cp(?P<reduce>\.reduce)?\.async\.bulk\.(?P<to>shared(::\w+)?|global)\."
     rf"(?P<from>shared(::\w+)?|global)(\.mbarrier::complete_tx::bytes|\.bulk_group)?"
     rf"(\.multicast::cluster)?{HINT}(?(reduce)\.add\.f32)", bulk),
    (rf"cp\.async\.bulk\.tensor\.[1-5]d\.(?P<to>shared(::\w+)?|global)\."
     rf"(shared(::\w+)?|global)(\.tile)?(\.mbarrier::complete_tx::bytes|\.bulk_group)?"
     rf"(\.multicast::cluster)?{HINT}", tensor),
    (r"cp\.async\.bulk\.commit_group", call("::lab_cuda::commit_stores();")),
    (r"cp\.async\.bulk\.wait_group(?P<read>\.read)?", lambda m, ops:
     f"::lab_cuda::wait_stores({ops[0]}, {'false' if m['read'] else 'true'});"),
    (r"fence\.proxy\.async(::\w+)?(?P<space>\.(global|shared(::\w+)?))?", fence_async),
    (r"fence\.mbarrier_init\.release\.cluster", call("::lab_cuda::fence_barriers();")),
    (r"wgmma\.fence\.sync\.aligned", call("::lab_cuda::wgmma_fence();")),
    (r"wgmma\.commit_group\.sync\.aligned", call("::lab_cuda::wgmma_commit();")),
    (r"wgmma\.wait_group\.sync\.aligned", lambda m, ops: f"::lab_cuda::wgmma_wait({ops[0]});"),
    (r"wgmma\.mma_async\.sync\.aligned\.m64n(?P<n>\d+)k16\.f32\.(?P<t>bf16|f16)\.(?P=t)", wgmma),
    (r"wgmma\.mma_async\.sync\.aligned\.m64n(?P<n>\d+)k32\.f32\.(?P<t>e4m3)\.(?P=t)", wgmma),
    (r"setmaxnreg\.(inc|dec)\.sync\.aligned\.u32", lambda m, ops:
     f"::lab_cuda::set_registers({ops[0]}, {HERE});"),
    (rf"barrier\.cluster\.arrive{SCOPE}(\.aligned)?", call(f"::lab_cuda::cluster_arrive({HERE});")),
    (rf"barrier\.cluster\.wait{SCOPE}(\.aligned)?", call(f"::lab_cuda::cluster_wait({HERE});")),
    (rf"mapa{SPACE}?\.u(32|64)", mapa),
    (r"elect\.sync", elect),
    (r"stmatrix(?=.*\.x(?P<n>[124])\b)(?=(.*(?P<trans>\.trans)\b)?)"
     r"(\.(sync|aligned|m8n8|x[124]|trans|shared|shared::cta|b16))+", stmatrix),
    (r"(fence\.proxy\.(alias|tensormap)|cp\.async\.bulk\.prefetch)\b.*", call(";")),
]  # fmt: skip
INSTRUCTIONS = [(re.compile(pattern), write) for pattern, write in INSTRUCTIONS]

SPECIAL = {
    "cluster_ctarank": "::lab_cuda::cluster_rank()",
    "cluster_nctarank": "::lab_cuda::cluster_size()",
    "is_explicit_cluster": "::lab_cuda::cluster_size() > 1",
    "cluster_ctaid.x": "::lab_cuda::cluster_rank()",
    "cluster_nctaid.x": "::lab_cuda::cluster_size()",
    "clusterid.x": "blockIdx.x / ::lab_cuda::cluster_size()",
    "nclusterid.x": "gridDim.x / ::lab_cuda::cluster_size()",
}
for _axis in "yz":
    SPECIAL[f"cluster_ctaid.{_axis}"] = "0"
    SPECIAL[f"cluster_nctaid.{_axis}"] = "1"
    SPECIAL[f"clusterid.{_axis}"] = f"blockIdx.{_axis}"
    SPECIAL[f"nclusterid.{_axis}"] = f"gridDim.{_axis}"
