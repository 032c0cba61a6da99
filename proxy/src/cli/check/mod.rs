//! `wayleave check`: what the proxy would do about URLs, or what robots.txt says about them, without a running proxy.

mod answer;
mod batch;
mod batch_verdict;
mod live;
mod preference;
mod robots_cache;
mod verdict;

use std::collections::HashSet;
use std::fs;
use std::io::{self, ErrorKind, Read};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::SystemTime;

use clap::Args;
use wayleave_lifecycle::{
    FetchEnding, FetchOutcome, FetchedAnswer, FetchedBody, FetchedResponse, ResponseFields,
};
use wayleave_robots_txt::{Dialect, InvalidUri, ProductToken, Target};
use wayleave_usage_preferences::{CrawlerDeclaration, PreferenceSettings, Purpose};

use super::config_file::load_config;
use super::robots_fetcher::RobotsFetcher;
use super::terminal::{print, print_painted, unusable};
use answer::{CheckAnswer, CheckQuery};
use live::FetchedFiles;

#[derive(Debug, Args)]
#[command(
    after_help = "Prints a line for each URL: forward, observe or refuse, with the reason and the status of the answer.\n\
                  Exit status: 0 all forwarded or observed (with --robots-only: allowed), 1 at least one refused (disallowed), \
                  2 usage or input error, 3 undecided because a robots.txt is unreachable or a name cannot be resolved."
)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a switch of the command line"
)]
pub(super) struct CheckArguments {
    /// Read robots.txt from this file ("-": standard input) instead of fetching it
    #[arg(long, value_name = "FILE", conflicts_with = "batch")]
    robots: Option<PathBuf>,
    /// Assume that robots.txt was answered with this HTTP status, instead of fetching it
    #[arg(long, value_name = "STATUS", conflicts_with = "batch", value_parser = clap::value_parser!(u16).range(200..=599))]
    status: Option<u16>,
    /// Say what robots.txt allows (allow, disallow), whatever the configuration says of crawlers and rules
    #[arg(long)]
    robots_only: bool,
    /// The crawler's User-Agent; its product token is derived as the proxy does
    #[arg(long, value_name = "UA", conflicts_with = "tokens")]
    user_agent: Option<String>,
    /// A crawler of the configuration, as if it were recognised
    #[arg(long, value_name = "NAME", conflicts_with_all = ["robots_only", "batch"])]
    crawler: Option<String>,
    /// The address that the request comes from [default: 127.0.0.1]
    #[arg(long, value_name = "ADDRESS", conflicts_with_all = ["robots_only", "batch"])]
    client: Option<IpAddr>,
    /// The crawler's product token; repeat for more, in order of preference
    #[arg(long = "token", value_name = "T")]
    tokens: Vec<String>,
    /// How to read robots.txt: rfc9309, google, koster1996, selfhtml or strictest
    #[arg(long, value_name = "D")]
    dialect: Option<Dialect>,
    /// What the crawler fetches for: search, ai-input, train-ai, archive, tdm or other; repeat for more. What robots.txt says
    /// about that use then counts too, and so do tdmrep.json and licences, which are fetched as the proxy would (but not with
    /// --robots or --status: a licence then refuses). The page itself, which may say more, is not fetched
    #[arg(long = "purpose", value_name = "P")]
    purposes: Vec<Purpose>,
    /// With --robots-only: judge every equivalent spelling of the URL, as the proxy does, not only the URL as it stands
    #[arg(long)]
    strict: bool,
    /// Print one JSON object per URL
    #[arg(long)]
    json: bool,
    /// Read JSON objects from standard input, one a line, and answer each with one, in order. Members: id, url, robots or
    /// robots_base64, user_agent or tokens or token, dialect; about use, purpose, status, headers, html, tdmrep, ai_txt, rsl
    /// and config; with as "proxy", the proxy's verdict, also crawler, client and method. docs/check.md describes them and the answers. Exit status: 0 all answered, 2 at least one not
    #[arg(long, conflicts_with_all = ["json", "user_agent", "tokens", "purposes", "urls"])]
    batch: bool,
    /// Absolute URLs ("-": one a line from standard input); with --robots, paths too, of which only robots.txt is asked
    #[arg(value_name = "URL", required_unless_present = "batch")]
    urls: Vec<String>,
}

