//! The dearest requests that we know, and the cheap ones beside which they are seen.

use std::fmt;

use crate::origin::Ports;
use crate::tls::STREAMS;

/// The cheap refusals.
pub(crate) const BASE_LINE: &str = "cheap refusals";
/// A crawler without purposes, and one that has some.
const BUSY: &str = "BusyBot/1.0";
const TRAINER: &str = "TrainerBot/1.0";
/// The longest target that is not refused is 16 KiB, with scheme and host.
const LONG_PATH_BYTES: usize = 16_000;
/// The hosts with a long robots.txt.
const LONG_FILES: u64 = 8;

/// How the attackers reach the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// In absolute form, without TLS.
    Http1,
    /// On the proxy's `https://` listener.
    Http2,
    /// Inside an intercepted tunnel to an origin that has HTTP/2; nothing is read.
    UnreadHttp2,
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Http1 => "h1",
            Self::Http2 | Self::UnreadHttp2 => "h2",
        })
    }
}

const BOTH: &[Protocol] = &[Protocol::Http1, Protocol::Http2];

/// A kind of request.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) protocols: &'static [Protocol],
    /// Whether the row lasts until all names of the wildcard domain are asked for.
    pub(crate) lasts_for_names: bool,
    /// Makes the request of a number.
    ask: fn(Ports, u64) -> Ask,
}

/// A request.
#[derive(Debug)]
pub(crate) struct Ask {
    pub(crate) method: &'static str,
    pub(crate) scheme: &'static str,
    pub(crate) authority: String,
    pub(crate) path: String,
    pub(crate) user_agent: &'static str,
    pub(crate) fields: Vec<(&'static str, String)>,
}

pub(crate) const ROWS: &[Row] = &[
    Row::new(BASE_LINE, BOTH, |ports, _| Ask::page(ports, "shop.test", "/private/page")),
    Row::new("spellings", BOTH, spellings),
    Row::new("hostile robots.txt", BOTH, hostile_robots_txt),
    Row::new("RateLimit", BOTH, |ports, _| Ask::page(ports, "fields.test", "/rate-limit")),
    Row::new("X-Robots-Tag", BOTH, |ports, _| Ask {
        user_agent: TRAINER,
        ..Ask::page(ports, "fields.test", "/robots-tag")
    }),
    // HTTP/2 has no such field.
    Row::new("Connection", &[Protocol::Http1], connection_options),
    Row::new("FTP listing", BOTH, |ports, _| Ask {
        scheme: "ftp",
        authority: format!("files.test:{}", ports.ftp),
        ..Ask::page(ports, "", "/pub/")
    }),
    Row::new("page", BOTH, |ports, _| Ask {
        user_agent: TRAINER,
        ..Ask::page(ports, "shop.test", "/long-page")
    }),
    Row::new("licence", BOTH, |ports, number| {
        let host = format!("licence{number}.test");
        Ask { user_agent: TRAINER, ..Ask::page(ports, &host, "/page") }
    }),
    Row::new("copies, HEAD and 304", BOTH, copies_without_content),
    Row::new("copies", BOTH, |ports, number| {
        let host = format!("long{}.test", number % LONG_FILES);
        Ask::page(ports, &host, "/robots.txt")
    }),
    Row::new("unread streams", &[Protocol::UnreadHttp2], |ports, _| Ask {
        scheme: "https",
        authority: format!("{STREAMS}:{}", ports.https),
        ..Ask::page(ports, "", "/big")
    }),
    Row {
        lasts_for_names: true,
        ..Row::new("names", BOTH, |ports, number| {
            Ask::page(ports, &format!("n{number}.wild.test"), "/page")
        })
    },
];

impl Row {
    const fn new(
        name: &'static str,
        protocols: &'static [Protocol],
        ask: fn(Ports, u64) -> Ask,
    ) -> Self {
        Self { name, protocols, lasts_for_names: false, ask }
    }

    /// Returns the request of a number.
    pub(crate) fn ask(&self, ports: Ports, number: u64) -> Ask {
        (self.ask)(ports, number)
    }
}

impl Ask {
    fn page(ports: Ports, host: &str, path: impl Into<String>) -> Self {
        Self {
            method: "GET",
            scheme: "http",
            authority: format!("{host}:{}", ports.http),
            path: path.into(),
            user_agent: BUSY,
            fields: Vec::new(),
        }
    }

    /// Returns the request in absolute form.
    pub(crate) fn to_http1(&self) -> String {
        let Self { method, scheme, authority, path, user_agent, fields } = self;
        let fields = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n"));
        format!(
            "{method} {scheme}://{authority}{path} HTTP/1.1\r\nHost: {authority}\r\nUser-Agent: {user_agent}\r\n{}\r\n",
            fields.collect::<String>()
        )
    }

    /// Returns the head of the request for HTTP/2.
    pub(crate) fn to_http2(&self) -> Result<http::Request<()>, http::Error> {
        let uri = format!("{}://{}{}", self.scheme, self.authority, self.path);
        let mut request = http::Request::builder()
            .method(self.method)
            .uri(uri)
            .header("user-agent", self.user_agent);
        for (name, value) in &self.fields {
            request = request.header(*name, value);
        }
        request.body(())
    }
}

/// A path with as many spellings as fit.
fn spellings(ports: Ports, number: u64) -> Ask {
    const PART: &str = r"/%2F\;x//./%7e";
    let path = format!("/{number}{}", PART.repeat(LONG_PATH_BYTES / PART.len()));
    Ask::page(ports, "shop.test", path)
}

/// A path that takes nearly all of what a decision may cost.
fn hostile_robots_txt(ports: Ports, number: u64) -> Ask {
    Ask::page(ports, "chains.test", format!("/{}{number}", "ab".repeat(4_000)))
}

fn connection_options(ports: Ports, _: u64) -> Ask {
    let mut fields = vec![("Connection", vec!["a"; 28_000].join(","))];
    fields.extend([("X-Extra", "1".to_owned())].into_iter().cycle().take(90));
    Ask { fields, ..Ask::page(ports, "shop.test", "/page") }
}

fn copies_without_content(ports: Ports, number: u64) -> Ask {
    let host = format!("long{}.test", number / 2 % LONG_FILES);
    let ask = Ask::page(ports, &host, "/robots.txt");
    if number.is_multiple_of(2) {
        return Ask { method: "HEAD", ..ask };
    }
    Ask { fields: vec![("If-None-Match", crate::pages::ETAG.to_owned())], ..ask }
}
