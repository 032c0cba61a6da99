//! A refusal as a page, for browsers.

use wayleave_decision_log::crawler_in_words;
use wayleave_notation::harmless::{escape_controls, escape_html};

use super::problem::ProblemDetails;

/// The policy of the page: no scripts, and nothing from elsewhere, whatever got past the escaping.
pub(super) const CONTENT_SECURITY_POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

const STYLE: &str = ":root{color-scheme:light dark}body{font:1rem/1.5 sans-serif;max-width:45rem;margin:3rem auto;\
    padding:0 1rem}dt{font-weight:bold;margin-top:.75rem}dd{margin:0;overflow-wrap:anywhere}";

/// Returns the page. `proxy` is the proxy's name.
pub(super) fn html(proxy: &str, problem: &ProblemDetails<'_>) -> Vec<u8> {
    let status = problem.status;
    let title = text(problem.title);
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>{status} {title}</title>\n\
         <style>{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n\
         <p>This answer ({status}) is from the proxy {}, not from the site.</p>\n<dl>\n",
        text(proxy)
    );
    for (name, value) in rows(problem) {
        page += &format!("<dt>{name}</dt><dd>{}</dd>\n", text(&value));
    }
    page += "</dl>\n</body>\n</html>\n";
    page.into_bytes()
}

/// Returns the lines of the page, in their order.
fn rows(problem: &ProblemDetails<'_>) -> Vec<(&'static str, String)> {
    let owned = |value: Option<&str>| value.map(str::to_owned);
    let tokens = problem.tokens.join(", ");
    let rule = problem.line.zip(problem.rule).map(|(line, rule)| format!("line {line}: {rule}"));
    let wait = problem.retry_after.map(|seconds| format!("{seconds} seconds from now"));
    [
        ("Requested", owned(problem.url)),
        ("Why", Some(problem.detail.to_owned())),
        ("robots.txt", owned(problem.robots_url)),
        ("Rule", rule),
        ("Group", problem.group.map(|group| format!("User-agent: {group}"))),
        ("Crawler", owned(problem.crawler.map(crawler_in_words))),
        ("Product tokens", (!tokens.is_empty()).then_some(tokens)),
        ("Ask", owned(problem.owner)),
        ("Contact", owned(problem.contact)),
        ("Try again", wait),
        ("Reason", Some(problem.reason.to_owned())),
        ("Decision", Some(problem.decision_id.to_string())),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some((name, value?)))
    .collect()
}

/// Returns untrusted text for the content of an element.
fn text(untrusted: &str) -> String {
    escape_html(&escape_controls(untrusted))
}

#[cfg(test)]
mod tests {
    use wayleave_decision::{DecidingRule, Reason, Refusal, RefusalBasis};
    use wayleave_decision_log::new_decision_id;

    use super::*;
    use crate::record::NamedDecision;

    #[test]
    fn nothing_from_strangers_becomes_markup() {
        let hostile = "</dd><script>alert(1)</script>&amp;\u{202e}\"'";
        let decision = NamedDecision {
            id: new_decision_id(),
            identity: None,
            url: Some(format!("http://shop.test/{hostile}")),
        };
        let rule =
            DecidingRule { line: 2, text: hostile.to_owned(), group: Some(hostile.to_owned()) };
        let refusal = Refusal {
            robots_url: Some(hostile.into()),
            basis: Some(Box::new(RefusalBasis::Rule(rule))),
            ..Refusal::new(Reason::Rule, hostile)
        };
        let page = html(hostile, &ProblemDetails::new(&decision, &refusal));
        let page = String::from_utf8(page).unwrap();
        assert!(!page.contains("<script") && !page.contains('\u{202e}'), "{page}");
        let shown = "&lt;/dd&gt;&lt;script&gt;alert(1)&lt;/script&gt;&amp;amp;\\u{202e}&quot;'";
        assert_eq!(page.matches(shown).count(), 6, "{page}");
        // The elements that the template itself opens, and nothing else.
        let tags = page.matches('<').count();
        assert_eq!(tags, page.matches('>').count(), "{page}");
    }
}
