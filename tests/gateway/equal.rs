//! A gateway gets the proxy's own answer, whatever the request is.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use serde_json::Value;

use super::grpc_client::{Caller, Question};
use super::{Gated, check, forwarded};
use crate::harness::client::{AGENT, Wire};
use crate::harness::{Origin, Request, Response};

pub(super) const METHODS: [&str; 5] = ["GET", "HEAD", "POST", "OPTIONS", "get"];
pub(super) const AUTHORITIES: [&str; 9] = [
    "http://shop.test",
    "http://SHOP.test:80",
    "http://shop.test.",
    "http://shop.test:81",
    "https://shop.test",
    "http://user:secret@shop.test",
    "http://closed.test",
    "http://192.168.1.1",
    "http://[::1]",
];
pub(super) const PATHS: [&str; 18] = [
    "",
    "/",
    "/a?b=c",
    "/private",
    "/private/a?b",
    "/%70rivate",
    "/a/../private",
    "/a/%2e%2e/private",
    "/a%2f..%2fprivate",
    "//private",
    "/./private",
    "/PRIVATE",
    "/private;x",
    "/robots.txt",
    "/a%",
    "/rule",
    "/\u{e9}",
    "*",
];
/// The pieces of further paths.
const PIECES: [&str; 24] = [
    "/",
    "/private",
    "/a",
    "/..",
    "/.",
    "/%2e",
    "/%2E%2e",
    "%2f",
    "%5c",
    "\\",
    "private",
    "%70",
    "open",
    ".cgi",
    ";x",
    "?",
    "?secret=1",
    "&b=%26",
    "%",
    "%zz",
    "\u{e9}",
    "%C3%A9",
    "/robots.txt",
    "/rule",
];
pub(super) const FIELDS: [&[(&str, &str)]; 9] = [
    &[],
    &[("User-Agent", "NewsBot/1.0")],
    &[("User-Agent", "Googlebot/2.1")],
    &[("X-Original-URL", "/private")],
    &[("X-Forwarded-Prefix", "/private")],
    &[("X-HTTP-Method-Override", "DELETE")],
    &[("X-Host", "other.test")],
    &[("Wayleave-Purpose", "train-ai")],
    &[("Via", "1.1 wayleave")],
];
const ROBOTS: &str = "User-agent: *\nDisallow: /private\nAllow: /private/open\nDisallow: /*.cgi$\nDisallow: /*?secret\n\n\
                      User-agent: NewsBot\nDisallow: /a\nAllow: /private\n";

/// Choices that are the same in each run (xorshift).
struct Choices(u64);

impl Choices {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % end
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    fn request(&mut self) -> Asked {
        let path = match self.below(3) {
            0 => self.one_of(&PATHS).to_owned(),
            _ => (0..=self.below(5)).map(|_| self.one_of(&PIECES)).collect(),
        };
        // Most requests have nothing odd but their path, or else few of them would be allowed.
        let mut fields =
            if self.below(2) == 0 { Vec::new() } else { self.one_of(&FIELDS).to_vec() };
        if self.below(8) == 0 {
            fields.extend(self.one_of(&FIELDS));
        }
        if !fields.iter().any(|(name, _)| *name == "User-Agent") {
            fields.push(("User-Agent", AGENT));
        }
        let authority = if self.below(2) == 0 { AUTHORITIES[0] } else { self.one_of(&AUTHORITIES) };
        let method = if self.below(2) == 0 { METHODS[0] } else { self.one_of(&METHODS) };
        let path = if path.starts_with(['/', '?']) || PATHS.contains(&&*path) {
            path
        } else {
            format!("/{path}")
        };
        Asked { method, authority, path, fields }
    }
}

/// A request that is sent to the proxy, and asked about.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) method: &'static str,
    authority: &'static str,
    path: String,
    pub(super) fields: Vec<(&'static str, &'static str)>,
}