impl CheckArguments {
    /// Returns whether only robots.txt is asked: a path has no origin, so the proxy could not be asked about it.
    ///
    /// # Errors
    ///
    /// Returns the mistake of asking both ways at once.
    fn is_robots_only(&self) -> Result<bool, String> {
        let mut paths = self.urls.iter().filter(|url| url.starts_with('/'));
        let is_about_crawlers = self.crawler.is_some() || self.client.is_some();
        match paths.next() {
            _ if self.robots_only => Ok(true),
            Some(path) if is_about_crawlers || paths.count() + 1 < self.urls.len() => Err(format!(
                "{path:?} names no origin: give a whole URL, or ask robots.txt alone with --robots-only"
            )),
            Some(_) => Ok(true),
            None if self.strict => Err(
                "--strict needs --robots-only: the proxy always judges every spelling".to_owned(),
            ),
            None => Ok(false),
        }
    }

    fn declaration(&self) -> CrawlerDeclaration {
        CrawlerDeclaration {
            purposes: self.purposes.iter().copied().collect(),
            ..CrawlerDeclaration::default()
        }
    }

    fn asking<'a>(
        &self,
        tokens: &'a [ProductToken],
        dialect: Dialect,
        (declaration, reading): (&'a CrawlerDeclaration, &'a PreferenceSettings),
    ) -> CheckQuery<'a> {
        CheckQuery {
            tokens,
            dialect,
            strict: self.strict,
            declaration,
            reading,
        }
    }
}

pub(super) fn run(mut arguments: CheckArguments, config: Option<&Path>) -> ExitCode {
    let dialect = arguments.dialect.unwrap_or_default();
    if arguments.batch {
        return match batch::run(arguments.dialect, arguments.strict, config) {
            Ok(0) => ExitCode::SUCCESS,
            Ok(failures) => {
                let lines = if failures == 1 { "line" } else { "lines" };
                unusable(&format!(
                    "{failures} {lines} could not be answered: see \"error\" in their answers"
                ))
            }
            // Who reads the answers has seen enough.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => ExitCode::SUCCESS,
            Err(error) => unusable(&format!("standard input or output: {error}")),
        };
    }
    if let Err(error) = read_urls(&mut arguments) {
        return unusable(&format!("standard input: {error}"));
    }
    let arguments = &arguments;
    if let Some(message) = mistaken_url(arguments) {
        return unusable(&message);
    }
    let asked = arguments
        .is_robots_only()
        .and_then(|is_robots_only| Ok((is_robots_only, tokens(arguments, is_robots_only)?)));
    let (is_robots_only, tokens) = match asked {
        Ok(asked) => asked,
        Err(message) => return unusable(&message),
    };
    let body = match &arguments.robots {
        Some(file) => match read(file) {
            Ok(body) => Some(body),
            Err(error) => return unusable(&format!("{}: {error}", file.display())),
        },
        None => arguments.status.map(|_| Vec::new()),
    };
    let given = body.map(|body| given_ending(arguments, body));
    match given {
        given if !is_robots_only => verdict::run(arguments, &tokens, config, given),
        Some(ending) => offline(arguments, dialect, &tokens, ending),
        None => live(arguments, &tokens, config),
    }
}

/// Puts the lines of standard input in the place of a "-" among the URLs.
fn read_urls(arguments: &mut CheckArguments) -> io::Result<()> {
    let Some(at) = arguments.urls.iter().position(|url| url == "-") else {
        return Ok(());
    };
    if arguments.robots.as_deref() == Some(Path::new("-")) {
        return Err(io::Error::other(
            "it holds either robots.txt or URLs, not both",
        ));
    }
    let input = io::read_to_string(io::stdin().lock())?;
    let lines = input.lines().map(str::trim).filter(|line| !line.is_empty());
    arguments.urls.splice(at..=at, lines.map(str::to_owned));
    Ok(())
}

/// What is wrong with the first argument that asks about nothing: it is not an absolute URL, nor a path
/// where those will do. A space is let pass in either, as in what people paste.
fn mistaken_url(arguments: &CheckArguments) -> Option<String> {
    let offline = arguments.robots.is_some() || arguments.status.is_some();
    let mistake = |url: &String| {
        let is_path = offline && url.starts_with('/');
        let error = if is_path {
            let control = url.chars().find(char::is_ascii_control)?;
            InvalidUri::Character(control)
        } else {
            Target::parse(&url.replace(' ', "%20")).err()?
        };
        let hint = match (&error, offline) {
            (InvalidUri::NotAbsolute, true) => ", or a path that starts with /",
            (InvalidUri::NotAbsolute, false) => " (paths need --robots)",
            _ => "",
        };
        Some(format!("{url:?}: {error}{hint}"))
    };
    arguments.urls.iter().find_map(mistake)
}

