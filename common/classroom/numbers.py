"""Grades predictions: files in which a student gives numbers, and no code."""

import ast
import json
import math
import operator
import re

from common.classroom.catalogue import Fault
from common.classroom.stage import run_stage, stages_of
from common.classroom.toolchain import scratch_folder
from common.data.files import write_file

FUNCTIONS = {
    "sqrt": math.sqrt,
    "exp": math.exp,
    "ln": math.log,
    "log": math.log,
    "log2": math.log2,
    "log10": math.log10,
}
OPERATORS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Pow: operator.pow,
    ast.USub: operator.neg,
}


def number_of(text):
    """The number that an answer means: digits, or an expression such as 4 * 64^2 or sqrt(2)."""

    def value(node):
        if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
            return float(node.value)
        if isinstance(node, ast.UnaryOp) and type(node.op) in OPERATORS:
            return OPERATORS[type(node.op)](value(node.operand))
        if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
            return OPERATORS[type(node.op)](value(node.left), value(node.right))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) == 1:
            return FUNCTIONS[node.func.id](value(node.args[0]))
        raise ValueError(text)

    if len(text) > 200:
        raise ValueError("too long")
    # 1,179,648 and 1 179 648 and 1'179'648 are one number each.
    text = re.sub(r"(?<=\d)[,_' ](?=\d{3}(?:\D|$))", "", text.strip()).replace("^", "**")
    try:
        result = value(ast.parse(text.strip(), mode="eval").body)
    except (
        SyntaxError,
        ArithmeticError,
        LookupError,
        TypeError,
        RecursionError,
        MemoryError,
    ) as error:
        raise ValueError(str(error)) from error
    if isinstance(result, complex) or not math.isfinite(result):
        raise ValueError(text)
    return result


def read_numbers(text):
    """name -> number, or None for what cannot be read as a number, of a file of answers."""
    numbers = {}
    for line in text.split("\n")[:1000]:
        name, equals, rest = line.partition("#")[0].partition("=")
        if equals:
            try:
                numbers[name.strip()] = number_of(rest)
            except ValueError:
                numbers[name.strip()] = None
    return numbers


def is_open(text, name):
    """Whether nothing but the start's question mark stands behind a name of a file of answers."""
    given = re.search(rf"^\s*{re.escape(name)}\s*=([^#\n]*)", text, re.MULTILINE)
    return not given or given[1].strip() in ("", "?")


def questions(toolchain, exercise):
    """The questions with the truth, which the grader counts. It holds no student's code and is
    kept."""
    kept = toolchain.cache / f"{exercise.id}-{toolchain.key(exercise)}.json"
    if kept.exists():
        return json.loads(kept.read_text(encoding="utf-8"))
    with scratch_folder() as folder:
        said, _ = run_stage(toolchain, exercise, folder, "questions")
    if said["verdict"] == "skipped":
        return []
    if said["verdict"] != "questions":
        raise Fault(f"the grader of {exercise.id} gives no answers: {said['message']}")
    write_file(kept, json.dumps(said["questions"]))
    return said["questions"]


def near(number, truth, within):
    """Whether a number is right, up to a share of it."""
    return number == truth or abs(number - truth) <= within * abs(truth)


def grade(toolchain, exercise, answer):
    """Grades a file of answers: a stage for each question."""
    results = stages_of(exercise)
    numbers = read_numbers(answer)
    missing = [name for name in exercise.points if numbers.get(name) is None]
    missing = [name for name in missing if name != "complete"]
    if missing:
        results[0].verdict = "refused"
        open_ = [name for name in missing if is_open(answer, name)]
        results[0].message = (
            f"no number yet for: {', '.join(open_)}"
            if open_
            else f"cannot read the number of: {', '.join(missing)}"
        ) + "; write digits or a small expression such as 4 * 64^2"
        return results
    results[0].verdict = "passed"
    asked = {question["name"]: question for question in questions(toolchain, exercise)}
    for result in results[1:]:
        if not asked:
            result.verdict, result.message = (
                "skipped",
                "this machine has no watched lab, which needs Linux",
            )
            continue
        question, number = asked[result.name], numbers[result.name]
        if near(number, question["truth"], question["within"]):
            result.verdict = "passed"
            continue
        result.verdict = "refused"
        more = "too large" if number > question["truth"] else "too small"
        sizes = ", with the task's own sizes" if exercise.variant else ""
        result.message = f"{number:.10g} is {more}; think again{sizes}"
        for value, says in question["mistakes"]:
            if near(number, value, question["within"]):
                result.message = says
                break
    return results


def digits(number):
    """A number as one would type it."""
    return str(int(number)) if number == int(number) else repr(number)


def filled(exercise, numbers):
    """The file of answers with these numbers."""
    lines = []
    for line in exercise.start().split("\n"):
        name = line.partition("#")[0].partition("=")[0].strip()
        lines.append(f"{name} = {digits(numbers[name])}" if name in numbers else line)
    return "\n".join(lines)


def solution(toolchain, exercise):
    """The file of answers with the right ones."""
    if not exercise.has_solution():
        raise Fault("this copy of the course was made without solutions; ask your teacher")
    return filled(exercise, {q["name"]: q["truth"] for q in questions(toolchain, exercise)})


def wrong_answers(toolchain, exercise):
    """As grading.wrong_answers(): one number of each is a typical wrong one."""
    asked = questions(toolchain, exercise)
    truth = {q["name"]: q["truth"] for q in asked}
    return [
        (f"{name} = {digits(x)}", says, name, says, filled(exercise, {**truth, name: x}))
        for name, mistakes in ((q["name"], q["mistakes"]) for q in asked)
        for x, says in mistakes
    ]