impl Asked {
    fn scheme(&self) -> &'static str {
        self.authority.split_once("://").expect("it has one").0
    }

    pub(super) fn host(&self) -> &'static str {
        let authority = self.authority.split_once("://").expect("it has a scheme").1;
        authority.rsplit('@').next().unwrap_or_default()
    }

    pub(super) fn url(&self) -> String {
        format!("{}{}", self.authority, self.path)
    }

    /// Returns the request as a proxy receives it.
    pub(super) fn head(&self) -> String {
        let mut request = Request::new(self.method, &self.url()).header("Host", self.host());
        for (name, value) in &self.fields {
            request = request.header(name, value);
        }
        String::from_utf8(request.bytes(&self.url())).expect("text")
    }

    /// Returns whether its scheme, host and path state another request: one without userinfo, or one for the whole server.
    fn has_other_parts(&self) -> bool {
        self.authority.contains('@') || (self.method == "OPTIONS" && self.path == "*")
    }

    /// Returns whether its scheme, host and path alone state it.
    fn has_parts(&self) -> bool {
        !self.has_other_parts() && self.path.starts_with('/')
    }
}

/// A decision: the status unless the request may leave, the reason, and Proxy-Status.
pub(super) type Verdict = (u16, Value, Option<String>);

/// Returns the verdict of a response; `None` if there is none, but a mistake of the gateway.
pub(super) fn verdict(method: &str, response: &Response) -> Option<Verdict> {
    let Some(proxy_status) = response.header("proxy-status") else {
        let is_mistake = response.status != 200 && response.header("wayleave-decision").is_none();
        return (!is_mistake).then_some((200, Value::Null, None));
    };
    let has_reason = method != "HEAD" && !response.body.is_empty();
    let reason = if has_reason { response.json()["reason"].clone() } else { Value::Null };
    Some((response.status, reason, Some(proxy_status.to_owned())))
}

/// A connection that is kept until the other side closes it.
struct KeptWire {
    address: SocketAddr,
    wire: Option<Wire>,
}

impl KeptWire {
    fn new(address: SocketAddr) -> Self {
        Self { address, wire: None }
    }

    fn exchange(&mut self, method: &str, message: &[u8]) -> Response {
        let mut wire = self.wire.take().unwrap_or_else(|| Wire::connect(self.address));
        wire.send(message);
        let response = wire.expect_response(method == "HEAD");
        let closes = response.header("connection").is_some_and(|value| value == "close");
        self.wire = (!closes).then_some(wire);
        response
    }

    /// Sends a request to a gateway's listener.
    fn ask(&mut self, method: &str, target: &str, fields: &[(&str, &str)]) -> Response {
        let mut head = format!("{method} {target} HTTP/1.1\r\n");
        for (name, value) in fields {
            head += &format!("{name}: {value}\r\n");
        }
        self.exchange(method, (head + "\r\n").as_bytes())
    }
}

/// Compares each verdict with the proxy's own. `ask` returns `None` where the gateway made a mistake.
pub(super) fn compare(
    gated: &Gated,
    origin: &Origin,
    can_be_asked: impl Fn(&Asked) -> bool,
    mut ask: impl FnMut(&Asked) -> Option<Verdict>,
) {
    let count = std::env::var("WAYLEAVE_QUESTIONS")
        .map_or(2000, |count| count.parse().expect("WAYLEAVE_QUESTIONS is a number"));
    for host in ["shop.test", "shop.test."] {
        origin.site(host).robots(ROBOTS);
    }
    origin.site("closed.test").disallows("/");
    let mut proxy = KeptWire::new(gated.proxy.proxy);
    let mut choices = Choices(0x9e37_79b9_7f4a_7c15);
    let mut reasons = BTreeSet::new();
    let mut allowed = 0;
    let mut compared = 0;
    for number in 0..count {
        let asked = choices.request();
        if !can_be_asked(&asked) {
            if !asked.has_other_parts() {
                let is_leave = ask(&asked).is_some_and(|(status, ..)| status == 200);
                assert!(!is_leave, "{number}: {asked:?}");
            }
            continue;
        }
        let answer = ask(&asked);
        let by_proxy = proxy.exchange(asked.method, asked.head().as_bytes());
        let expected = verdict(asked.method, &by_proxy);
        assert_eq!(answer, expected, "{number}: {asked:?}: {by_proxy:?}");
        let (status, reason, _) = expected.expect("the proxy decides each request");
        reasons.insert(reason.to_string());
        allowed += usize::from(status == 200);
        compared += 1;
    }
    assert!(compared > count / 2 && reasons.len() > 7, "{compared} of {count}: {reasons:?}");
    assert!((compared / 10..compared * 9 / 10).contains(&allowed), "{allowed} of {compared}");
}

