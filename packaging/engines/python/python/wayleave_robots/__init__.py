"""Decides by a site's robots.txt whether a crawler may fetch a URL (RFC 9309)."""

from ._engine import CrawlerRules, Decision, RobotsTxt

__all__ = ["CrawlerRules", "Decision", "RobotsTxt"]
