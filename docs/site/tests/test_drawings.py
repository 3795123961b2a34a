"""Tests of check_drawings.py and of the size of drawings: each kind of fault is found, and a good
drawing has none."""

import unittest

from common.drawing.dark import with_dark
from common.drawing.svg import Drawing
from docs.site import check_drawings
from docs.site.transforms import Look, picture


def drawn(width=400, fill="#222222", behind="#ffffff", size=12, words="a word", narrow=()):
    d = Drawing(width, 100, "A drawing")
    d.box(0, 0, width, 100, behind)
    d.text(60, 50, words, fill=fill, font_size=size)
    d.narrow(*narrow)
    return d.svg()


class PalettesTest(unittest.TestCase):
    def faults(self, svg):
        return "\n".join(check_drawings.palettes(svg))

    def test_a_drawing_with_both_palettes_has_no_fault(self):
        self.assertEqual(self.faults(with_dark(drawn())), "")

    def test_a_colour_without_a_dark_one_is_found(self):
        self.assertIn("the fill #222222 has no dark colour", self.faults(drawn()))

    def test_pale_text_is_found_on_what_is_behind_it(self):
        self.assertIn("contrast of", self.faults(with_dark(drawn(fill="#999999"))))
        self.assertIn("contrast of", self.faults(with_dark(drawn(behind="#b00020"))))

    def test_a_share_of_a_colour_counts(self):
        self.assertEqual(check_drawings.blend("#000", "#ffffff", 0.5), "#808080")


class FillsTest(unittest.TestCase):
    def faults(self, *fills):
        d = Drawing(100, 100, "A timeline")
        for i, fill in enumerate(fills):
            d.box(0, 10 * i, 50, 10, fill)
        return list(check_drawings.fills(d.svg()))

    def test_fills_that_differ_have_no_fault(self):
        self.assertEqual(self.faults("#dcdcdc", "#d9c2ea", "#8fbce6"), [])

    def test_fills_that_look_alike_are_found(self):
        found = self.faults("#dcdcdc", "#e5d6f0")
        self.assertIn("the fills #dcdcdc and #e5d6f0 look alike in light", found)

    def test_a_fill_like_the_paper_is_found(self):
        self.assertIn("the fill #f4f4f4 looks like the paper in dark", self.faults("#f4f4f4"))


class WordsTest(unittest.TestCase):
    def test_colours_are_found_and_shapes_are_not(self):
        for words in ("Red: column 5", "a tile (yellow)", "white there", "Shaded: computed"):
            self.assertTrue(check_drawings.hues(words), words)
        for words in ("Outlined: column 5", "read the row", "covered", "NVIDIA's white paper"):
            self.assertEqual(check_drawings.hues(words), [], words)


class SizesTest(unittest.TestCase):
    def faults(self, svg):
        return "\n".join(check_drawings.sizes(svg))

    def test_a_drawing_for_a_phone_fits_everywhere(self):
        self.assertEqual(self.faults(drawn(400)), "")

    def test_a_wide_drawing_needs_a_narrow_form(self):
        self.assertIn("a window of 390, and has no narrow form", self.faults(drawn(700)))
        halves = [(0, 0, 350, 100)], [(350, 0, 350, 100)]
        self.assertEqual(self.faults(drawn(700, narrow=halves)), "")

    def test_small_letters_of_a_narrow_form_are_found(self):
        row = [(0, 0, 700, 100)]
        self.assertIn(
            "letters of 6.1 pixels in a window of 390", self.faults(drawn(700, narrow=[row]))
        )

    def test_a_word_outside_of_the_narrow_form_is_found(self):
        svg = drawn(700, narrow=[[(350, 0, 350, 100)]])
        self.assertEqual(
            list(check_drawings.left_out(svg)), ["the narrow form does not show 'a word'"]
        )

    def test_a_sliver_of_a_neighbour_in_the_narrow_form_is_found(self):
        d = Drawing(700, 100, "A drawing")
        d.box(0, 0, 350, 100, "#cfe3f5")
        for left, count in ((352, 0), (350, 1), (347, 1), (340, 0)):
            d.rows = []
            d.narrow([(left, 0, 350, 100)])
            self.assertEqual(len(list(check_drawings.slivers(d.svg()))), count, left)


class CrossedTest(unittest.TestCase):
    def faults(self, draw):
        d = Drawing(400, 100, "A drawing")
        draw(d)
        return list(check_drawings.crossed(d.svg()))

    def test_a_line_through_a_text_is_found(self):
        def later(d):
            d.text(100, 50, "a word")
            d.pointer(100, 10, 100, 90)

        self.assertEqual(self.faults(later), ["a line goes through 'a word'"])

    def test_a_pale_line_and_one_behind_a_shape_or_beside_the_text_are_right(self):
        def beside(d):
            d.line(100, 10, 100, 90, stroke="#dddddd")
            d.line(300, 10, 300, 90)
            d.text(100, 50, "a word")
            d.cell(280, 40, 40, 20, "#cfe3f5", "word")
            d.left(302, 80, "word")

        self.assertEqual(self.faults(beside), [])

    def test_texts_on_each_other_are_found(self):
        def both(d):
            d.left(10, 50, "one word")
            d.left(40, 54, "another")
            d.left(10, 70, "below")

        self.assertEqual(self.faults(both), ["'one word' and 'another' lie on each other"])


class PictureTest(unittest.TestCase):
    def image(self, svg):
        mark = Look(svg).mark()
        return f'<img class="{mark}" src="../_images/a.svg" style="width: 933px" />'

    def test_an_image_gets_its_size(self):
        html = picture(self.image(drawn(400)))
        self.assertIn('width="400" height="100"', html)
        self.assertIn("min-width: 300px; width", html)

    def test_a_narrow_form_is_for_narrow_windows(self):
        html = picture(self.image(drawn(700, narrow=([(0, 0, 350, 100)], [(350, 0, 350, 100)]))))
        self.assertIn('<source media="(max-width: 600px)" srcset="../_images/a.narrow.svg"', html)
        self.assertIn('width="350" height="206"', html)
        self.assertNotIn("min-width: ", html.split("<img")[1])

    def test_in_a_book_an_image_has_its_size_alone(self):
        halves = [(0, 0, 350, 100)], [(350, 0, 350, 100)]
        html = picture(self.image(drawn(700, narrow=halves)), book=True)
        self.assertTrue(html.startswith('<img width="700" height="100"'), html)
        self.assertNotIn("min-width", html)

    def test_other_images_stay(self):
        self.assertEqual(picture('<img src="a.png">'), '<img src="a.png">')


if __name__ == "__main__":
    unittest.main()
