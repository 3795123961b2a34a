"""Inline PTX as calls of C++.

Each instruction becomes what instructions.py has for it, mostly a call of a function in
include/lab_cuda/ptx.h or hopper.h; one that is not known becomes an error of the compiler with its
text.
"""

import re

from common.lab.cuda.instructions import INSTRUCTIONS, TYPES, split, written

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
    for pattern, template in INSTRUCTIONS:
        match = pattern.fullmatch(found["op"])
        if match:
            try:
                result = written(template, match, ops)
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
