//! `wayleave check`: what the proxy would do about URLs, or what robots.txt says about them, without a running proxy.

mod annotations;
mod answer;
mod arguments;
mod batch;
mod batch_verdict;
mod live;
mod preference;
mod robots_cache;
mod url_list;
pub(super) mod verdict;

use std::collections::HashSet;
use std::fs;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::SystemTime;

use wayleave_lifecycle::{
    FetchEnding, FetchIdentity, FetchOutcome, FetchedBody, FetchedResponse, FinishedFetch,
    ResponseFields,
};
use wayleave_robots_txt::{InvalidUrl, ProductToken, Target, UrlPath};
use wayleave_usage_preferences::PreferenceSettings;

use super::config_file::load_config;
use super::robots_fetcher::RobotsFetcher;
use super::terminal::{CommandResult, print, print_errors, print_painted, unusable};
use answer::CheckAnswer;
pub(super) use arguments::CheckArguments;
use live::FetchedFiles;
use url_list::UrlList;

pub(super) fn run(mut arguments: CheckArguments, config: Option<&Path>) -> CommandResult {
    if arguments.batch {
        return match batch::run(arguments.dialect, arguments.strict, config) {
            Ok(0) => Ok(ExitCode::SUCCESS),
            Ok(failures) => {
                let lines = if failures == 1 { "line" } else { "lines" };
                Err(unusable(&format!(
                    "{failures} {lines} could not be answered: see \"error\" in their answers"
                )))
            }
            // The program that reads the answers has seen enough.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
            Err(error) => Err(unusable(&format!("standard input or output: {error}"))),
        };
    }
    match arguments.from.take() {
        Some(file) => read_list(&mut arguments, file).map_err(|message| unusable(&message))?,
        None => read_urls(&mut arguments)
            .map_err(|error| unusable(&format!("standard input: {error}")))?,
    }
    let arguments = &arguments;
    if let Some(message) = find_wrong_url(arguments) {
        return Err(unusable(&message));
    }
    let is_robots_only = arguments.is_robots_only().map_err(|message| unusable(&message))?;
    if is_robots_only && !arguments.robots_only {
        print_errors(PATHS_ONLY);
    }
    let tokens = tokens(arguments, is_robots_only).map_err(|message| unusable(&message))?;
    let body = match &arguments.robots {
        Some(file) => {
            Some(read(file).map_err(|error| unusable(&format!("{}: {error}", file.display())))?)
        }
        // Only a successful response has rules, and an empty file has none.
        None => arguments.status.map(|_| Vec::new()),
    };
    match body.map(|body| given_ending(arguments, body)) {
        given if !is_robots_only => verdict::run(arguments, &tokens, config, given),
        Some(ending) => Ok(offline(arguments, &tokens, ending)),
        None => live(arguments, &tokens, config),
    }
}

/// A note for those who did not ask for `--robots-only`, and might take the answer for the proxy's.
const PATHS_ONLY: &str = "wayleave: note: a path is judged by robots.txt alone, as with --robots-only: crawlers and rules of the \
     configuration and other spellings do not count; give an absolute URL to know what the proxy would do\n";

/// Takes the URLs from a file.
///
/// # Errors
///
/// Returns a message if the file cannot be read or names no URL, so that a wrong file is not a success.
fn read_list(arguments: &mut CheckArguments, file: PathBuf) -> Result<(), String> {
    let is_asked_twice =
        file == Path::new("-") && arguments.robots.as_deref() == Some(Path::new("-"));
    if is_asked_twice {
        return Err("standard input can contain either robots.txt or URLs, not both".to_owned());
    }
    let name = file.display();
    let list = UrlList::read(&file).map_err(|error| format!("{name}: {error}"))?;
    if list.urls.is_empty() {
        return Err(format!("{name}: no line has an http(s) URL"));
    }
    if let Some(first) = list.without_url.first() {
        let number = list.without_url.len();
        print_errors(&format!(
            "wayleave: warning: {name}:{first}: no http(s) URL in this line ({number} such in all)\n"
        ));
    }
    (arguments.urls, arguments.lines) = (list.urls, list.lines);
    arguments.from = Some(file);
    Ok(())
}

/// Replaces a "-" among the URLs by the lines of standard input.
fn read_urls(arguments: &mut CheckArguments) -> io::Result<()> {
    let Some(at) = arguments.urls.iter().position(|url| url == "-") else {
        return Ok(());
    };
    if arguments.robots.as_deref() == Some(Path::new("-")) {
        return Err(io::Error::other("it can contain either robots.txt or URLs, not both"));
    }
    let input = io::read_to_string(io::stdin().lock())?;
    let lines = input.lines().map(str::trim).filter(|line| !line.is_empty());
    arguments.urls.splice(at..=at, lines.map(str::to_owned));
    Ok(())
}

