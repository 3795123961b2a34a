"""Attention through the C interface on PyTorch's tensors."""

import contextlib
import ctypes
import pathlib
import re

try:
    import torch
except ImportError:
    torch = None

HEADER = pathlib.Path(__file__).with_name("flash_attention.h")
# By their names in C; with the structs that read_header() has found.
TYPES = {x: getattr(ctypes, f"c_{x}") for x in ("float", "double", "int", "size_t")}
TYPES |= {f"{x}_t": getattr(ctypes, f"c_{x}") for x in ("int32", "int64", "uint64")}


def read_header(path):
    """Adds the structs of a header of the C interface to TYPES. Returns {function: result type}."""
    text = re.sub(r"//.*", "", path.read_text(encoding="utf-8"))
    for name, body in re.findall(r"typedef struct (\w+) \{(.*?)\}", text, re.DOTALL):
        fields = [
            (field, ctypes.c_void_p if pointer else TYPES[kind])
            for kind, pointer, field in re.findall(r"(\w+)(\*?)\s+(\w+);", body)
        ]
        TYPES[name] = type(name, (ctypes.Structure,), {"_fields_": fields})
    found = re.findall(r"^(?:const )?(\w+)(\*?) (fa_\w+)\(", text, re.MULTILINE)
    return {name: ctypes.c_char_p if text else TYPES[kind] for kind, text, name in found}


FUNCTIONS = read_header(HEADER)
# The kinds of fa_functor, in the order of fa_functor_kind.
FUNCTORS = [x.lower() for x in re.findall(r"FA_FUNCTOR_(\w+) =", HEADER.read_text("utf-8"))]


class Refused(Exception):
    """What is not allowed, or could not be done. A program ends with this status."""

    status = 2


def struct(name, **fields):
    """A struct of the C interface, with its size and these fields."""
    return TYPES[name](size=ctypes.sizeof(TYPES[name]), **fields)


