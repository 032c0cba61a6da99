//! Tokens of well-known crawlers anywhere in User-Agent.

use super::{Case, shop, statuses};
use crate::harness::Wayleave;
use crate::harness::crawler::crawler;

/// Returns a request for an allowed page with the token of another organisation's crawler.
const fn foreign(name: &'static str, bytes: &'static str) -> Case {
    Case { name, bytes, statuses: &[403], reaches: &[] }
}

const fn own(name: &'static str, bytes: &'static str) -> Case {
    Case { name, bytes, statuses: &[200], reaches: &["/a"] }
}

#[rustfmt::skip]
const CASES: &[Case] = &[
    foreign("a known name as the first product", "GET http://shop.test/a HTTP/1.1\r\nHost: shop.test\r\nUser-Agent: Googlebot/2.1\r\n\r\n"),
    foreign("a known name as the second product", "GET http://shop.test/a HTTP/1.1\r\nHost: shop.test\r\nUser-Agent: x Googlebot/2.1\r\n\r\n"),
    foreign("a known name in a comment behind curl", "GET http://shop.test/a HTTP/1.1\r\nHost: shop.test\r\nUser-Agent: curl/8 (compatible; Googlebot/2.1)\r\n\r\n"),
    foreign("a known name in a comment behind our own", "GET http://shop.test/a HTTP/1.1\r\nHost: shop.test\r\nUser-Agent: ExampleBot/1.0 (compatible; Googlebot/2.1)\r\n\r\n"),
    foreign("a known name behind another compatible", "GET http://shop.test/a HTTP/1.1\r\nHost: shop.test\r\nUser-Agent: Mozilla/5.0 (compatible; x; Googlebot/2.1; +http://www.google.com/bot.html)\r\n\r\n"),
    foreign("a known name in another case", "GET http://shop.test/a HTTP/1.1\r\nHost: shop.test\r\nUser-Agent: x gOOGLEBOT\r\n\r\n"),
    foreign("a known name without a version", "GET http://shop.test/a HTTP/1.1\r\nHost: shop.test\r\nUser-Agent: x;GPTBot\r\n\r\n"),
    foreign("a known name with its version grown on", "GET http://shop.test/a HTTP/1.1\r\nHost: shop.test\r\nUser-Agent: x Googlebot2.1\r\n\r\n"),
    foreign("a known name with a dot behind it", "GET http://shop.test/a HTTP/1.1\r\nHost: shop.test\r\nUser-Agent: x Googlebot.\r\n\r\n"),
    foreign("a known name between other letters than ASCII's", "GET http://shop.test/a HTTP/1.1\r\nHost: shop.test\r\nUser-Agent: \u{fc}Googlebot\u{fc}\r\n\r\n"),
    foreign("a known name in quotes", "GET http://shop.test/a HTTP/1.1\r\nHost: shop.test\r\nUser-Agent: x \"bingbot\"\r\n\r\n"),
    foreign("a known name behind a tab", "GET http://shop.test/a HTTP/1.1\r\nHost: shop.test\r\nUser-Agent: x\tClaudeBot/1.0\r\n\r\n"),
    foreign("a known name with a hyphen hung on", "GET http://shop.test/a HTTP/1.1\r\nHost: shop.test\r\nUser-Agent: x -Googlebot-\r\n\r\n"),
    foreign("a known name with digits within", "GET http://shop.test/a HTTP/1.1\r\nHost: shop.test\r\nUser-Agent: x 360Spider/1\r\n\r\n"),
    foreign("a known name behind two others", "GET http://shop.test/a HTTP/1.1\r\nHost: shop.test\r\nUser-Agent: a/1 b/2 (c; d) e/3 PerplexityBot/1.0\r\n\r\n"),
    own("a longer name than a known one", "GET http://shop.test/a HTTP/1.1\r\nHost: shop.test\r\nUser-Agent: NotGooglebotAtAll/1\r\n\r\n"),
    own("a name that only begins like a known one", "GET http://shop.test/a HTTP/1.1\r\nHost: shop.test\r\nUser-Agent: Googlebot-of-ours/1\r\n\r\n"),
    own("a browser's User-Agent", "GET http://shop.test/a HTTP/1.1\r\nHost: shop.test\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0 Safari/537.36\r\n\r\n"),
];

#[test]
fn a_well_known_token_is_found_anywhere() {
    super::check_all(CASES);
}

#[test]
fn every_token_but_its_own_is_refused_to_a_crawler() {
    let origin = shop();
    let own = crawler("search", "Googlebot").matched_by("addresses", ["127.0.0.1"]);
    let proxy = Wayleave::start_with(&origin, |settings| settings.with(own));
    for (agent, expected) in [
        ("Mozilla/5.0 (compatible; x; googlebot/2.1)", 200),
        ("Googlebot/2.1 (like bingbot)", 403),
        ("Googlebot/2.1 Googlebot-News", 403),
    ] {
        let mut wire = proxy.connect();
        wire.send(format!(
            "GET http://shop.test/a HTTP/1.1\r\nHost: shop.test\r\nUser-Agent: {agent}\r\nConnection: close\r\n\r\n"
        ));
        assert_eq!(statuses(&mut wire), [expected], "{agent}");
    }
}

pub fn names() -> Vec<String> {
    CASES.iter().map(|case| case.name.to_owned()).collect()
}