/// Describes the first argument that is neither an absolute URL nor, with a given robots.txt, a path. Spaces are accepted in
/// both, as in URLs that people paste.
fn find_wrong_url(arguments: &CheckArguments) -> Option<String> {
    let accepts_paths = arguments.robots.is_some() || arguments.status.is_some();
    let mistake = |(index, url): (usize, &String)| {
        let error = if accepts_paths && url.starts_with('/') {
            InvalidUrl::Character(url.chars().find(char::is_ascii_control)?)
        } else {
            let parsed = Target::parse(&url.replace(' ', "%20"));
            parsed.err().or_else(|| UrlPath::of_url(url).err())?
        };
        let hint = match (&error, accepts_paths) {
            (InvalidUrl::NotAbsolute, true) => ", or a path that starts with /",
            (InvalidUrl::NotAbsolute, false) => " (paths need --robots)",
            _ => "",
        };
        let place =
            arguments.place(index).map(|(file, line)| format!("{}:{line}: ", file.display()));
        Some(format!("{}{url:?}: {error}{hint}", place.unwrap_or_default()))
    };
    arguments.urls.iter().enumerate().find_map(mistake)
}

/// Returns the product tokens that the arguments give; none if the proxy identifies the crawler by something else.
fn tokens(arguments: &CheckArguments, is_robots_only: bool) -> Result<Vec<ProductToken>, String> {
    if let Some(field) = &arguments.user_agent {
        if !is_robots_only {
            // The proxy reads the field itself.
            return Ok(Vec::new());
        }
        let token = ProductToken::from_user_agent(field.as_bytes())
            .ok_or_else(|| format!("--user-agent {field:?} contains no product token"))?;
        return Ok(vec![token]);
    }
    let is_known_otherwise = arguments.crawler.is_some() || arguments.client.is_some();
    if arguments.tokens.is_empty() && !is_known_otherwise {
        return Err("no crawler: give --user-agent, --token or --crawler".to_owned());
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

/// Decides by a given file, all of it: `lint` reports where crawlers would stop reading.
fn offline(arguments: &CheckArguments, tokens: &[ProductToken], ending: FetchEnding) -> ExitCode {
    // Nothing here depends on the time of the fetch.
    let finished = FinishedFetch {
        fetched_at: SystemTime::UNIX_EPOCH,
        fetched_as: FetchIdentity::proxy(),
        outcome: FetchOutcome { redirects: Vec::new(), uri: String::new(), ending },
    };
    let access = finished.access();
    let dialect = arguments.dialect.unwrap_or_default();
    let declaration = arguments.declaration();
    let reading = PreferenceSettings::default();
    let query = arguments.query(tokens, dialect, (&declaration, &reading));
    let answers =
        arguments.urls.iter().map(|url| CheckAnswer::new(url, &access, &path_of(url), query, None));
    finish(&answers.collect::<Vec<_>>(), arguments.json)
}

/// Returns the result of a fetch with this body.
fn given_ending(arguments: &CheckArguments, body: Vec<u8>) -> FetchEnding {
    FetchEnding::Response(FetchedResponse {
        status: arguments.status.unwrap_or(200),
        fields: ResponseFields::default(),
        body: FetchedBody { bytes: body.into(), ..FetchedBody::default() },
    })
}

/// Returns the path of an argument. One that starts with `/` is a path even if it starts with two, where a reference would
/// name a host (RFC 3986 section 4.2).
fn path_of(url: &str) -> UrlPath<'_> {
    UrlPath::parse(url)
        .or_else(|_| UrlPath::of_url(url))
        .expect("what is neither has been refused before")
}

/// Decides by the files that the origins serve now.
fn live(
    arguments: &CheckArguments,
    tokens: &[ProductToken],
    config: Option<&Path>,
) -> CommandResult {
    let (config, _) = load_config(config)?;
    let targets = arguments
        .urls
        .iter()
        .map(|url| Target::parse(url).map_err(|error| unusable(&format!("{url}: {error}"))))
        .collect::<Result<Vec<_>, _>>()?;
    let fetcher = RobotsFetcher::new(&config).map_err(|error| unusable(&format!("{error:#}")))?;
    let origins: HashSet<_> = targets.iter().map(Target::origin).collect();
    // Without the proxy's decision, the names stand for a client that is no configured crawler.
    let user_agent = arguments.user_agent.clone().unwrap_or_else(|| arguments.tokens.join(" "));
    let identity = Arc::new(FetchIdentity::of_client(user_agent));
    let mut files = FetchedFiles::new(origins.len(), fetcher, identity);
    let dialect = arguments.dialect.unwrap_or(config.robots.dialect);
    let declaration = arguments.declaration();
    let query = arguments.query(tokens, dialect, (&declaration, &config.preferences.reading));
    let mut answers = Vec::with_capacity(targets.len());
    for (url, target) in arguments.urls.iter().zip(&targets) {
        let robots_txt = files.get(&target.origin().into());
        let live = Some((&mut files, target.origin()));
        answers.push(CheckAnswer::new(url, robots_txt.access(), target.path(), query, live));
    }
    // The progress line has to be gone before anything is printed.
    drop(files);
    Ok(finish(&answers, arguments.json))
}

/// Prints the answers and returns the exit status that sums them up.
fn finish(answers: &[CheckAnswer<'_>], json: bool) -> ExitCode {
    let line = |answer| {
        if json { CheckAnswer::to_json(answer) } else { CheckAnswer::to_text(answer) }
    };
    let text: String = answers.iter().map(|answer| line(answer) + "\n").collect();
    let printed = if json { print(&text) } else { print_painted(&text) };
    if printed == ExitCode::SUCCESS {
        return ExitCode::from(answer::exit_status(answers));
    }
    printed
}
