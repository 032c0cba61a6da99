//! The robots.txt engine for Node.js: parsed files, the rules for one crawler, and decisions with their reasons.

use napi::bindgen_prelude::{Buffer, Either};
use napi::{Error, Result, Status};
use napi_derive::napi;
use wayleave_robots_txt::{AccessResult, CrawlerRules, Dialect, InvalidUrl, ProductToken};

/// A parsed robots.txt.
#[napi]
pub struct RobotsTxt(AccessResult);

/// The options of `forCrawler`.
#[napi(object)]
pub struct CrawlerOptions {
    /// `rfc9309`, `google`, `koster1996`, `selfhtml` or `strictest`.
    pub dialect: Option<String>,
    /// Whether to judge every spelling that a server may treat as the same path.
    pub all_spellings: Option<bool>,
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(Status::InvalidArg, message.into())
}

#[napi]
impl RobotsTxt {
    /// Parses a file. Any bytes parse.
    #[napi(constructor)]
    pub fn new(data: Either<Buffer, String>) -> Self {
        let bytes = match &data {
            Either::A(buffer) => buffer,
            Either::B(text) => text.as_bytes(),
        };
        Self(AccessResult::from(wayleave_robots_txt::RobotsTxt::parse(bytes)))
    }

    /// Returns the outcome of a fetch that was answered with `status` (RFC 9309 section 2.3.1).
    #[napi(factory)]
    pub fn from_status(status: u16, data: Option<Either<Buffer, String>>) -> Result<Self> {
        match (status, data) {
            // A part of a file is no file.
            (206 | 429 | 500..=599, _) => Ok(Self(AccessResult::Unreachable)),
            (200..=299, Some(data)) => Ok(Self::new(data)),
            (200..=299, None) => Err(invalid("a successful fetch has data")),
            (400..=499, _) => Ok(Self(AccessResult::Unavailable { status })),
            _ => Err(invalid(format!("{status} is not the status of a final response"))),
        }
    }

    /// Returns the outcome of a fetch that failed, which disallows everything.
    #[napi(factory)]
    pub fn unreachable() -> Self {
        Self(AccessResult::Unreachable)
    }

    /// Returns the rules for a crawler, given its product tokens in order of preference.
    #[napi]
    pub fn for_crawler(
        &self,
        names: Either<String, Vec<String>>,
        options: Option<CrawlerOptions>,
    ) -> Result<Rules> {
        let names = match names {
            Either::A(name) => vec![name],
            Either::B(names) => names,
        };
        if names.is_empty() {
            return Err(invalid("a crawler needs a name"));
        }
        let token = |name: &String| {
            ProductToken::new(name).map_err(|error| invalid(format!("{name:?}: {error}")))
        };
        let tokens = names.iter().map(token).collect::<Result<_>>()?;
        let mut rules = CrawlerRules::new(self.0.clone(), tokens);
        if let Some(options) = options {
            if let Some(dialect) = options.dialect {
                rules = rules.dialect(parse_dialect(&dialect)?);
            }
            if options.all_spellings == Some(true) {
                rules = rules.all_spellings();
            }
        }
        Ok(Rules(rules))
    }

    /// The URLs on `Sitemap` lines.
    #[napi(getter)]
    pub fn sitemaps(&self) -> Vec<String> {
        let robots = self.0.rules(Dialect::Rfc9309);
        robots.map(|robots| robots.sitemaps().collect()).unwrap_or_default()
    }
}

fn parse_dialect(name: &str) -> Result<Dialect> {
    name.parse().map_err(|_| {
        let known: Vec<_> = Dialect::ALL.iter().map(ToString::to_string).collect();
        invalid(format!("{name:?} is none of the dialects {}", known.join(", ")))
    })
}

fn not_a_url(text: &str, error: &InvalidUrl) -> Error {
    invalid(format!("{text:?} is not a URL: {error}"))
}

/// The rules of one robots.txt for one crawler.
#[napi(js_name = "CrawlerRules")]
pub struct Rules(CrawlerRules);

/// A decision with its reason.
#[napi(object)]
pub struct Decision {
    pub allowed: bool,
    pub reason: String,
    pub rule: Option<String>,
    pub line: Option<u32>,
    pub group: Vec<String>,
    pub dialect: String,
}

#[napi]
impl Rules {
    /// Returns whether the crawler may fetch a URL, of which only path and query count.
    #[napi]
    pub fn allows(&self, url: String) -> Result<bool> {
        self.0.allows(&url).map_err(|error| not_a_url(&url, &error))
    }

    /// Returns the decision about a URL with its reason.
    #[napi]
    pub fn decide(&self, url: String) -> Result<Decision> {
        let decision = self.0.decide(&url).map_err(|error| not_a_url(&url, &error))?;
        Ok(Decision {
            allowed: decision.verdict().is_allow(),
            reason: decision.reason().to_string(),
            rule: decision.rule(),
            line: decision.line(),
            group: decision.group(),
            dialect: decision.dialect().to_string(),
        })
    }

    /// The seconds to wait between two requests.
    #[napi(getter)]
    pub fn crawl_delay(&self) -> Option<f64> {
        self.0.crawl_delay().map(|delay| delay.as_secs_f64())
    }
}
