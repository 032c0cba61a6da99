use super::crawler_name;

const FIELDS: &[(&str, &str)] = &[
    ("ExampleBot/1.0", "ExampleBot"),
    ("ExampleBot", "ExampleBot"),
    ("  ExampleBot/1.0 (+https://example.com)", "ExampleBot"),
    ("Mozilla/5.0 (compatible; ExampleBot/0.1; +https://example.com/bot)", "ExampleBot"),
    ("Mozilla/5.0 (compatible;PetalBot;+https://webmaster.petalsearch.com)", "PetalBot"),
    ("Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)", "Googlebot"),
    (
        "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; bingbot/2.0; +http://www.bing.com/bingbot.htm) Chrome/100 Safari/537.36",
        "bingbot",
    ),
    (
        "Mozilla/5.0 (Linux; Android 6.0.1; Nexus 5X Build/MMB29P) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/41 Mobile Safari/537.36 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
        "Googlebot",
    ),
    (
        "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko); compatible; ChatGPT-User/1.0; +https://openai.com/bot",
        "ChatGPT-User",
    ),
    (
        "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_5) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/13.1.1 Safari/605.1.15 (Applebot/0.1; +http://www.apple.com/go/applebot)",
        "Applebot",
    ),
    (
        "Mozilla/5.0 (X11; Linux x86_64; Storebot-Google/1.0) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/79 Safari/537.36",
        "Storebot-Google",
    ),
    (
        "Mozilla/5.0 (compatible; archive.org_bot +http://www.archive.org/details/archive.org_bot)",
        "archive.org_bot",
    ),
    ("Mozilla/5.0 (compatible; MJ12bot/v1.4.8; http://mj12bot.com/)", "MJ12bot"),
    ("Mozilla/5.0 (compatible; SemrushBot/7~bl; +http://www.semrush.com/bot.html)", "SemrushBot"),
    ("Mozilla/5.0 (compatible; Bytespider; spider-feedback@bytedance.com)", "Bytespider"),
    ("Baiduspider+(+http://www.baidu.com/search/spider.htm)", "Baiduspider"),
    (
        "facebookexternalhit/1.1 (+http://www.facebook.com/externalhit_uatext.php)",
        "facebookexternalhit",
    ),
    (
        "LinkedInBot/1.0 (compatible; Mozilla/5.0; Apache-HttpClient +http://www.linkedin.com)",
        "LinkedInBot",
    ),
    ("AdsBot-Google (+http://www.google.com/adsbot.html)", "AdsBot-Google"),
    ("DuckDuckBot/1.1; (+http://duckduckgo.com/duckduckbot.html)", "DuckDuckBot"),
    (
        "Mozilla/5.0 (compatible; Yahoo! Slurp; http://help.yahoo.com/help/us/ysearch/slurp)",
        "Slurp",
    ),
    ("msnbot/2.0b (+http://search.msn.com/msnbot.htm)", "msnbot"),
    ("Scrapy/2.11.2 (+https://scrapy.org)", "Scrapy"),
    ("python-requests/2.31.0", "python-requests"),
    ("Go-http-client/1.1", "Go-http-client"),
    (
        "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0 Safari/537.36",
        "Mozilla",
    ),
    ("Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1)", "Mozilla"),
    // The name of a device may look like a crawler's: the last one counts.
    (
        "Mozilla/5.0 (Linux; Android 9; CUBOT P30) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/80 Mobile Safari/537.36 ExampleBot/1.0",
        "ExampleBot",
    ),
    ("\"Quoted/1.0\"", "Quoted"),
    // After the end of the comment that has `compatible`, the last product counts; links and addresses are no names.
    ("Mozilla/5.0 (compatible) Wrapper/1 (X11; Linux) Acme/2", "Acme"),
    ("Mozilla/5.0 (X11; Acme/1.0; robot@acme.example)", "Acme"),
    // Platform words come before the name, and other products before `compatible`.
    ("Mozilla/5.0 (compatible; Linux x86_64; AcmeBot/1.0; +https://acme.example)", "AcmeBot"),
    ("Mozilla/5.0 (compatible; Windows NT 10.0; Win64; x64; Acme/1.0)", "Acme"),
    ("Mozilla/5.0 (compatible; U; en; Acme/1.0)", "Acme"),
    ("Mozilla/5.0 (compatible; en-US; um-FC/1.0)", "um-FC"),
    ("DoCoMo/2.0 N905i(c100;TB;W24H16) (compatible; Acme/1.0)", "Acme"),
    ("Opera/9.80 (compatible; Acme/1.0)", "Acme"),
    ("Nokia6820/2.0 (4.83) Profile/MIDP-1.0 (compatible; Acme/1.0)", "Acme"),
    ("Mozilla/5.0+(compatible;+AcmeBot;+http://acme.example/)", "AcmeBot"),
    (
        "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/137.0.0.0 Safari/537.36; Devin/1.0; +https://devin.ai",
        "Devin",
    ),
    (
        "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/118.0.0.0 Safari/537.36 ArchiveBox/0.7.2 (+https://github.com/ArchiveBox/ArchiveBox/)",
        "ArchiveBox",
    ),
    ("Mozilla/5.0 (Windows NT 6.1) Firefox/3.6 Sucuri Integrity Monitor/2.4", "Sucuri"),
    ("Mozilla/5.0 (X11; Linux x86_64; ips-agent) Gecko/2010 Firefox/14.0.1", "ips-agent"),
    ("http.rb/2.2.2 (Mastodon/1.5.1; +https://example.social/)", "Mastodon"),
    ("curl/7.68.0 (x86_64-pc-linux-gnu) libcurl/7.68.0 OpenSSL/1.1.1", "curl"),
    ("Python/3.9 aiohttp/3.7.3", "aiohttp"),
    ("https://acme.example/ Mozilla/5.0 (Linux) (compatible; Acme/0.1)", "Acme"),
    ("Mozilla/5.0 (Linux; Android 9; SM-G960F) Chrome/80 Mobile Safari/537.36", "Mozilla"),
    ("Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:109.0) Gecko/20100101 Firefox/115.0", "Mozilla"),
    ("Mozilla/5.0 (compatible) Crawler/1.0", "Crawler"),
    (
        "Mozilla/5.0 (Linux; Android 11; Pixel 2; DuplexWeb-Google/1.0) Chrome/86 Mobile Safari/537.36",
        "DuplexWeb-Google",
    ),
    ("Mozilla/5.0 (Linux; Android 6.0.1; Nexus 5X Build/MMB29P) Chrome/126 Mobile", "Mozilla"),
];

#[test]
fn crawler_names_are_found_anywhere_in_the_field() {
    for (field, name) in FIELDS {
        assert_eq!(crawler_name(field.as_bytes()).as_deref(), Some(*name), "{field}");
    }
}

#[test]
fn fields_without_a_product_name_nobody() {
    for field in [&b""[..], b"   ", b"/1.0", b"(comment)", b"+http://h/", b"https://h/", b"\0"] {
        assert_eq!(crawler_name(field), None, "{field:?}");
    }
    assert_eq!(crawler_name(b"Foo\xff\n/1").as_deref(), Some("Foo\u{fffd}"));
}
