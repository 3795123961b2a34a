"""Grades predictions: files in which a student gives numbers, and no code. The questions, with the
truth and with typical mistakes, come from the grader."""

import ast
import math
import operator
import re

FUNCTIONS = {"sqrt": math.sqrt, "exp": math.exp, "ln": math.log, "log": math.log}
FUNCTIONS.update({"log2": math.log2, "log10": math.log10})
OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul}
OPERATORS.update({ast.Div: operator.truediv, ast.FloorDiv: operator.floordiv})
OPERATORS.update({ast.Pow: operator.pow, ast.USub: operator.neg})


def number_of(text):
    """The number that an answer means: digits, or an expression such as 4 * 64^2 or sqrt(2).
    Raises ValueError for what is none."""

    def value(node):
        if isinstance(node, ast.Constant) and type(node.value) in (int, float):
            return float(node.value)
        if isinstance(node, ast.UnaryOp):
            return OPERATORS[type(node.op)](value(node.operand))
        if isinstance(node, ast.BinOp):
            return OPERATORS[type(node.op)](value(node.left), value(node.right))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            return FUNCTIONS[node.func.id](*map(value, node.args))
        raise ValueError(text)

    if len(text) > 200:
        raise ValueError("too long")
    # 1,179,648 and 1 179 648 and 1'179'648 are one number each.
    text = re.sub(r"(?<=\d)[,_' ](?=\d{3}(?:\D|$))", "", text.strip()).replace("^", "**")
    try:
        result = value(ast.parse(text.strip(), mode="eval").body)
        if not math.isfinite(result):
            raise ValueError(text)
    except (SyntaxError, ArithmeticError, LookupError, TypeError, RecursionError) as error:
        raise ValueError(str(error)) from error
    return result


def read_numbers(text):
    """name -> number, or the text of what cannot be read as a number, of a file of answers."""
    numbers = {}
    for line in text.split("\n")[:1000]:
        name, equals, rest = line.partition("#")[0].partition("=")
        if equals:
            try:
                numbers[name.strip()] = number_of(rest)
            except ValueError:
                numbers[name.strip()] = rest.strip()
    return numbers


def near(number, truth, within):
    """Whether a number is right, up to a share of it."""
    return number == truth or abs(number - truth) <= within * abs(truth)


def grade(questions, exercise, answer, results):
    """Grades a file of answers: a stage for each question, after the one that asks for all."""
    numbers = read_numbers(answer)
    given = {name: numbers.get(name, "") for name in exercise.points if name != "complete"}
    no_number = [name for name, number in given.items() if isinstance(number, str)]
    if no_number:
        results[0].verdict = "refused"
        open_ones = [name for name in no_number if given[name] in ("", "?")]
        what = "no number yet for" if open_ones else "cannot read the number of"
        names = ", ".join(open_ones or no_number)
        results[0].message = f"{what}: {names}; write digits or an expression such as 4 * 64^2"
        return
    results[0].verdict = "passed"
    asked = {question["name"]: question for question in questions}
    for result in results[1:]:
        if not asked:
            result.verdict = "skipped"
            result.message = "this machine has no watched lab, which needs Linux"
            continue
        question, number = asked[result.name], given[result.name]
        truth, within = question["truth"], question["within"]
        result.verdict = "passed" if near(number, truth, within) else "refused"
        if not result.passed:
            more = "too large" if number > truth else "too small"
            sizes = ", with the task's own sizes" if exercise.variant else ""
            says = [says for value, says in question["mistakes"] if near(number, value, within)]
            result.message = (says or [f"{number:.10g} is {more}; think again{sizes}"])[0]


def filled(exercise, numbers):
    """The file of answers with these numbers."""
    lines = exercise.start().split("\n")
    for at, line in enumerate(lines):
        name = line.partition("#")[0].partition("=")[0].strip()
        if name in numbers:
            lines[at] = f"{name} = {numbers[name]!r}"
    return "\n".join(lines)


def digits(number):
    """A number as one would type it."""
    return int(number) if number == int(number) else number


def truths(questions):
    """name -> the right number."""
    return {question["name"]: digits(question["truth"]) for question in questions}


def wrong_answers(questions, exercise):
    """As grading.wrong_answers(): one number of each is a typical wrong one."""
    truth = truths(questions)
    return [
        (f"{q['name']} = {x}", says, q["name"], says, filled(exercise, {**truth, q["name"]: x}))
        for q in questions
        for x, says in ((digits(value), says) for value, says in q["mistakes"])
    ]
