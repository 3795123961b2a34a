"""The facts of the pages: what their sentences say of records. docs/README.md says how a page names
one.

A fact is a public function of one of these modules, or a method of one of their objects: the name
`forward.gain 12 11` on a page is lesson05.forward.gain("12", "11"). It returns a number, several
numbers (the page shows their range) or a truth."""

import importlib
import inspect

from docs.facts.records import Family

MODULES = ("lesson04", "lesson05", "lesson06", "course")


def facts():
    """{name: function} of all facts. A name that two modules have is an error."""
    found = {}
    for module in (importlib.import_module(f"docs.facts.{name}") for name in MODULES):
        here = {}
        for name, thing in vars(module).items():
            if inspect.isfunction(thing) and thing.__module__ == module.__name__:
                here[name] = thing
            elif isinstance(thing, Family):
                here |= {f"{name}.{m}": f for m, f in inspect.getmembers(thing, inspect.ismethod)}
        for name, fact in here.items():
            private = name.rpartition(".")[2].startswith("_")
            if not private and found.setdefault(name, fact) != fact:
                raise ValueError(f"two modules have a fact {name}.")
    return found
