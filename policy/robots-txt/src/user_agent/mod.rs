//! Finds the crawler's name in a `User-Agent` field.

/// The characters that separate names from versions, comments and addresses.
const NAME_DELIMITERS: &[char] =
    &['/', ';', '(', ')', ',', '+', '"', '\'', '<', '>', '[', ']', '#'];

/// Returns the most specific name that a `User-Agent` field gives, or `None` if it gives none.
///
/// Crawlers that put `Mozilla/5.0` first give their own name after `compatible;`, in another part of a comment, or at
/// the end; for everyone else the first product is the name (RFC 9110 §10.1.5: "in decreasing order of their
/// significance").
pub(crate) fn crawler_name(field: &[u8]) -> Option<String> {
    // Control characters separate words, so that none gets into a name and from there into a log.
    let text = String::from_utf8_lossy(field).replace(|c: char| c.is_ascii_control(), " ");
    // Some clients send the quotes of their configuration.
    let field = text.trim_start_matches(|c: char| c == '"' || c == '\'' || c.is_whitespace());
    let first = leading_name(field)?;
    if !first.eq_ignore_ascii_case("mozilla") {
        return Some(first.to_owned());
    }
    after_compatible(field)
        .or_else(|| last_crawler_like_part(field))
        .or(Some(first))
        .map(str::to_owned)
}

/// Returns the name after the first `compatible;` that is followed by one.
fn after_compatible(field: &str) -> Option<&str> {
    let folded = field.to_ascii_lowercase();
    folded.match_indices("compatible").find_map(|(at, word)| {
        let rest = field[at + word.len()..].trim_start_matches([' ', ';', ',']);
        leading_name(rest).filter(|name| !is_browser(name))
    })
}

/// Returns the last part of the field whose name looks like a crawler's.
fn last_crawler_like_part(field: &str) -> Option<&str> {
    field
        .split([' ', ';', '(', ')', ','])
        // The last part wins: names of devices, which may look like crawlers, come first.
        .rev()
        // Links and addresses often contain `bot` without being the crawler's name.
        .filter(|part| !part.contains("://") && !part.contains('@'))
        .filter_map(leading_name)
        .find(|name| {
            let folded = name.to_ascii_lowercase();
            ["bot", "crawl", "spider"].iter().any(|word| folded.contains(word))
        })
}

fn leading_name(text: &str) -> Option<&str> {
    if text.starts_with("http://") || text.starts_with("https://") {
        return None;
    }
    // The one well-known crawler whose owner's name comes before its own.
    let start = text.strip_prefix("Yahoo! ").unwrap_or(text);
    let is_end = |c: char| c.is_whitespace() || NAME_DELIMITERS.contains(&c);
    // A colon or dot at the end belongs to the sentence, one inside to names such as `archive.org_bot`.
    let name = start.split(is_end).next()?.trim_end_matches([':', '.']);
    (!name.is_empty()).then_some(name)
}

/// Returns whether a name is one that old browsers put after `compatible;`.
fn is_browser(name: &str) -> bool {
    ["msie", "mozilla", "konqueror"].iter().any(|known| name.eq_ignore_ascii_case(known))
}

#[cfg(test)]
mod tests {
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
        (
            "Mozilla/5.0 (compatible; SemrushBot/7~bl; +http://www.semrush.com/bot.html)",
            "SemrushBot",
        ),
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
    ];

    #[test]
    fn crawler_names_are_found_anywhere_in_the_field() {
        for (field, name) in FIELDS {
            assert_eq!(crawler_name(field.as_bytes()).as_deref(), Some(*name), "{field}");
        }
    }

    #[test]
    fn fields_without_a_product_name_nobody() {
        for field in [&b""[..], b"   ", b"/1.0", b"(comment)", b"+http://h/", b"https://h/", b"\0"]
        {
            assert_eq!(crawler_name(field), None, "{field:?}");
        }
        assert_eq!(crawler_name(b"Foo\xff\n/1").as_deref(), Some("Foo\u{fffd}"));
    }
}
