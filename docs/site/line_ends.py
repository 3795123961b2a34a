"""Where a line does not end: between a number and its unit, behind the sign of infinity, between a
formula and its punctuation, and within a short word of code such as an option. And the lexer of
commands."""

import re

from docutils import nodes
from pygments.lexer import RegexLexer, bygroups, default
from pygments.token import Comment, Generic, Name, String, Text
from sphinx.transforms import SphinxTransform

UNIT = re.compile(
    r"(?<=\d) (?=%|(?:[KMGT]i?B(?:/s)?|kB|bytes?|bits?|[nmuµ]?s|min|h|hours?|minutes?|seconds?|"
    r"[kMG]Hz|[MGT]FLOPs?(?:/s)?|pixels?)\b)|(?<=\d h) (?=\d\d\b)"
)
INFINITY = re.compile(r"(?<![\w)\]-])-(?=inf)")
CODE = (nodes.literal, nodes.literal_block, nodes.math, nodes.math_block, nodes.raw)
SHORT = re.compile(r'<span class="pre">(?=(?:-[^<]{1,30}|(?:[^<&]|&\w+;){1,20})</span>)')

NAME = re.compile(r"(?<=<p>)(<a [^>]*>)?([^<]*_[^<]*)(?=</[ap]>)")
FORMULA = re.compile(
    r"(?P<open>[(\[“‘]*)(?P<math><math\b(?:(?!</math>).)*</math>)(?P<close>[.,;:!?)\]”’]*)",
    re.DOTALL,
)
ROW = re.compile(r'<tr class="row-\w+">\s*<t[dh][^>]*>.*?</t[dh]>', re.DOTALL)


class Units(SphinxTransform):
    """A space that does not break before a unit, and a minus that does not before infinity."""

    default_priority = 870  # before titles are collected, for the sidebar and links

    def apply(self, **_):
        before = ""  # a figure and its unit may be two texts: a comment stood between them
        for text in list(self.document.findall(nodes.Text)):
            if not isinstance(text.parent, CODE):
                made = UNIT.sub("\N{NO-BREAK SPACE}", before + text)[len(before) :]
                made = INFINITY.sub("\N{MINUS SIGN}", made)
                if made != text:
                    text.parent.replace(text, nodes.Text(made))
            if not isinstance(text.parent, nodes.raw):
                before = text[-1:] or before


def whole(body):
    """The HTML of a page whose options and other short words of code have a class of their own, as
    have formulas with their punctuation: a browser may end a line beside any formula. Names in the
    first column of a table may end a line behind an underscore."""

    def name(found):
        return (found[1] or "") + found[2].replace("_", "_<wbr/>")

    def formula(found):
        if not found["open"] + found["close"]:
            return found[0]
        return f'<span class="whole">{found[0]}</span>'

    body = FORMULA.sub(formula, body)
    body = ROW.sub(lambda row: NAME.sub(name, row[0], count=1), body)
    return SHORT.sub('<span class="pre whole">', body)


class Console(RegexLexer):
    """Commands, their options and comments; where a prompt stands before the commands, the other
    lines are output. Pygments's lexer of the shell takes `./learn test` for a call of test."""

    name, aliases = "Commands", ["sh", "console"]
    tokens = {
        "root": [(r"\A(?=(?s:.*?)^\$ )", Text, "session"), default("commands")],
        "session": [(r"\$ ", Generic.Prompt, ("words", "first")), (r".*\n", Generic.Output)],
        "commands": [(r"\s+", Text), (r"#.*", Comment.Single), default(("words", "first"))],
        "first": [
            (r"(\w+=)(\S*)(\s+)", bygroups(Name.Variable, Text, Text)),
            (r"[^\s#]+", Name.Function, "#pop"),
            default("#pop"),
        ],
        "words": [
            (r"\n", Text, "#pop"),
            (r"(\s)(#.*)", bygroups(Text, Comment.Single)),
            (r"(\s)(--?[\w-]+)", bygroups(Text, Name.Attribute)),
            (r"'[^']*'|\"[^\"]*\"", String),
            (r"(?:\|\|?|&&|;)[ \t]*", Text, "first"),
            (r"\\\n|[^\s\\'\"|&;]+|.", Text),
        ],
    }