/// The crawler's names; without any, the crawler that only `*` can mean.
fn tokens(arguments: &CheckArguments, is_robots_only: bool) -> Result<Vec<ProductToken>, String> {
    if let Some(field) = &arguments.user_agent {
        if !is_robots_only {
            // The proxy reads the field itself.
            return Ok(Vec::new());
        }
        let token = ProductToken::from_user_agent(field.as_bytes());
        let token =
            token.ok_or_else(|| format!("--user-agent {field:?} does not name a product"))?;
        return Ok(vec![token]);
    }
    let is_known_otherwise = arguments.crawler.is_some() || arguments.client.is_some();
    if arguments.tokens.is_empty() && !is_known_otherwise {
        return Err("which crawler? Give --user-agent, --token or --crawler".to_owned());
    }
    let token =
        |name: &String| ProductToken::new(name).map_err(|error| format!("--token: {error}"));
    arguments.tokens.iter().map(token).collect()
}

fn read(file: &Path) -> io::Result<Vec<u8>> {
    if file != Path::new("-") {
        return fs::read(file);
    }
    let mut body = Vec::new();
    io::stdin().lock().read_to_end(&mut body)?;
    Ok(body)
}

/// Judges by a file at hand, all of it: where crawlers stop reading is for `lint` to say.
fn offline(
    arguments: &CheckArguments,
    dialect: Dialect,
    tokens: &[ProductToken],
    ending: FetchEnding,
) -> ExitCode {
    let facts = FetchedAnswer {
        fetched_at: SystemTime::UNIX_EPOCH,
        outcome: FetchOutcome {
            redirects: Vec::new(),
            uri: String::new(),
            ending,
        },
    };
    let access = facts.access();
    let declaration = arguments.declaration();
    let reading = PreferenceSettings::default();
    let asking = arguments.asking(tokens, dialect, (&declaration, &reading));
    let answers = arguments.urls.iter().map(|url| {
        let path = path_of(url);
        CheckAnswer::new(url, &access, &path, asking, None)
    });
    finish(&answers.collect::<Vec<_>>(), arguments.json)
}

/// Returns the outcome of a fetch that brings this body.
fn given_ending(arguments: &CheckArguments, body: Vec<u8>) -> FetchEnding {
    FetchEnding::Response(FetchedResponse {
        status: arguments.status.unwrap_or(200),
        fields: ResponseFields::default(),
        body: FetchedBody {
            bytes: body.into(),
            ..FetchedBody::default()
        },
    })
}

/// The path of an argument: what starts with `/` is one, also with two, where a reference would name a host.
fn path_of(url: &str) -> wayleave_robots_txt::UrlPath<'_> {
    wayleave_robots_txt::UrlPath::parse(url)
        .unwrap_or_else(|_| wayleave_robots_txt::UrlPath::of_url(url))
}

/// Judges by what the origins serve now.
fn live(arguments: &CheckArguments, tokens: &[ProductToken], config: Option<&Path>) -> ExitCode {
    let config = match load_config(config) {
        Ok((config, _)) => config,
        Err(status) => return status,
    };
    let target = |url: &String| Target::parse(url).map_err(|error| format!("{url}: {error}"));
    let targets = match arguments
        .urls
        .iter()
        .map(target)
        .collect::<Result<Vec<_>, _>>()
    {
        Ok(targets) => targets,
        Err(message) => return unusable(&message),
    };
    let mut live = match RobotsFetcher::new(&config) {
        Ok(fetcher) => {
            let origins: HashSet<_> = targets.iter().map(Target::origin).collect();
            FetchedFiles::of(origins.len(), fetcher)
        }
        Err(error) => return unusable(&format!("{error:#}")),
    };
    let dialect = arguments.dialect.unwrap_or(config.robots.dialect);
    let declaration = arguments.declaration();
    let reading = &config.preferences.reading;
    let asking = arguments.asking(tokens, dialect, (&declaration, reading));
    let answers = arguments.urls.iter().zip(&targets).map(|(url, target)| {
        let robots_txt = live.get(&target.origin().into());
        let live = Some((&mut live, target.origin()));
        CheckAnswer::new(url, robots_txt.access(), target.path(), asking, live)
    });
    let answers: Vec<_> = answers.collect();
    drop(live);
    finish(&answers, arguments.json)
}

/// Prints the answers and returns the exit status that sums them up.
fn finish(answers: &[CheckAnswer<'_>], json: bool) -> ExitCode {
    let line = |answer| {
        if json {
            CheckAnswer::to_json(answer)
        } else {
            CheckAnswer::to_text(answer)
        }
    };
    let text: String = answers.iter().map(|answer| line(answer) + "\n").collect();
    let printed = if json {
        print(&text)
    } else {
        print_painted(&text)
    };
    if printed == ExitCode::SUCCESS {
        return ExitCode::from(answer::exit_status(answers));
    }
    printed
}
