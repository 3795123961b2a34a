"""What ./learn exercise, ./learn grade and ./learn classroom run, in the repository's root:

    python3 -m common.classroom BUILD FOLDER COMMAND ...

FOLDER is what paths in the command are relative to.
"""

import functools
import os
import sys

from common.classroom import catalogue, grade, student, teacher
from common.classroom.toolchain import Toolchain

USAGE = """usage: ./learn classroom COMMAND ...

For teachers. ./learn classroom COMMAND --help explains each.

  export    write a course repository: lessons, exercises, no solutions
  gate      test the graders: right answers pass, known mistakes fail, for their reasons
"""


def main(arguments):
    """Runs a command; returns the exit status: 0 done, 1 a check failed, 2 it could not be done."""
    build, folder, command, *rest = arguments
    os.chdir(folder)
    commands = {"exercise": student.main, "grade": grade.main}
    if command == "classroom":
        command, *rest = rest or ["--help"]
        commands = {"export": teacher.export, "gate": teacher.gate}
        if command in ("-h", "--help"):
            print(USAGE)
            return 0
    try:
        if command not in commands:
            known = " and ".join(commands)
            raise catalogue.Fault(f"unknown command '{command}'; there are {known}")
        return commands[command](rest, catalogue.ROOT, functools.partial(Toolchain, build))
    except BrokenPipeError:  # the reader closed the pipe
        sys.stdout = None
        return 0
    except (catalogue.Fault, OSError, ValueError) as fault:
        print(f"learn: {fault}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print()
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
