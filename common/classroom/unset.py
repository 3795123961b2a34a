"""Finds local variables that a student's file declares without a value, and gives them one: what
reads them before they are set then shows."""

import re

LONGEST = 300  # columns of a line that is looked at
# A declaration of local variables, one of them without a value, and what declares something else.
DECLARATION = re.compile(r"[^;]*?\b((?:[\w:]+(?:<[^<>;=()]*>)?\s+)+)(\w[^;()]*);")
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


def filled(exercise, answer, only=None):
    """A student's file in which local variables that are declared without a value, in lines that
    the start does not have, hold infinity; and their names.

    @param only one of them
    """
    of_start, names, lines = set(exercise.start().split("\n")), [], []
    for line in answer.split("\n"):
        found = None
        if line not in of_start and len(line) <= LONGEST:
            found = DECLARATION.match(line)
        if found and not OTHERS.search(found[1]):
            parts = re.split(r",(?![^({\[]*[)}\]])", found[2])
            own = [name[1] for name in map(UNSET.fullmatch, parts) if name]
            own = [name for name in own if only in (None, name)]
            at = found.end()
            line = line[:at] + "".join(f" ::fa_fill({name});" for name in own) + line[at:]
            names += own
        lines.append(line)
    return FILL + "\n".join(lines), list(dict.fromkeys(names))
