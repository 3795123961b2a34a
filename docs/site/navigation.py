"""Which pages the site has, in groups, and their order: what the sidebar shows.

A lesson is a map, its README.md, and chapters beside it: 1_topic.md, 2_topic.md, ... and
appendix_topic.md for what a first reading does not need.
"""

import functools
import pathlib
import re

from common.classroom import catalogue

FRONT, LAB, RESULTS = "README.md", "common/lab/README.md", "docs/results/README.md"
EXERCISES, QUIZ = "common/classroom/exercises.md", "docs/quiz.md"
LESSON = re.compile(r"\d\d_\w+/README\.md")
CHAPTER = re.compile(r"(?:[1-9]\d*|appendix)(?:_\w+)?\.md", re.ASCII)
# A pattern stands for all files that match it; a README.md comes before what is beside it.
GROUPS = {
    "Lessons": ["0*/README.md", QUIZ],
    "Practice and tools": ["docs/building.md", EXERCISES, LAB, "docs/explorers/README.md"],
    "Theory": ["docs/theory/*.md"],
    "Reference": [
        RESULTS,
        "docs/notation.md",
        "docs/glossary.md",
        "docs/checking.md",
        "docs/errata.md",
        "common/data/README.md",
    ],
    "For teachers": ["common/classroom/teaching.md", "common/classroom/README.md"],
    "For contributors": ["docs/contributing.md", "docs/README.md"],
}

# What a reader may search who has other words for it: {page, or a heading of it: phrases}.
KEYWORDS = {
    "README.md": "license, prerequisites, getting started",
    "01_naive_attention/1_attention.md": "cross attention, self-attention, kv heads, "
    "multi head attention shapes, multihead, mha",
    "02_safe_softmax/1_safe_softmax.md": "stable softmax, subtract the maximum, nan in softmax",
    "04_tiled_matmul/1_first_program.md": "cuda hello world, kernel launch, cudaMalloc",
    "04_tiled_matmul/2_memory.md": "coalesced access, warp divergence, shared memory "
    "bank conflict, __syncthreads deadlock, kernel hangs",
    "04_tiled_matmul/4_tensor_cores.md": "wmma, mma.sync layout, fragment layout, ldmatrix",
    "04_tiled_matmul/5_hopper.md": "wgmma, tma, cutlass, cute, swizzle 128b, mbarrier",
    "05_flash_forward/1_one_kernel.md": "oom, cuda out of memory, quadratic memory, "
    "flash attention memory usage",
    "05_flash_forward/3_hopper.md": "flash attention 3, flashattention-3, fa3, hopper attention",
    "05_flash_forward/4_overlap.md": "pingpong scheduling, ping-pong",
    "05_flash_forward/6_tile_shapes.md": "tile size, block size, autotuning",
    "05_flash_forward/7_decoding.md": "flash decoding, splitkv, kv cache, flash_attn_with_kvcache, "
    "fa_decode",
    "05_flash_forward/8_serving.md": "vllm, sglang, paged attention, pagedattention, "
    "page table, fp8 kv cache in vllm",
    "05_flash_forward/9_packed_sequences.md": "flash attn varlen, unpad, cu_seqlens",
    "05_flash_forward/10_masks_and_scores.md": "flexattention, alibi, sliding window, softcap, "
    "soft capping, score_mod, attention bias, attention sink, custom mask, tree attention mask",
    "05_flash_forward/11_eight_bits.md": "fp8, float8, float8_e4m3fn, quantization, descale, "
    "FP8 KV cache, k_scale, v_scale, outliers",
    "05_flash_forward/appendix_experiments.md": "hadamard, incoherent processing",
    "05_flash_forward/12_blackwell.md": "flash attention 4, fa4, b200, sm_100, tcgen05, tmem",
    "06_flash_backward/3_tensor_cores.md": "deterministic backward, reproducible gradients",
    "06_flash_backward/6_wide_heads.md": "head dim 256, large head dim",
    "06_flash_backward/7_training.md": "pytorch, torch, python, call from python, autograd, sdpa, "
    "scaled_dot_product_attention, torch.compile, python bindings, pytorch binding",
    "06_flash_backward/8_ring_attention.md": "ulysses, context parallelism, sequence parallelism, "
    "multi gpu, multiple gpus, distributed, long context",
    "docs/building.md": "docker, colab, notebook, windows, wsl, conda, nvcc not found, "
    "command not found, install, install without root, sudo, mac, macos install, no gpu, "
    "without gpu, compile error",
    "common/classroom/exercises.md": "exercise solutions, exercise answers, homework, grading",
    "common/lab/README.md": "race condition, data race, racecheck, compute-sanitizer, simulator, "
    "emulator, run cuda without gpu",
    "common/lab/any_kernel.md": "segfault, segmentation fault, core dumped, illegal memory access, "
    "run my own kernel, race condition detection",
    "docs/theory/05_numerical_stability.md": "bfloat16 precision, fp16 overflow, mixed precision",
    "docs/theory/06_registers_and_occupancy.md": "register spilling, register pressure",
    "docs/theory/07_software_pipelining.md": "cp.async, prefetch, double buffering, latency hiding",
    "docs/theory/08_reading_a_profile.md": "nsight compute, ncu, nsys, profiler",
    "docs/theory/10_beyond_hopper.md": "blackwell, b200, fa4, flash attention 4, flashattention-4",
    "docs/checking.md": "reproducible results, tolerance, accuracy, allclose",
    "docs/results/README.md": "benchmark, h100 tflops, h200 tflops, speed",
    "docs/glossary.md#not-covered": "mla, rope, rotary embedding, amd rocm, rocm, hip, metal, "
    "linear attention, mamba, int8, speculative decoding, jax, triton",
    "docs/glossary.md#recomputation": "gradient checkpointing, activation checkpointing",
}


