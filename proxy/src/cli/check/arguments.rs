//! The arguments of `wayleave check`.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::Args;
use wayleave_robots_txt::{Dialect, ProductToken};
use wayleave_usage_preferences::{CrawlerDeclaration, PreferenceSettings, Purpose};

use super::answer::CheckQuery;
use super::url_list::LineMistake;

#[derive(Debug, Args)]
#[command(
    after_help = "Prints a line for each URL: forward, observe or refuse, with the reason and the status of the answer.\n\
                  Exit status: 0 all forwarded or observed (with --robots-only: allowed), 1 at least one refused (disallowed), \
                  2 usage or input error, 3 undecided because a robots.txt is unreachable or a name cannot be resolved. \
                  If several apply: 2, else 3, else 1."
)]
#[allow(clippy::struct_excessive_bools, reason = "each is a switch of the command line")]
pub(crate) struct CheckArguments {
    /// Read robots.txt from this file ("-": standard input) instead of fetching it
    #[arg(long, value_name = "FILE")]
    pub(super) robots: Option<PathBuf>,
    /// Assume that robots.txt was answered with this HTTP status, instead of fetching it
    #[arg(long, value_name = "STATUS", value_parser = clap::value_parser!(u16).range(200..=599))]
    pub(super) status: Option<u16>,
    /// Report only what robots.txt says (allow, disallow); the configuration's crawlers and rules are ignored
    #[arg(long)]
    pub(super) robots_only: bool,
    /// The crawler's User-Agent; its product token is derived as in the proxy
    #[arg(long, value_name = "UA", conflicts_with = "tokens")]
    pub(super) user_agent: Option<String>,
    /// A crawler of the configuration, as if it were recognised
    #[arg(long, value_name = "NAME", conflicts_with = "robots_only")]
    pub(super) crawler: Option<String>,
    /// The address that the request comes from [default: 127.0.0.1]
    #[arg(long, value_name = "ADDRESS", conflicts_with = "robots_only")]
    pub(super) client: Option<IpAddr>,
    /// The crawler's product token; repeat for more, in order of preference
    #[arg(long = "token", value_name = "T")]
    pub(super) tokens: Vec<String>,
    /// The dialect in which robots.txt is read: rfc9309, google, koster1996, selfhtml or strictest
    #[arg(long, value_name = "D")]
    pub(super) dialect: Option<Dialect>,
    /// A purpose of the crawler: search, ai-input, train-ai, archive, tdm or other; repeat for more. Preferences about that
    /// use then count too: those in robots.txt, in tdmrep.json and in licences, which are fetched as the proxy would (but not
    /// with --robots or --status: a licence then refuses). The page itself, which may state more, is not fetched
    #[arg(long = "purpose", value_name = "P")]
    pub(super) purposes: Vec<Purpose>,
    /// With --robots-only: judge every equivalent spelling of the URL, as the proxy does, not only the URL as given
    #[arg(long)]
    pub(super) strict: bool,
    /// Print one JSON object per URL
    #[arg(long)]
    pub(super) json: bool,
    /// Print workflow commands of GitHub Actions: an error for each URL that would be refused, a warning for each that is
    /// undecided or only observed, and a notice that counts them
    #[arg(long, conflicts_with_all = ["json", "robots_only"])]
    pub(super) github: bool,
    /// Read the URLs from this file ("-": standard input): one per line, or the log of a crawl. Of a line that is a JSON
    /// object, the member url counts; of any other, the first word that is an http(s) URL. Each URL is asked about once. A
    /// line without a URL is reported, the others are answered, and the exit status is 2
    #[arg(long, value_name = "FILE", conflicts_with = "urls")]
    pub(super) from: Option<PathBuf>,
    /// The lines of that file that name the URLs
    #[arg(skip)]
    pub(super) lines: Vec<usize>,
    /// The lines of that file, or of standard input, that are reported instead of answered.
    #[arg(skip)]
    pub(super) mistakes: Vec<LineMistake>,
    /// Absolute URLs ("-": read from standard input, one per line); with --robots, also paths, for which only robots.txt counts
    #[arg(value_name = "URL", required_unless_present = "from")]
    pub(super) urls: Vec<String>,
}

impl CheckArguments {
    /// Returns whether robots.txt alone decides: a path has no origin, so it cannot be a request to the proxy.
    ///
    /// # Errors
    ///
    /// Returns a message if the arguments ask for both at once.
    pub(super) fn is_robots_only(&self) -> Result<bool, String> {
        let mut paths = self.urls.iter().filter(|url| url.starts_with('/'));
        let is_about_crawlers = self.crawler.is_some() || self.client.is_some() || self.github;
        // `next` takes one of the paths, so the rest is one less.
        match paths.next() {
            _ if self.robots_only => Ok(true),
            Some(path) if is_about_crawlers || paths.count() + 1 < self.urls.len() => {
                Err(format!("{path:?} has no origin: give an absolute URL, or use --robots-only"))
            }
            Some(_) => Ok(true),
            None if self.strict => {
                Err("--strict needs --robots-only: the proxy always judges every spelling"
                    .to_owned())
            }
            None => Ok(false),
        }
    }

    /// Returns whether a URL may be a path, which a given robots.txt is about.
    pub(super) fn accepts_paths(&self) -> bool {
        self.robots.is_some() || self.status.is_some()
    }

    /// Returns the purposes that the arguments declare.
    pub(super) fn declaration(&self) -> CrawlerDeclaration {
        CrawlerDeclaration {
            purposes: self.purposes.iter().copied().collect(),
            ..CrawlerDeclaration::default()
        }
    }

    /// Returns the query for robots.txt alone.
    pub(super) fn query<'a>(
        &self,
        tokens: &'a [ProductToken],
        dialect: Dialect,
        (declaration, reading): (&'a CrawlerDeclaration, &'a PreferenceSettings),
    ) -> CheckQuery<'a> {
        CheckQuery { tokens, dialect, strict: self.strict, declaration, reading }
    }
}