pub(super) fn with_rule(
    settings: crate::harness::wayleave::Settings,
) -> crate::harness::wayleave::Settings {
    settings.crawler("news", "NewsBot").table(
        "[[rule]]\naction = \"refuse\"\nhosts = [\"*\"]\npaths = [\"/rule\"]\nmethods = [\"GET\", \"POST\"]\n",
    )
}

#[test]
fn every_verdict_by_parameters_is_the_proxys() {
    let origin = Origin::start();
    let gated = Gated::start_with(&origin, with_rule);
    let mut wire = KeptWire::new(gated.gateway);
    compare(
        &gated,
        &origin,
        |_| true,
        |asked| {
            let fields = [&[("Host", "wayleave.test")][..], &asked.fields].concat();
            let answer = wire.ask("GET", &check(asked.method, &asked.url()), &fields);
            // This answer has its body even to a question about HEAD.
            verdict(asked.method, &answer)
        },
    );
}

#[test]
fn every_verdict_by_fields_is_the_proxys() {
    let origin = Origin::start();
    let gated = Gated::start_with(&origin, with_rule);
    let mut wire = KeptWire::new(gated.gateway);
    compare(&gated, &origin, Asked::has_parts, |asked| {
        let request = forwarded(asked.method, asked.scheme(), asked.host(), &asked.path);
        let fields = [&[("Host", "wayleave.test")][..], &request, &asked.fields].concat();
        let answer = wire.ask("GET", "/forwarded", &fields);
        verdict(asked.method, &answer)
    });
}

#[test]
fn every_verdict_about_a_request_as_received_is_the_proxys() {
    let origin = Origin::start();
    let gated = Gated::start_with(&origin, with_rule);
    let mut wire = KeptWire::new(gated.gateway);
    compare(&gated, &origin, Asked::has_parts, |asked| {
        let own = [("Host", asked.host()), ("X-Forwarded-Proto", asked.scheme())];
        let fields = [&own[..], &asked.fields].concat();
        let answer = wire.ask(asked.method, &format!("/request{}", asked.path), &fields);
        verdict(asked.method, &answer)
    });
}

#[test]
fn every_verdict_by_grpc_is_the_proxys() {
    let origin = Origin::start();
    let (gated, grpc) = Gated::start_both(&origin, with_rule);
    let caller = Caller::connect_from(1, grpc);
    compare(&gated, &origin, Asked::has_parts, |asked| {
        let answer = caller.ask(&Question {
            method: asked.method,
            scheme: asked.scheme(),
            host: asked.host(),
            path: &asked.path,
            fields: &asked.fields,
            client: "127.0.0.1",
        });
        let proxy_status = answer.field("proxy-status").map(str::to_owned);
        match (answer.code, answer.status) {
            (0, 200) => Some((200, Value::Null, proxy_status)),
            (0, status) => {
                let has_reason = asked.method != "HEAD";
                let reason = has_reason.then(|| answer.json()["reason"].clone());
                let status = u16::try_from(status).expect("a status of HTTP");
                Some((status, reason.unwrap_or_default(), proxy_status))
            }
            _ => None,
        }
    });
}
