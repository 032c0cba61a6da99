//! Refusals at the edge: responses by which an origin, or the bot manager in front of it, turns a request away. Only the head
//! is read.

pub use wayleave_notation::EdgeRefusal;

use crate::field_pairs::{FieldPair, values};

/// Fields that only responses of bot managers with a challenge have, with those of their values that mean one: of Cloudflare,
/// Vercel, AWS WAF and DataDome.
const CHALLENGES: [(&str, &[&str]); 4] = [
    ("cf-mitigated", &["challenge"]),
    ("x-vercel-mitigated", &["challenge"]),
    ("x-amzn-waf-action", &["challenge", "captcha"]),
    ("x-dd-b", &["1", "2"]),
];

/// Fields by which a refusal shows that a bot manager, or the edge that it belongs to, wrote it: of DataDome, HUMAN (PerimeterX),
/// Akamai, Imperva and Kasada. Other responses of the same sites may have them, too.
const MARKS: [&str; 5] =
    ["x-datadome-cid", "x-px-authorization", "x-akamai-session-info", "x-iinfo", "x-kpsdk-ct"];

/// Marks that are the values of common fields.
const MARKING_VALUES: [(&str, &[&str]); 2] =
    [("server", &["akamaighost"]), ("x-cdn", &["imperva", "incapsula"])];

/// The beginnings of the cookies by which these bot managers, and AWS WAF, recognise a browser.
const MARKING_COOKIES: [&str; 11] = [
    "datadome=",
    "_px2=",
    "_px3=",
    "_pxhd=",
    "_abck=",
    "ak_bmsc=",
    "bm_sz=",
    "incap_ses_",
    "visid_incap_",
    "reese84=",
    "aws-waf-token=",
];

/// Returns how a response with this head turns its request away, if it does.
pub fn edge_refusal(status: u16, fields: &[FieldPair<'_>]) -> Option<EdgeRefusal> {
    match status {
        402 => Some(EdgeRefusal::Payment),
        _ if CHALLENGES.iter().any(|(field, words)| has_word(fields, field, words)) => {
            Some(EdgeRefusal::Challenge)
        }
        // 428 is Akamai's status for a challenge, which sets this cookie.
        428 if has_cookie(fields, &["sec_cpt="]) => Some(EdgeRefusal::Challenge),
        401 | 403 if is_marked(fields) => Some(EdgeRefusal::Challenge),
        403 | 451 => Some(EdgeRefusal::Forbidden),
        429 => Some(EdgeRefusal::Rate),
        503 => Some(EdgeRefusal::Unavailable),
        _ => None,
    }
}

fn is_marked(fields: &[FieldPair<'_>]) -> bool {
    MARKS.iter().any(|field| values(fields, field).next().is_some())
        || MARKING_VALUES.iter().any(|(field, words)| has_word(fields, field, words))
        || has_cookie(fields, &MARKING_COOKIES)
}

fn has_word(fields: &[FieldPair<'_>], field: &str, words: &[&str]) -> bool {
    values(fields, field).any(|value| {
        let value = value.trim_ascii();
        words.iter().any(|word| value.eq_ignore_ascii_case(word.as_bytes()))
    })
}

fn has_cookie(fields: &[FieldPair<'_>], beginnings: &[&str]) -> bool {
    values(fields, "set-cookie").any(|cookie| {
        let cookie = cookie.trim_ascii_start();
        beginnings.iter().any(|beginning| cookie.starts_with(beginning.as_bytes()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    type Fields = &'static [(&'static str, &'static str)];

    /// Status, fields, and the kind; empty: none.
    const HEADS: &[(u16, Fields, &str)] = &[
        (200, &[("server", "nginx")], ""),
        (204, &[], ""),
        (301, &[("location", "/login")], ""),
        (404, &[("server", "AkamaiGHost")], ""),
        (500, &[], ""),
        (502, &[], ""),
        (401, &[("www-authenticate", "Basic realm=\"x\"")], ""),
        (407, &[], ""),
        (403, &[], "forbidden"),
        (403, &[("server", "cloudflare"), ("cf-ray", "9")], "forbidden"),
        (403, &[("crawler-error", "CrawlerForbidden")], "forbidden"),
        (451, &[("link", "<https://a.test/>; rel=\"blocked-by\"")], "forbidden"),
        (429, &[("retry-after", "9")], "rate"),
        (429, &[("set-cookie", "_abck=x; Path=/")], "rate"),
        (402, &[("crawler-price", "USD 0.01")], "payment"),
        (402, &[("cf-mitigated", "challenge")], "payment"),
        (503, &[("retry-after", "9")], "unavailable"),
        (503, &[("x-iinfo", "9-1-0 0NNN")], "unavailable"),
        (403, &[("CF-Mitigated", "challenge")], "challenge"),
        (503, &[("cf-mitigated", " Challenge ")], "challenge"),
        (403, &[("cf-mitigated", "block")], "forbidden"),
        (429, &[("x-vercel-mitigated", "challenge")], "challenge"),
        (202, &[("x-amzn-waf-action", "challenge")], "challenge"),
        (405, &[("x-amzn-waf-action", "captcha")], "challenge"),
        (405, &[], ""),
        (202, &[], ""),
        (403, &[("x-dd-b", "1"), ("x-datadome", "protected")], "challenge"),
        (200, &[("x-datadome", "protected")], ""),
        (403, &[("x-datadome", "protected")], "forbidden"),
        (401, &[("x-datadome-cid", "AHrlqAAAAAM")], "challenge"),
        (403, &[("set-cookie", "a=b"), ("set-cookie", "datadome=x; Path=/")], "challenge"),
        (200, &[("set-cookie", "datadome=x; Path=/")], ""),
        (403, &[("x-px-authorization", "3")], "challenge"),
        (403, &[("set-cookie", "_pxhd=abc; Path=/")], "challenge"),
        (403, &[("set-cookie", "px=abc")], "forbidden"),
        (403, &[("Server", "AkamaiGHost")], "challenge"),
        (403, &[("set-cookie", "bm_sz=1~2; Domain=.a.test")], "challenge"),
        (428, &[("set-cookie", "sec_cpt=1~2; Path=/")], "challenge"),
        (428, &[], ""),
        (403, &[("x-iinfo", "9-1-0 0NNN RT(1 0) q(0 -1 -1 -1) r(0 -1)")], "challenge"),
        (403, &[("x-cdn", "Imperva")], "challenge"),
        (403, &[("set-cookie", "incap_ses_7_1=x")], "challenge"),
        (403, &[("set-cookie", "aws-waf-token=x")], "challenge"),
    ];

    #[test]
    fn each_head_is_of_its_kind() {
        for (status, fields, expected) in HEADS {
            let fields: Vec<FieldPair<'_>> =
                fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
            let kind = edge_refusal(*status, &fields).map_or("", EdgeRefusal::as_str);
            assert_eq!(kind, *expected, "{status} {fields:?}");
        }
    }
}
