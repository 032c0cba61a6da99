from collections.abc import Sequence
from typing import Literal, final

Dialect = Literal["rfc9309", "google", "koster1996", "selfhtml", "strictest"]

@final
class RobotsTxt:
    """A parsed robots.txt. Any bytes parse."""

    def __new__(cls, data: bytes | str) -> RobotsTxt: ...
    @staticmethod
    def from_status(status: int, data: bytes | str | None = None) -> RobotsTxt:
        """Returns the outcome of a fetch with this status (RFC 9309 section 2.3.1).

        404 and its like allow everything; 429 and 5xx disallow everything. Follow redirects first.
        """

    @staticmethod
    def unreachable() -> RobotsTxt:
        """Returns the outcome of a fetch that failed, which disallows everything."""

    def for_crawler(
        self,
        names: str | Sequence[str],
        *,
        dialect: Dialect = "rfc9309",
        all_spellings: bool = False,
    ) -> CrawlerRules:
        """Returns the rules for a crawler, given its product tokens in order of preference.

        `all_spellings` judges every spelling that a server may treat as the same path, such as `/a/../b`.

        Raises ValueError for what is not a product token, such as a whole User-Agent.
        """

    @property
    def sitemaps(self) -> list[str]: ...

@final
class CrawlerRules:
    """The rules of one robots.txt for one crawler."""

    def allows(self, url: str) -> bool:
        """Returns whether the crawler may fetch a URL, of which only path and query count. A path alone will do.

        Raises ValueError for what is not a URL, such as `mailto:a@example.com`.
        """

    def allows_all(self, urls: Sequence[str]) -> list[bool | None]:
        """Decides about many URLs, without holding the interpreter's lock. None stands for what is not a URL."""

    def decide(self, url: str) -> Decision:
        """Returns the decision about a URL with its reason.

        Raises ValueError for what is not a URL.
        """

    @property
    def crawl_delay(self) -> float | None:
        """The seconds to wait between two requests."""

@final
class Decision:
    """A decision with its reason; true if the URL may be fetched."""

    @property
    def allowed(self) -> bool: ...
    @property
    def reason(self) -> str:
        """`rule`, `no-matching-rule`, `no-matching-group`, `robots-txt-itself`, `unavailable`, `unreachable` or `too-costly`."""

    @property
    def rule(self) -> str | None:
        """The deciding rule, such as `Disallow: /private`."""

    @property
    def line(self) -> int | None:
        """The line of the deciding rule, from 1."""

    @property
    def group(self) -> list[str]:
        """The names on the user-agent lines of the group used."""

    @property
    def dialect(self) -> str:
        """The dialect that gave the verdict; of `strictest`, the one of the four that it comes from."""

    def __bool__(self) -> bool: ...
