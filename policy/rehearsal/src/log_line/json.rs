//! Logs of JSON objects. There is no standard, so members are recognised by the names that nginx's examples, Apache's, Caddy,
//! Traefik, Envoy, HAProxy, Cloudflare, CloudFront, Google Cloud and the Elastic Common Schema give them.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::request::{LoggedRequest, target_of};

/// What a member can be. Names are in lower case, with only their letters and digits, after those of the objects around them;
/// the first that a line has counts.
const REQUEST_LINES: &[&str] = &["request", "requestline", "req", "httprequest"];
const TARGETS: &[&str] = &[
    "requesturi",
    "requestrequesturi",
    "clientrequesturi",
    "httprequestrequesturl",
    "requesturl",
    "urloriginal",
    "originalurl",
    "urlfull",
    "xenvoyoriginalpath",
    "target",
    "requesttarget",
    "requestpath",
    "url",
    "uri",
    "path",
    "csuristem",
    "clientrequestpath",
    "urlpath",
    "httpurl",
    "httptarget",
];
const QUERIES: &[&str] =
    &["querystring", "query", "args", "csuriquery", "urlquery", "requestquery", "requestargs"];
const USER_AGENTS: &[&str] = &[
    "httpuseragent",
    "useragent",
    "useragentoriginal",
    "requestuseragent",
    "requestheadersuseragent",
    "requestheaderuseragent",
    "clientrequestuseragent",
    "httprequestuseragent",
    "headersuseragent",
    "csuseragent",
    "agent",
    "ua",
];
const REFERERS: &[&str] = &[
    "httpreferer",
    "referer",
    "httpreferrer",
    "referrer",
    "requestreferer",
    "requestheadersreferer",
    "clientrequestreferer",
    "httprequestreferer",
    "httprequestreferrer",
    "headersreferer",
    "csreferer",
];
const SIZES: &[&str] = &[
    "bodybytessent",
    "bytessent",
    "size",
    "bytes",
    "responsesize",
    "responsebytes",
    "edgeresponsebytes",
    "downstreamcontentsize",
    "httprequestresponsesize",
    "httpresponsebodybytes",
    "httpresponsebytes",
    "scbytes",
    "responselength",
    "contentlength",
    "length",
    "bytesread",
];
const TYPES: &[&str] = &[
    "senthttpcontenttype",
    "contenttype",
    "responsecontenttype",
    "edgeresponsecontenttype",
    "respheaderscontenttype",
    "downstreamcontenttype",
    "sccontenttype",
    "mimetype",
];

/// How deep objects are looked into.
const MAX_DEPTH: usize = 4;

