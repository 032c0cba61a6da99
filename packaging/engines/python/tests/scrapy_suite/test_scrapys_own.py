"""Scrapy's test class for robots.txt parsers, which only its source distribution has: PYTHONPATH names its directory."""

from tests.test_robotstxt_interface import BaseRobotParserTest
from wayleave_robots.scrapy import WayleaveRobotParser


class TestWayleaveRobotParser(BaseRobotParserTest):
    def setup_method(self):
        self._setUp(WayleaveRobotParser)

    def test_order_based_precedence(self):
        """That of Python's parser. Ours is RFC 9309's, by length, as Scrapy's test of Protego has it."""
        self.test_length_based_precedence()
