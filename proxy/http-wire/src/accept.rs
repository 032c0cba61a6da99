//! `Accept`: whether a client prefers a page to JSON.

/// Returns whether `Accept` prefers HTML to JSON (RFC 9110 section 12.5.1), as that of a browser which opens a page does. HTML has
/// to be named: programs that take anything send `*/*`.
pub fn prefers_html(values: &[&[u8]]) -> bool {
    let mut html = 0.0_f32;
    let mut any = 0.0_f32;
    let mut json = None::<f32>;
    for range in values.iter().flat_map(|value| value.split(|byte| *byte == b',')) {
        let Ok(range) = str::from_utf8(range) else {
            continue;
        };
        let mut parts = range.split(';').map(str::trim);
        let kind = parts.next().unwrap_or_default();
        let weight = weight(parts);
        let is_any_of =
            |kinds: &[&str]| kinds.iter().any(|wanted| kind.eq_ignore_ascii_case(wanted));
        if is_any_of(&["text/html"]) {
            html = html.max(weight);
        } else if is_any_of(&["application/problem+json", "application/json"]) {
            json = Some(json.unwrap_or_default().max(weight));
        } else if is_any_of(&["*/*", "application/*"]) {
            any = any.max(weight);
        }
    }
    match json {
        Some(json) => html > json,
        None => html > 0.0 && html >= any,
    }
}

/// Returns the weight among the parameters of a media range: 1 if none is given, 0 if it is not a number.
fn weight<'a>(parameters: impl Iterator<Item = &'a str>) -> f32 {
    let mut parameters = parameters.filter_map(|parameter| parameter.split_once('='));
    let weight = parameters.find(|(name, _)| name.trim().eq_ignore_ascii_case("q"));
    weight.map_or(1.0, |(_, value)| value.trim().parse().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_for_those_who_name_it_first() {
        for (accept, expected) in [
            ("text/html", true),
            ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", true),
            ("Text/HTML; charset=utf-8; q=0.9, */*;q=0.8", true),
            ("text/html, */*", true),
            ("application/problem+json;q=0.5, text/html", true),
            ("", false),
            ("*/*", false),
            ("text/*", false),
            ("text/html;q=0", false),
            ("text/html;q=much", false),
            ("text/html;q=nan", false),
            ("text/html;q=0.5, */*", false),
            ("text/html, application/json", false),
            ("application/problem+json, text/html;q=0.9", false),
            ("text/htmlx", false),
        ] {
            assert_eq!(prefers_html(&[accept.as_bytes()]), expected, "{accept}");
        }
        assert!(prefers_html(&[b"image/png", b"text/html"]));
        assert!(!prefers_html(&[b"text/html", b"application/json"]));
        assert!(!prefers_html(&[b"\xff"]));
    }
}
