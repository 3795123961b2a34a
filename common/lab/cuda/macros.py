"""Macros of the preprocessor, as far as inline assembly is written with them: its text cannot be
translated before they are expanded."""

import re

ASM = ("asm", "__asm__", "__asm")
VOLATILE = ("volatile", "__volatile__", "__volatile")


def kind_of(text):
    return "name" if re.match(r"[A-Za-z_$]", text) else "number" if text[:1].isdigit() else "mark"


def text_of(tokens):
    """The source of tokens: (kind, text, whether there is space before it)."""
    return "".join(f" {text}" if space else text for _, text, space, *_ in tokens).strip()


def is_literal(tokens):
    """Whether the tokens between the brackets of an asm statement need no macro to be known."""
    depth, before, in_text = 0, "", True
    for kind, text, *_ in tokens:
        if depth == 0 and (
            (in_text and kind not in ("string", "raw") and text not in (":", "::"))
            or (kind == "name" and before != "[")
        ):
            return False
        in_text = in_text and text not in (":", "::")
        depth += (text in ("(", "[", "{")) - (text in (")", "]", "}"))
        depth -= text == "["  # [name] "constraint" (value)
        depth += text == "]"
        before = text
    return True


class Macros:
    """All of a program, by name; of several definitions the first."""

    def __init__(self):
        self.known = {}  # name: (parameters or None, tokens)
        self.needed = {}
        self.declared = set()  # functions that are declared before they are defined

    def define(self, name, parameters, body):
        self.known.setdefault(name, (parameters, body))
        self.needed = {}

    def needs(self, name):
        """Whether a macro has inline assembly that cannot be translated where it is defined."""
        if name not in self.needed:
            self.needed[name] = False  # it may use itself
            body = self.known[name][1] if name in self.known else []
            texts = [text for _, text, _ in body]
            found = any(self.needs(text) for text in texts if text in self.known)
            for i, text in enumerate(texts):
                names = text in ASM or self.is_asm(text)
                while names and i + 1 < len(texts) and texts[i + 1] in VOLATILE:
                    i += 1
                if names and texts[i + 1 : i + 2] == ["("]:
                    found = found or not is_literal(body[i + 2 : closing(body, i + 1)])
            self.needed[name] = found
        return self.needed[name]

    def is_asm(self, name):
        """Whether a macro is another name of asm."""
        parameters, body = self.known.get(name, (None, []))
        return parameters is None and bool(body) and body[0][1] in ASM and len(body) <= 2

    def expand(self, tokens):
        """Tokens without macros, as the preprocessor would leave them."""
        left, result = [(*token[:3], frozenset(*token[3:])) for token in reversed(tokens)], []
        while left:
            kind, text, space, hidden = left.pop()
            parameters, body = self.known.get(text, (None, None))
            if kind != "name" or body is None or text in hidden:
                result.append((kind, text, space, hidden))
                continue
            arguments = {}
            if parameters is not None:
                if not left or left[-1][1] != "(":
                    result.append((kind, text, space, hidden))
                    continue
                left.pop()
                arguments = dict(zip(parameters, self.arguments(left, parameters)))
            new = self.substitute(body, arguments)
            new = [(k, t, s, (frozenset(*h) if h else frozenset()) | hidden | {text})
                   for k, t, s, *h in new]  # fmt: skip
            if new:
                new[0] = (*new[0][:2], space, new[0][3])
            left += reversed(new)
        return result

    @staticmethod
    def arguments(left, parameters):
        """Takes the arguments of a macro, with the bracket at their end, from a reversed list."""
        result, depth = [[]], 0
        while left:
            token = left.pop()
            if token[1] == ")" and depth == 0:
                break
            depth += (token[1] in ("(", "[", "{")) - (token[1] in (")", "]", "}"))
            variadic = parameters[-1:] == ["__VA_ARGS__"] and len(result) == len(parameters)
            if token[1] == "," and depth == 0 and not variadic:
                result.append([])
            else:
                result[-1].append(token)
        return result + [[]] * (len(parameters) - len(result))

    def substitute(self, body, arguments):
        result, i = [], 0
        while i < len(body):
            kind, text, space = body[i]
            following = [t for _, t, _ in body[i + 1 : i + 3]]
            if text == "#" and following[:1] == ["#"] and result and i + 2 < len(body):
                new = arguments.get(body[i + 2][1], [body[i + 2]])
                before = result.pop()
                pasted = before[1] + (new[0][1] if new else "")
                result.append((kind_of(pasted), pasted, before[2]))
                result += new[1:]
                i += 3
            elif text == "#" and following[:1] and following[0] in arguments:
                inner = text_of(arguments[following[0]]).replace("\\", "\\\\").replace('"', '\\"')
                result.append(("string", f'"{inner}"', space))
                i += 2
            elif text in arguments:
                pastes = following == ["#", "#"]
                new = arguments[text] if pastes else self.expand(arguments[text])
                result += [(k, t, s or (space and n == 0), *h)
                           for n, (k, t, s, *h) in enumerate(new)]  # fmt: skip
                i += 1
            else:
                result.append((kind, text, space))
                i += 1
        return result


def closing(tokens, at):
    """Where the bracket at `at` closes."""
    depth = 0
    for i in range(at, len(tokens)):
        depth += (tokens[i][1] in ("(", "[", "{")) - (tokens[i][1] in (")", "]", "}"))
        if depth == 0:
            return i
    return len(tokens)
