"""Finds local variables that a student's file declares without a value, and gives them one: what
reads them before they are set then shows."""

import re

LONGEST = 300  # columns of a line that is looked at
# A declaration of local variables, at the beginning of a statement or behind { or ).
BEGIN = re.compile(r"(?:^|[{)])\s*")
DECLARATION = re.compile(r"((?:(?:::)?[A-Za-z_][\w:]*(?:<[^<>;=()]*>)?\s+)+)(\w[^;()]*)")
UNSET = re.compile(r"\s*(\w+)(?:\s*\[[^\]]*\])*\s*")
OTHERS = re.compile(
    r"\b(?:return|using|typedef|goto|throw|delete|else|case|extern|static|namespace|struct|class|"
    r"template|typename|friend|__shared__|constexpr)\b"
)
# Infinity, in place of each float and double: neither a sum nor a product nor a maximum hides it.
FILL = """template <class T> void fa_fill(T& x) {
  if constexpr (std::is_trivially_default_constructible_v<T>) {
    if constexpr (std::is_same_v<std::remove_all_extents_t<T>, double>) {
      for (unsigned i = 0; i < sizeof x / 8; ++i) ((double*)&x)[i] = __builtin_inf();
    } else {
      const float infinity = __builtin_inff();
      for (unsigned i = 0; i + 4 <= sizeof x; i += 4) __builtin_memcpy((char*)&x + i, &infinity, 4);
    }
  }
}
#line 1
"""


def top_level(text):
    """A text's parts between commas that stand in no bracket."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def names_in(statement):
    """Names of the local variables that a statement declares without a value."""
    for begin in BEGIN.finditer(statement):
        found = DECLARATION.fullmatch(statement, begin.end())
        if found and not OTHERS.search(found[1]):
            parts = map(UNSET.fullmatch, top_level(found[2]))
            return [part[1] for part in parts if part]
    return []


def filled(exercise, answer, only=None):
    """A student's file in which local variables that are declared without a value, in lines that
    the start does not have, hold infinity; and their names.

    @param only one of them
    """
    of_start, names, lines = set(exercise.start().split("\n")), [], []
    for line in answer.split("\n"):
        if line not in of_start and len(line) <= LONGEST:
            *statements, rest = line.split(";")
            line = ""
            for statement in statements:
                own = [name for name in names_in(statement) if only in (None, name)]
                line += statement + ";" + "".join(f" ::fa_fill({name});" for name in own)
                names += own
            line += rest
        lines.append(line)
    return FILL + "\n".join(lines), list(dict.fromkeys(names))