/// The members found so far, each with the rank of its name.
#[derive(Default)]
struct FoundMembers<'a> {
    request_line: Option<(usize, &'a Value)>,
    target: Option<(usize, &'a Value)>,
    query: Option<(usize, &'a Value)>,
    user_agent: Option<(usize, &'a Value)>,
    referer: Option<(usize, &'a Value)>,
    size: Option<(usize, &'a Value)>,
    content_type: Option<(usize, &'a Value)>,
}

pub(super) fn parse(line: &[u8]) -> Result<LoggedRequest<'static>, &'static str> {
    let Ok(Value::Object(object)) = serde_json::from_slice(line) else {
        return Err("not a JSON object");
    };
    let mut found = FoundMembers::default();
    found.add_all(&object, &mut String::new(), 0);
    let user_agent = found.user_agent.and_then(|(_, value)| value.as_str());
    let user_agent = user_agent.ok_or("no member with the User-Agent")?;
    let line = found.request_line.and_then(|(_, value)| value.as_str());
    let mut target = match line.and_then(|line| target_of(line.as_bytes())) {
        Some(target) => target.to_vec(),
        None => {
            let target = found.target.and_then(|(_, value)| value.as_str());
            target.ok_or("no member with the request or its path")?.as_bytes().to_vec()
        }
    };
    let query = found.query.and_then(|(_, value)| value.as_str()).unwrap_or_default();
    let query = query.trim_start_matches('?');
    if !matches!(query, "" | "-") && !target.contains(&b'?') {
        target.push(b'?');
        target.extend_from_slice(query.as_bytes());
    }
    let text = |found: Option<(usize, &Value)>| {
        let text = found.and_then(|(_, value)| value.as_str()).filter(|text| *text != "-");
        Cow::Owned(text.unwrap_or_default().as_bytes().to_vec())
    };
    // CloudFront escapes it.
    let user_agent = if user_agent.contains(' ') {
        user_agent.to_owned()
    } else {
        user_agent.replace("%20", " ")
    };
    Ok(LoggedRequest {
        target: Cow::Owned(target),
        user_agent: Cow::Owned(user_agent.into_bytes()),
        referer: text(found.referer),
        content_type: text(found.content_type),
        bytes: found.size.map_or(0, |(_, value)| number(value)),
    })
}

impl<'a> FoundMembers<'a> {
    /// Adds the members of an object. `name` is its own, in letters and digits.
    fn add_all(&mut self, object: &'a Map<String, Value>, name: &mut String, depth: usize) {
        for (member, value) in object {
            let outer = name.len();
            let letters = member.bytes().filter(u8::is_ascii_alphanumeric);
            name.extend(letters.map(|byte| char::from(byte.to_ascii_lowercase())));
            match value {
                Value::Object(inner) if depth < MAX_DEPTH => self.add_all(inner, name, depth + 1),
                // Fields of requests are lists for Caddy.
                Value::Array(all) => all.first().into_iter().for_each(|one| self.add(name, one)),
                value => self.add(name, value),
            }
            name.truncate(outer);
        }
    }

    fn add(&mut self, name: &str, value: &'a Value) {
        for (names, found) in [
            (REQUEST_LINES, &mut self.request_line),
            (TARGETS, &mut self.target),
            (QUERIES, &mut self.query),
            (USER_AGENTS, &mut self.user_agent),
            (REFERERS, &mut self.referer),
            (SIZES, &mut self.size),
            (TYPES, &mut self.content_type),
        ] {
            if let Some(rank) = names.iter().position(|known| *known == name)
                && found.is_none_or(|(best, _)| rank < best)
            {
                *found = Some((rank, value));
            }
        }
    }
}

/// Returns a number, which some servers write as text.
fn number(value: &Value) -> u64 {
    match value {
        Value::Number(number) => number.as_u64().unwrap_or_default(),
        Value::String(text) => text.parse().unwrap_or_default(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_has_its_query_once() {
        for (members, target) in [
            (r#""uri":"/a","args":"b=1""#, "/a?b=1"),
            (r#""uri":"/a","args":"""#, "/a"),
            (r#""uri":"/a","query_string":"?b""#, "/a?b"),
            (r#""request_uri":"/a?b","uri":"/index.php","args":"b""#, "/a?b"),
            (r#""request":"GET /a?b HTTP/1.1","uri":"/other""#, "/a?b"),
            (r#""request":"-","uri":"/a""#, "/a"),
        ] {
            let line = format!(r#"{{{members},"User-Agent":"B/1 x%20y"}}"#);
            let request = parse(line.as_bytes()).expect("a request");
            assert_eq!(String::from_utf8_lossy(&request.target), target, "{line}");
            assert_eq!(&*request.user_agent, b"B/1 x%20y");
        }
    }

    #[test]
    fn what_a_line_lacks_is_named() {
        for (line, why) in [
            ("", "not a JSON object"),
            ("[]", "not a JSON object"),
            ("{\"uri\":\"/\"", "not a JSON object"),
            ("{\"uri\":\"/\"}", "no member with the User-Agent"),
            ("{\"uri\":\"/\",\"user_agent\":null}", "no member with the User-Agent"),
            ("{\"user_agent\":\"B\"}", "no member with the request or its path"),
        ] {
            assert_eq!(parse(line.as_bytes()), Err(why), "{line}");
        }
        // Deeper than the parser of JSON goes.
        let deep = "{\"a\":".repeat(10_000);
        assert_eq!(parse(deep.as_bytes()), Err("not a JSON object"));
    }
}
