//! Origins for the benches, and their responses, without a network.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use wayleave_lifecycle::{
    FetchEnding, FetchErrorKind, FetchOutcome, FetchRequest, FetchedBody, FetchedResponse,
    ResponseFields,
};
use wayleave_robots_cache::{DocumentFetcher, FetchedDocument};
use wayleave_robots_txt::Origin;

// The program's own allocator, but counting.
#[global_allocator]
static ALLOCATOR: cap::Cap<mimalloc::MiMalloc> = cap::Cap::new(mimalloc::MiMalloc, usize::MAX);

/// Returns the `n`th origin, in the order of the store's keys. As in reality, one host in eight is longer than 23 octets. Each is
/// a registered domain of its own: the store deletes origins of a domain that has more than its share.
///
/// # Panics
///
/// Never: every number gives a valid host name.
pub fn origin(n: usize) -> Origin {
    let more = if n % 8 == 7 { "-and-outlet" } else { "" };
    Origin::parse(&format!("https://shop-{n:08}{more}.example")).expect("a host name")
}

/// Returns the allocated bytes. Unlike the memory of the process, they are the same on a second run.
pub fn allocated_bytes() -> usize {
    ALLOCATOR.allocated()
}

/// Returns the resident memory of the process, in bytes.
pub fn resident_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split(' ').nth(1).and_then(|n| n.parse().ok());
    pages.unwrap_or(0) * 4096
}

/// A fetcher that answers at once, by the origin's number, in the shares of real origins: four in five with rules, one in
/// seven with 404, the others failing.
#[derive(Clone, Default)]
pub struct ScriptedFetch {
    fetched: Arc<AtomicUsize>,
}

impl std::fmt::Debug for ScriptedFetch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ScriptedFetch").finish_non_exhaustive()
    }
}

impl ScriptedFetch {
    /// Returns the number of fetches.
    pub fn fetched(&self) -> usize {
        self.fetched.load(Ordering::Relaxed)
    }
}

impl DocumentFetcher for ScriptedFetch {
    async fn fetch(&self, request: FetchRequest, _: Option<&[u8]>) -> FetchedDocument {
        self.fetched.fetch_add(1, Ordering::Relaxed);
        answer(&request).into()
    }
}

/// Returns the origin's response.
pub fn answer(request: &FetchRequest) -> FetchOutcome {
    let uri = request.resource.uri();
    let number: usize = uri
        .bytes()
        .filter(u8::is_ascii_digit)
        .fold(0, |number, digit| number * 10 + usize::from(digit - b'0'));
    let ending = match number % 20 {
        0..16 if request.validators.is_some() => {
            FetchEnding::NotModified(ResponseFields::default())
        }
        0..16 => response(200, &rules(number)),
        16..19 => response(404, b""),
        _ => {
            return FetchOutcome::failed(uri, FetchErrorKind::Connect, "as scripted");
        }
    };
    FetchOutcome { redirects: Vec::new(), uri, ending }
}

fn response(status: u16, body: &[u8]) -> FetchEnding {
    FetchEnding::Response(FetchedResponse {
        status,
        fields: ResponseFields {
            content_type: Some("text/plain".into()),
            etag: (status == 200).then(|| "\"5f3c-1a2b\"".into()),
            ..ResponseFields::default()
        },
        body: FetchedBody { bytes: body.into(), is_cut: false, digest: None },
    })
}

/// Returns one of a thousand files of usual size; many origins share theirs with others.
fn rules(number: usize) -> Vec<u8> {
    let kind = number % 1000;
    let mut body = String::from("User-agent: *\n");
    for rule in 0..(kind % 12) + 2 {
        body += &format!("Disallow: /area-{kind}/{rule}/\nAllow: /area-{kind}/{rule}/open\n");
    }
    body += "Crawl-delay: 1\nSitemap: https://www.example/sitemap.xml\n";
    body.into_bytes()
}