def matching(root, pattern):
    """The files of a pattern in order, relative to the repository."""
    names = (path.relative_to(root).as_posix() for path in root.glob(pattern))
    return sorted(names, key=lambda name: (not name.endswith("/README.md"), name))


def groups(root):
    """{title of the group: its pages}, without empty groups."""
    found = {title: sum((matching(root, p) for p in GROUPS[title]), []) for title in GROUPS}
    return {title: pages for title, pages in found.items() if pages}


def chapters(root, lesson):
    """The chapters beside a lesson's map: 9_topic.md before 10_topic.md, appendices last."""

    def key(path):
        number = path.name.partition("_")[0]
        return (not number.isdigit(), int(number) if number.isdigit() else 0, path.name)

    beside = (path for path in (root / lesson).parent.glob("*.md") if CHAPTER.fullmatch(path.name))
    return [path.relative_to(root).as_posix() for path in sorted(beside, key=key)]


def below(root, page):
    """The pages directly below a page: chapters of a lesson, tasks of all lessons below the page of
    the exercises, pages beside the first one of the lab and of the results."""
    if page in (LAB, RESULTS):
        return matching(root, f"{pathlib.PurePosixPath(page).parent}/*.md")[1:]
    if page == EXERCISES:
        return list(catalogue.task_pages(root).values())
    return chapters(root, page) if LESSON.fullmatch(page) else []


def parts(root):
    """The parts of the book, [(title, pages)]: the lessons, each with the title of its map, the
    other groups, and what a reader exercises with."""
    found, exercises = [], []
    for title, listed in groups(root).items():
        others = []
        for page in listed:
            of_page = [page, *below(root, page)]
            if LESSON.fullmatch(page):
                found.append(("", of_page))
            else:
                (exercises if page in (QUIZ, EXERCISES) else others).extend(of_page)
        found += [(title, others)] if others else []
    return found + ([("Exercises", exercises)] if exercises else [])


@functools.cache
def numbers(root):
    """{page: what stands before its title in the book}."""
    found = {}
    for part, (title, members) in enumerate(parts(root), 1):
        for chapter, page in enumerate(members, 1 if title else 0):
            found[page] = f"{part}.{chapter}" if chapter else f"Part {part}."
    return found


def pages(root):
    """All pages in order, the front page first."""
    listed = sum(groups(root).values(), [])
    return [FRONT, *(name for page in listed for name in (page, *below(root, page)))]


def unlisted(root):
    """Pages of docs and common that the navigation does not have."""
    patterns = ("docs/*.md", "docs/*/*.md", "common/*/*.md")
    return sorted({name for p in patterns for name in matching(root, p)} - set(pages(root)))


def html_file(docname):
    """The file of a page on the site: README becomes its folder's index.html."""
    path = pathlib.PurePosixPath(docname)
    return str(path.with_name("index") if path.name == "README" else path) + ".html"