# The tables of a functor: their types, and their shapes for a problem, as expect() takes them.
TABLES = {
    "documents": ("int32", lambda a, f: (a.batch, a.length_k, 2)),
    "slopes": ("float32", lambda a, f: (a.heads,)),
    "sinks": ("float32", lambda a, f: (a.heads,)),
    "bias": ("float32", lambda a, f: ((1, a.batch), (1, a.heads), (1, a.length_q), a.length_k)),
    "blocks": ("uint8", lambda a, f: (a.heads, *blocks_of(a, max(1, f.block_size)))),
    "bits": ("int32", lambda a, f: (a.batch, a.length_q, -(-a.length_k // 32))),
}


def blocks_of(a, size):
    """Blocks of queries and of keys."""
    return -(-a.length_q // size), -(-a.length_k // size)


def expect(name, tensor, shape, dtype, like, dense=True):
    """Refuses what is not a tensor of a shape and a type on the device of `like`, without gaps if
    it is `dense`. Of the shape None is any size, and a tuple has those that are allowed."""
    if not torch.is_tensor(tensor):
        raise Refused(f"{name} is {tensor!r}; allowed is a tensor")
    dtype = getattr(torch, dtype) if isinstance(dtype, str) else dtype
    allowed = [sizes if isinstance(sizes, tuple) else (sizes,) for sizes in shape]
    fits = tensor.dim() == len(allowed) and all(
        None in sizes or n in sizes for n, sizes in zip(tensor.shape, allowed)
    )
    right = fits and tensor.dtype == dtype and tensor.device == like.device
    if right and (tensor.is_contiguous() or not dense):
        return
    text = ", ".join(" or ".join(str(n) for n in sorted(set(s), key=str)) for s in allowed)
    raise Refused(
        f"{name} is {list(tensor.shape)} of {tensor.dtype} on {tensor.device}, strides "
        f"{list(tensor.stride())}; allowed is [{text}] of {dtype} on {like.device}"
        + (
            ", without gaps: expand() it where it is to be broadcast, and make it contiguous()"
            if dense
            else ""
        )
    )


def expect_integer(name, value):
    """Refuses what C would cut to 32 bits."""
    if not isinstance(value, int) or not -(2**31) <= value < 2**31:
        raise Refused(f"{name} is {value!r}; allowed are integers of 32 bits")


def place(of, name, tensor):
    """Tells a struct where a tensor [batch, heads, length, head_dim] is."""
    if tensor.stride(3) != 1:
        raise Refused(f"elements of the rows of {name} are {tensor.stride(3)} apart; allowed is 1")
    setattr(of, name, tensor.data_ptr())
    setattr(of, name + "_strides", TYPES["fa_strides"](*tensor.stride()[:3]))


class CLibrary:
    """A library with a C interface, whose functions have names that begin with `prefix`."""

    def __init__(self, path, prefix, functions):
        """functions: what each returns, as read_header() says."""
        self.prefix = prefix
        try:
            self.c = ctypes.CDLL(str(pathlib.Path(path).resolve()))
            for name, result in functions.items():
                getattr(self.c, name).restype = result
        except (OSError, AttributeError) as error:
            raise Refused(f"{path} is not a library of this lesson: {error}") from error
        self.runs_on = self.function("runs_on")().decode()

    def function(self, name):
        return getattr(self.c, self.prefix + name)

    def error(self):
        return Refused(self.function("last_error")().decode())

    def kernel_name(self, call):
        name = self.function("kernel_name")(ctypes.byref(call.struct))
        if name is None:
            raise self.error()
        return name.decode()

    def bound(self, function, attention, arguments, tensors, **more):
        """A function of C with its arguments, structs and pointers, as `call()`: it begins on the
        stream that is current. The tensors, to which structs point, live with it; q is first."""

        def call():
            attention.stream = current_stream(tensors[0])
            if function(*map(reference_to, arguments)) != 0:
                raise self.error()

        vars(call).update(struct=arguments[0], tensors=tensors, **more)
        return call


class Library(CLibrary):
    """libflash_attention.so."""

    def __init__(self, path):
        super().__init__(path, "fa_", FUNCTIONS)
        self.c.fa_default_scale.argtypes = [ctypes.c_int64]

    def describe(
        self, q, k, v, causal=False, scale=None, dropout=0.0, seed=0, sequences=0, dtype=None
    ):
        """The fa_attention of a problem, without o, lse, workspace and stream. k and v have as many
        sequences as q, or of these as many as are given; with None any number. Their type is that
        of q, or dtype."""
        types = {torch.float32: 0, torch.float16: 1, torch.bfloat16: 2}
        if q.dim() != 4 or q.dtype not in types:
            raise Refused(
                f"q is {list(q.shape)} of {q.dtype}; allowed are 4 dimensions of {list(types)}"
            )
        if q.device.type != {"gpu": "cuda"}.get(self.runs_on, "cpu"):
            raise Refused(f"q is on {q.device}; the library runs on the {self.runs_on}")
        batch, heads, length_q, head_dim = q.shape
        sequences = batch if sequences == 0 else sequences
        dtype = q.dtype if dtype is None else dtype
        expect("k", k, (sequences, None, None, head_dim), dtype, q, dense=False)
        expect("v", v, (*k.shape[:3], None), dtype, q, dense=False)
        a = struct("fa_attention", batch=batch, heads=heads, kv_heads=k.shape[1])
        a.length_q, a.length_k, a.type = length_q, k.shape[2], types[q.dtype]
        a.head_dim, a.head_dim_v = head_dim, v.shape[3]
        for name, tensor in (("q", q), ("k", k), ("v", v)):
            place(a, name, tensor)
        a.causal, a.dropout, a.seed = int(causal), dropout, seed
        a.scale = self.c.fa_default_scale(head_dim) if scale is None else scale
        return a

    def prepare(self, q, k, v, causal=False, scale=None, dropout=0.0, seed=0, fixed_order=False):
        """A call on tensors [batch, heads, length, head_dim] whose rows are contiguous, in whatever
        order the other dimensions lie; where head_dim is 192, v may have 128 columns. Returns
        (call, o, lse): o lies like q. `call()` begins it on the stream that is current. With
        `fixed_order` it gets no workspace for the tile scheduler's counter."""
        a = self.describe(q, k, v, causal, scale, dropout, seed)
        o, lse = place_outputs(a, q, v)
        with on_device_of(q):
            bytes_of = 0 if fixed_order else self.c.fa_workspace_bytes(ctypes.byref(a))
        workspace = give_workspace(a, q, bytes_of, bytes_of)
        return self.bound(self.c.fa_forward, a, [a], (q, k, v, o, lse, workspace)), o, lse

    def prepare_decode(
        self,
        q,
        k,
        v,
        causal=False,
        lengths_k=None,
        block_table=None,
        length_k=None,
        check=False,
        cu_seqlens_q=None,
        kernel=0,
        window=0,
        sinks=None,
        tree=None,
        part_keys=0,
        k_scales=None,
        v_scales=None,
    ):
        """A call of fa_decode() on q, [batch, heads, length_q, head_dim], and a cache: k and v
        [batch, kv_heads, length_k, head_dim], or with a block_table [cache pages, kv_heads,
        page_size, head_dim] and a length_k. With cu_seqlens_q q is [1, heads, all queries,
        head_dim]. lengths_k, block_table and cu_seqlens_q are int32 tensors beside q. Without a
        block_table a length_k is that of the first keys. `kernel` is an fa_decode_kernel; window,
        part_keys, sinks, float32 [heads], and tree, int32 [batch, length_q, ceil(length_q / 32)],
        are as in fa_cache. With k_scales and v_scales, float32 [1] or [k.shape[0], kv_heads], k and
        v are torch.float8_e4m3fn. Returns (call, o, lse). What the tensors hold is read whenever
        `call()` runs; `call.kernel` is the name of the kernel."""
        batch, paged = q.shape[0], block_table is not None
        if cu_seqlens_q is not None:
            if batch != 1:
                raise Refused(f"q is {list(q.shape)}; with cu_seqlens_q its batch is 1")
            expect("cu_seqlens_q", cu_seqlens_q, (None,), torch.int32, q)
            batch = cu_seqlens_q.shape[0] - 1
        eight_bits = k_scales is not None
        dtype = torch.float8_e4m3fn if eight_bits else None
        a = self.describe(q, k, v, causal, sequences=None if paged else batch, dtype=dtype)
        if paged and length_k is None:
            raise Refused("length_k is None; with a block_table it is the most keys of a sequence")
        length_k = k.shape[2] if length_k is None else length_k
        expect_integer("length_k", length_k)
        if not paged and length_k > k.shape[2]:
            raise Refused(f"length_k is {length_k}; allowed are 1 to {k.shape[2]}, the keys of k")
        a.batch, a.length_k = batch, length_k
        o, lse = place_outputs(a, q, v)
        cache = struct("fa_cache", check=int(check), kernel=kernel)
        for name, value in (("window", window), ("part_keys", part_keys)):
            expect_integer(name, value)
            setattr(cache, name, value)
        given = {
            "lengths_k": (lengths_k, (batch,), "int32"),
            "block_table": (block_table, (batch, None), "int32"),
            "cu_seqlens_q": (cu_seqlens_q, (batch + 1,), "int32"),
            "sinks": (sinks, (q.shape[1],), "float32"),
            "tree": (tree, (batch, q.shape[2], -(-q.shape[2] // 32)), "int32"),
        }
        if eight_bits:
            cache.type, cache.scale_per_head = 1, int(k_scales.dim() == 2)
            shape = tuple(k.shape[:2]) if k_scales.dim() == 2 else (1,)
            given |= {"k_scales": (k_scales, shape, "float32")}
            given |= {"v_scales": (v_scales, shape, "float32")}
        for name, (tensor, shape, dtype) in given.items():
            if tensor is not None:
                expect(name, tensor, shape, dtype, q)
                setattr(cache, name, tensor.data_ptr())
        if paged:
            cache.most_pages, cache.cache_pages = block_table.shape[1], k.shape[0]
            cache.page_size = k.shape[2]
        with on_device_of(q):
            bytes_of = self.c.fa_decode_workspace_bytes(ctypes.byref(a), ctypes.byref(cache))
            name = self.c.fa_decode_kernel_name(ctypes.byref(a), ctypes.byref(cache))
        if name is None:
            raise self.error()
        workspace = give_workspace(a, q, bytes_of, 4 * batch * q.shape[1] * q.shape[2])
        tensors = (q, k, v, o, lse, workspace, given)
        more = {"kernel": name.decode(), "bytes": bytes_of}
        return self.bound(self.c.fa_decode, a, [a, cache], tensors, **more), o, lse

    def prepare_shared_prefix(self, q, prefix, suffix):
        """Decoding of sequences that share their first keys, which are read once for all: two calls
        of fa_decode() and one of fa_merge(). prefix and suffix are arguments of prepare_decode() by
        their names; the prefix is that of one sequence. q, [batch, heads, length_q, head_dim], lies
        as [batch, length_q, heads, head_dim]. Returns (call, o, lse)."""
        batch, heads, length_q, columns = q.shape
        by_token = q.transpose(1, 2)
        expect("q.transpose(1, 2)", by_token, (batch, length_q, heads, columns), q.dtype, q)
        rows = by_token.view(1, batch * length_q, heads, columns).transpose(1, 2)
        first, other_o, other_lse = self.prepare_decode(rows, **prefix)
        last, o, lse = self.prepare_decode(q, **suffix)
        other = struct("fa_other_keys", lse=other_lse.data_ptr(), one_sequence=1)
        place(other, "o", other_o.transpose(1, 2).view(batch, length_q, heads, -1).transpose(1, 2))
        structs, tensors = [last.struct, other], (q, first.tensors, last.tensors)
        merge = self.bound(self.c.fa_merge, last.struct, structs, tensors)

        def call():
            first(), last(), merge()

        vars(call).update(kernel=f"{first.kernel}, {last.kernel}", bytes=first.bytes + last.bytes)
        return call, o, lse

    def prepare_packed(self, q, k, v, cu_seqlens_q, cu_seqlens_k, causal=False, check=False):
        """A call of fa_forward_packed() on packed sequences: q, k and v are [tokens, heads,
        head_dim], cu_seqlens int32 tensors beside them. Returns (call, o, lse): o lies like q, and
        lse is [heads, tokens]. Tokens of no sequence get zeros, and an lse of -infinity."""
        inner, o, lse = self.prepare(*(as_batch(x) for x in (q, k, v)), causal)
        o.zero_(), lse.fill_(-torch.inf)
        p = packed_struct(q, cu_seqlens_q, cu_seqlens_k, check)
        a, tensors = inner.struct, (*inner.tensors, cu_seqlens_q, cu_seqlens_k)
        call = self.bound(self.c.fa_forward_packed, a, [a, p], tensors, kind="_packed", given=[p])
        return call, of_batch(o), lse[0]

    def prepare_functor(self, q, k, v, kind, left=-1, right=-1, **parameters):
        """A call of fa_forward_functor() on tensors as prepare() takes them, 16 bits. kind is one
        of FUNCTORS; parameters are the further fields of fa_functor, where a pointer is a tensor on
        q's device, without gaps, of the type and shape in TABLES. Returns (call, o, lse)."""
        if kind not in FUNCTORS:
            raise Refused(f"there is no functor '{kind}'; allowed are {', '.join(FUNCTORS)}")
        inner, o, lse = self.prepare(q, k, v)
        a = inner.struct
        f = struct("fa_functor", kind=FUNCTORS.index(kind))
        known = ("left", "right", "prefix", "block_size", "cap")
        for name, value in {"left": left, "right": right, **parameters}.items():
            if name not in (*known, *TABLES):
                raise Refused(f"a functor has no {name}; allowed are {[*known, *TABLES]}")
            if name in known:
                if name != "cap":
                    expect_integer(name, value)
                setattr(f, name, value)
        for name in set(parameters) & set(TABLES):
            table, (dtype, shape_of) = parameters[name], TABLES[name]
            expect(name, table, shape_of(a, f), dtype, q)
            setattr(f, name, table.data_ptr())
            if name == "bias":
                f.bias_per_batch, f.bias_per_head = (int(n > 1) for n in table.shape[:2])
                f.bias_same_rows = int(table.shape[2] == 1)
        with on_device_of(q):
            bytes_of = self.c.fa_functor_workspace_bytes(ctypes.byref(a), ctypes.byref(f))
        if bytes_of == 0:
            raise self.error()
        tensors = (q, k, v, o, lse, give_workspace(a, q, bytes_of, 16))
        more = {"kind": "_functor", "given": [f], "parameters": parameters}
        return self.bound(self.c.fa_forward_functor, a, [a, f], tensors, **more), o, lse


def reference_to(argument):
    """An argument for C: a struct by its address."""
    return ctypes.byref(argument) if isinstance(argument, ctypes.Structure) else argument


def give_workspace(a, q, bytes_of, zeros):
    """Gives an attention so many bytes beside q, the first of them 0, as each call leaves them."""
    workspace = torch.empty(bytes_of, dtype=torch.uint8, device=q.device)
    workspace[:zeros].zero_()
    a.workspace, a.workspace_bytes = workspace.data_ptr() or None, bytes_of
    return workspace


def as_batch(tensor):
    """[tokens, heads, head_dim] as [1, heads, tokens, head_dim]."""
    if tensor.dim() != 3:
        raise Refused(f"a packed tensor is {list(tensor.shape)}; allowed are 3 dimensions")
    return tensor.transpose(0, 1)[None]


def of_batch(tensor):
    """The inverse of as_batch()."""
    return tensor[0].transpose(0, 1)


def packed_struct(q, cu_seqlens_q, cu_seqlens_k, check=False):
    """The fa_packed of tensors that say where sequences begin."""
    p = struct("fa_packed", check=int(check))
    expect("cu_seqlens_q", cu_seqlens_q, (None,), torch.int32, q)
    p.sequences = len(cu_seqlens_q) - 1
    expect("cu_seqlens_k", cu_seqlens_k, (p.sequences + 1,), torch.int32, q)
    p.cu_seqlens_q, p.cu_seqlens_k = cu_seqlens_q.data_ptr(), cu_seqlens_k.data_ptr()
    return p


def empty_as(tensor, columns):
    """A tensor with so many columns, whose dimensions lie in the same order."""
    if columns == tensor.shape[3]:
        return torch.empty_like(tensor)
    return torch.empty_like(tensor[..., :1].expand(*tensor.shape[:3], columns))


def empty_outputs(q, v):
    """o, which lies like q, and lse."""
    lse = torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)
    return empty_as(q, v.shape[3]), lse


def place_outputs(a, q, v):
    """Gives an attention its o and lse."""
    o, lse = empty_outputs(q, v)
    place(a, "o", o)
    a.lse = lse.data_ptr()
    return o, lse


def with_rows(tensor):
    """The tensor, or a copy where the kernels do not take its rows as they lie: elements side by
    side, and addresses that are multiples of 16 bytes."""
    if tensor.dim() != 4:
        raise Refused(f"a tensor is {list(tensor.shape)}; allowed are 4 dimensions")
    apart = [n for n, count in zip(tensor.stride()[:3], tensor.shape) if count > 1]
    apart.append(tensor.storage_offset())
    if tensor.stride(3) == 1 and all(n * tensor.element_size() % 16 == 0 for n in apart):
        return tensor
    return tensor.clone(memory_format=torch.contiguous_format)


def on_device_of(tensor):
    """Makes the GPU of a tensor the current one."""
    return torch.cuda.device(tensor.device) if tensor.is_cuda else contextlib.nullcontext()


def current_stream(tensor):
    """The stream on which PyTorch works with a tensor, for C; None on the CPU."""
    return torch.cuda.current_stream(tensor.device).cuda_stream if tensor.is_cuda else None
