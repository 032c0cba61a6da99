//! `wayleave check`: the proxy's decisions about URLs, or those of robots.txt alone, without a running proxy.

mod annotations;
mod answer;
mod arguments;
pub(super) mod by_origin;
pub(super) mod live;
pub(super) mod preference;
pub(super) mod url_list;
pub(super) mod verdict;

use std::collections::HashSet;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::SystemTime;

use wayleave_lifecycle::{
    FetchEnding, FetchIdentity, FetchOutcome, FetchedBody, FetchedResponse, FinishedFetch,
    ResponseFields,
};
use wayleave_robots_txt::{Origin, ProductToken, Target};
use wayleave_usage_preferences::PreferenceSettings;

use super::config_file::load_config;
use super::robots_fetcher::RobotsFetcher;
use super::terminal::{
    CommandResult, UNUSABLE, json_line, print, print_errors, print_painted, unusable,
};
use answer::CheckAnswer;
pub(super) use arguments::CheckArguments;
use by_origin::answer_by_origin;
use live::FetchedFiles;
use url_list::{UrlList, find_mistake, join_rows, path_of, with_escaped_spaces};

pub(super) fn run(mut arguments: CheckArguments, config: Option<&Path>) -> CommandResult {
    match arguments.from.take() {
        Some(file) => read_list(&mut arguments, file),
        None => read_urls(&mut arguments),
    }
    .map_err(|message| unusable(&message))?;
    let arguments = &arguments;
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
/// As [`UrlList::read_and_report`].
fn read_list(arguments: &mut CheckArguments, file: PathBuf) -> Result<(), String> {
    let is_asked_twice =
        file == Path::new("-") && arguments.robots.as_deref() == Some(Path::new("-"));
    if is_asked_twice {
        return Err(ASKED_TWICE.to_owned());
    }
    let list = UrlList::read_and_report(&file)?;
    (arguments.urls, arguments.lines, arguments.mistakes) = (list.urls, list.lines, list.mistakes);
    arguments.from = Some(file);
    Ok(())
}

const ASKED_TWICE: &str = "standard input can contain either robots.txt or URLs, not both";

/// Replaces a "-" among the URLs by the lines of standard input, and reports the lines that are wrong.
fn read_urls(arguments: &mut CheckArguments) -> Result<(), String> {
    let accepts_paths = arguments.accepts_paths();
    if let Some(url) =
        arguments.urls.iter().find(|url| *url != "-" && find_mistake(url, accepts_paths).is_some())
    {
        let error = find_mistake(url, accepts_paths).unwrap_or_default();
        return Err(format!("{url:?}: {error}"));
    }
    let Some(at) = arguments.urls.iter().position(|url| url == "-") else {
        return Ok(());
    };
    if arguments.robots.as_deref() == Some(Path::new("-")) {
        return Err(ASKED_TWICE.to_owned());
    }
    let input = io::read_to_string(io::stdin().lock())
        .map_err(|error| format!("standard input: {error}"))?;
    let mut list = UrlList::parse_lines(&input, accepts_paths);
    list.report_mistakes(Path::new("-"));
    for mistake in &mut list.mistakes {
        mistake.urls_before += at;
    }
    arguments.urls.splice(at..=at, list.urls);
    arguments.mistakes = list.mistakes;
    Ok(())
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
    finish(&answers.collect::<Vec<_>>(), arguments)
}

/// Returns the result of a fetch with this body.
fn given_ending(arguments: &CheckArguments, body: Vec<u8>) -> FetchEnding {
    FetchEnding::Response(FetchedResponse {
        status: arguments.status.unwrap_or(200),
        fields: ResponseFields::default(),
        body: FetchedBody { bytes: body.into(), ..FetchedBody::default() },
    })
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
        .map(|url| Target::parse(&with_escaped_spaces(url)))
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| unusable(&error.to_string()))?;
    let fetcher = RobotsFetcher::new(&config).map_err(|error| unusable(&format!("{error:#}")))?;
    let origins: Vec<&Origin> = targets.iter().map(Target::origin).collect();
    // Without the proxy's decision, the names stand for a client that is no configured crawler.
    let user_agent = arguments.user_agent.clone().unwrap_or_else(|| arguments.tokens.join(" "));
    let identity = Arc::new(FetchIdentity::of_client(user_agent));
    let count = origins.iter().collect::<HashSet<_>>().len();
    let files = FetchedFiles::new(count, fetcher, identity);
    let dialect = arguments.dialect.unwrap_or(config.robots.dialect);
    let declaration = arguments.declaration();
    let query = arguments.query(tokens, dialect, (&declaration, &config.preferences.reading));
    let answers = answer_by_origin(&origins, |index| {
        let robots_txt = files.get(&origins[index].into());
        let live = Some((&files, origins[index]));
        let path = targets[index].path();
        CheckAnswer::new(&arguments.urls[index], robots_txt.access(), path, query, live)
    });
    // The progress line has to be gone before anything is printed.
    drop(files);
    Ok(finish(&answers, arguments))
}

/// Prints the answers and returns the exit status that sums them up.
fn finish(answers: &[CheckAnswer<'_>], arguments: &CheckArguments) -> ExitCode {
    let printed = if arguments.json {
        let rows = answers.iter().map(|answer| answer.to_json() + "\n");
        print(&join_rows(rows, &arguments.mistakes, |mistake| json_line(mistake) + "\n"))
    } else {
        print_painted(&answers.iter().map(|answer| answer.to_text() + "\n").collect::<String>())
    };
    match printed {
        // Nothing is known about these lines, so that no verdict sums up all of them.
        ExitCode::SUCCESS if !arguments.mistakes.is_empty() => ExitCode::from(UNUSABLE),
        ExitCode::SUCCESS => ExitCode::from(answer::exit_status(answers)),
        error => error,
    }
}
