"""How an example was started, and how it ends."""

import sys


class Failure(Exception):
    """What cannot be done; the text is the message."""

    status = 2


class Skipped(Failure):
    """What this machine lacks; the text is the message."""

    status = 77


def module():
    """The name of the module that runs: 05_flash_forward.interface.example."""
    return sys.modules["__main__"].__spec__.name


def exit_with(main):
    """Runs main() as a program. An error with a `status` is one line, and ends it with that; one of
    the system ends it with 2."""
    sys.stdout.reconfigure(line_buffering=True)  # a run that is cut leaves its lines
    try:
        sys.exit(main())
    except Exception as error:
        if not isinstance(error, OSError) and not hasattr(error, "status"):
            raise
        print(f"{module().rpartition('.')[2]}.py: {error}", file=sys.stderr)
        sys.exit(getattr(error, "status", 2))
