"""A second palette for a picture: its colours where the reader likes dark pages.

A colour keeps its hue, and its lightness is turned round, as a person sees it (B. Ottosson, *A
perceptual color space for image processing*, 2020). Pale fills get more light and more colour than
that: beside black they are harder to tell apart than beside white. Rules in a <style> override the
attributes: where they are not understood, the picture is as it was drawn.
"""

import re

COLOUR = re.compile(r'\b(fill|stroke)="(#[0-9a-fA-F]{6}|#[0-9a-fA-F]{3})"')
# In the dark: the lightness of white and at most of black, how much of the range between them, what
# lifts pale fills, and how much more colour there is.
PAPER, INK, RANGE = 0.225, 0.97, 0.93
LIFT, MORE = 0.85, 1.3
TO_CONES = (
    (0.4122214708, 0.5363325363, 0.0514459929),
    (0.2119034982, 0.6806995451, 0.1073969566),
    (0.0883024619, 0.2817188376, 0.6299787005),
)
TO_LAB = (
    (0.2104542553, 0.7936177850, -0.0040720468),
    (1.9779984951, -2.4285922050, 0.4505937099),
    (0.0259040371, 0.7827717662, -0.8086757660),
)
FROM_LAB = ((1, 0.3963377774, 0.2158037573), (1, -0.1055613458, -0.0638541728))
FROM_LAB += ((1, -0.0894841775, -1.2914855480),)
FROM_CONES = (
    (4.0767416621, -3.3077115913, 0.2309699292),
    (-1.2684380046, 2.6097574011, -0.3413193965),
    (-0.0041960863, -0.7034186147, 1.7076147010),
)


def _times(matrix, vector):
    return [sum(a * b for a, b in zip(row, vector)) for row in matrix]


def channels(colour):
    """Red, green and blue of #rgb or #rrggbb, linear in light, from 0 to 1."""
    digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
    values = [int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    return [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in values]


def _seen(colour):
    """A colour as a person sees it: lightness, and two coordinates of what is not grey."""
    cones = [max(v, 0) ** (1 / 3) for v in _times(TO_CONES, channels(colour))]
    return _times(TO_LAB, cones)


def dark(colour):
    """The colour that stands for this one on dark pages, as #rrggbb."""
    lightness, a, b = _seen(colour)
    lightness = min(PAPER + RANGE * max(1 - lightness, 0) ** LIFT, INK)
    # As much of the colour as a screen can show at this lightness.
    for step in range(20, -1, -1):
        share = MORE * step / 20
        cones = [v**3 for v in _times(FROM_LAB, (lightness, a * share, b * share))]
        light = _times(FROM_CONES, cones)
        if all(-1e-4 <= v <= 1.0001 for v in light):
            break
    shown = [12.92 * v if v <= 0.0031308 else 1.055 * v ** (1 / 2.4) - 0.055 for v in light]
    return "#" + "".join(f"{round(255 * min(max(v, 0), 1)):02x}" for v in shown)


def with_dark(svg):
    """The text of a picture with its second palette. A picture that has a palette keeps it."""
    if "prefers-color-scheme" in svg or not (found := sorted(set(COLOUR.findall(svg)))):
        return svg
    rules = "\n".join(f'[{name}="{c}"] {{ {name}: {dark(c)} }}' for name, c in found)
    style = f"<style>\n@media (prefers-color-scheme: dark) {{\n{rules}\n}}\n</style>\n"
    return re.sub(r"(<svg\b[^>]*>\n?)", lambda match: match[0] + style, svg, count=1)
