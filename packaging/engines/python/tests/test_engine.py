"""The questions that a crawler asks, as README.md has them."""

import pickle
import threading
import unittest

from wayleave_robots import RobotsTxt

PRIVATE = b"User-agent: ExampleBot\nDisallow: /private\nCrawl-delay: 2.5\n\nUser-agent: *\nDisallow: /\n\nSitemap: /map\n"


class EngineTest(unittest.TestCase):
    def setUp(self):
        self.robots = RobotsTxt(PRIVATE)

    def test_a_decision_names_rule_line_and_group(self):
        decision = self.robots.for_crawler("ExampleBot").decide("https://example.com/private/diary")
        self.assertEqual(
            (decision.allowed, bool(decision), decision.reason, decision.rule, decision.line),
            (False, False, "rule", "Disallow: /private", 2),
        )
        self.assertEqual((decision.group, decision.dialect), (["ExampleBot"], "rfc9309"))
        self.assertEqual(repr(decision), "<Decision disallow: line 2, Disallow: /private>")
        decision = self.robots.for_crawler("ExampleBot").decide("https://example.com/page")
        self.assertEqual((decision.allowed, decision.reason, decision.rule), (True, "no-matching-rule", None))

    def test_names_are_in_order_of_preference(self):
        self.assertTrue(self.robots.for_crawler(["ExampleBot-News", "ExampleBot"]).allows("/page"))
        self.assertFalse(self.robots.for_crawler("OtherBot").allows("/page"))

    def test_spellings_and_dialects_are_options(self):
        self.assertTrue(self.robots.for_crawler("ExampleBot").allows("https://example.com//private"))
        strict = self.robots.for_crawler("ExampleBot", all_spellings=True)
        self.assertFalse(strict.allows("https://example.com//private"))
        first = RobotsTxt("User-agent: *\nDisallow: /a\nAllow: /a/b\n")
        for dialect, allowed in [("rfc9309", True), ("google", True), ("koster1996", False), ("strictest", False)]:
            self.assertEqual(first.for_crawler("x", dialect=dialect).allows("/a/b"), allowed, dialect)

    def test_what_is_not_a_url_gets_no_answer(self):
        rules = self.robots.for_crawler("ExampleBot")
        for text in ["", "example.com", "mailto:a@example.com", "http://[::1", "//example.com/x"]:
            for ask in (rules.allows, rules.decide):
                with self.assertRaisesRegex(ValueError, "is not a URL"):
                    ask(text)
        self.assertEqual(rules.allows_all(["/private", "mailto:a@example.com", "/"]), [False, None, True])

    def test_the_outcome_of_the_fetch_decides(self):
        for status, allowed in [(404, True), (410, True), (206, False), (429, False), (500, False), (503, False)]:
            robots = RobotsTxt.from_status(status, b"User-agent: *\nDisallow:\n")
            self.assertEqual(robots.for_crawler("ExampleBot").allows("/page"), allowed, status)
        self.assertFalse(RobotsTxt.unreachable().for_crawler("ExampleBot").allows("/page"))
        self.assertTrue(RobotsTxt.from_status(200, PRIVATE).for_crawler("ExampleBot").allows("/page"))

    def test_mistakes_are_named(self):
        for call, words in [
            (lambda: self.robots.for_crawler("Mozilla/5.0 (compatible)"), "Mozilla"),
            (lambda: self.robots.for_crawler([]), "a crawler needs a name"),
            (lambda: self.robots.for_crawler("x", dialect="bing"), "none of the dialects rfc9309"),
            (lambda: RobotsTxt.from_status(301), "301"),
            (lambda: RobotsTxt.from_status(200), "data"),
        ]:
            with self.assertRaisesRegex(ValueError, words):
                call()
        with self.assertRaises(TypeError):
            pickle.dumps(self.robots)

    def test_directives(self):
        self.assertEqual(self.robots.for_crawler("ExampleBot").crawl_delay, 2.5)
        self.assertIsNone(self.robots.for_crawler("OtherBot").crawl_delay)
        self.assertEqual(self.robots.sitemaps, ["/map"])

    def test_any_bytes_parse(self):
        for data in [b"", b"\xff\xfe\0", bytes(range(256)) * 5000, "\u00e9\ud7ff", bytearray(b"\0")]:
            RobotsTxt(data).for_crawler("ExampleBot").allows("/")

    def test_a_file_is_bytes_or_text(self):
        for data in [None, [85, 115], 7]:
            with self.assertRaises(TypeError, msg=repr(data)):
                RobotsTxt(data)

    def test_batches_let_other_threads_run(self):
        rules = RobotsTxt(b"User-agent: *\nDisallow: /*a*a*a*b\n").for_crawler("ExampleBot")
        urls = ["/" + "a" * 2000] * 20_000
        started, answers = threading.Event(), []

        def decide():
            started.set()
            answers.extend(rules.allows_all(urls))

        thread = threading.Thread(target=decide)
        thread.start()
        started.wait()
        ran = 0
        while thread.is_alive():
            ran += 1
        thread.join()
        self.assertEqual(answers, [True] * len(urls))
        self.assertGreater(ran, 0)


if __name__ == "__main__":
    unittest.main()
