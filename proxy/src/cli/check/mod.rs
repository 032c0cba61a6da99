//! `wayleave check`: what the proxy would do about URLs, or what robots.txt says about them, without a running proxy.

mod answer;
mod arguments;
mod batch;
mod batch_verdict;
mod live;
mod preference;
mod robots_cache;
mod verdict;

use std::collections::HashSet;
use std::fs;
use std::io::{self, ErrorKind, Read};
use std::path::Path;
use std::process::ExitCode;
use std::time::SystemTime;

use wayleave_lifecycle::{
    FetchEnding, FetchOutcome, FetchedAnswer, FetchedBody, FetchedResponse, ResponseFields,
};
use wayleave_robots_txt::{Dialect, InvalidUri, ProductToken, Target};
use wayleave_usage_preferences::PreferenceSettings;

use super::config_file::load_config;
use super::robots_fetcher::RobotsFetcher;
use super::terminal::{print, print_painted, unusable};
use answer::CheckAnswer;
pub(super) use arguments::CheckArguments;
use live::FetchedFiles;

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
        return Err(io::Error::other("it holds either robots.txt or URLs, not both"));
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
        outcome: FetchOutcome { redirects: Vec::new(), uri: String::new(), ending },
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
        body: FetchedBody { bytes: body.into(), ..FetchedBody::default() },
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
    let targets = match arguments.urls.iter().map(target).collect::<Result<Vec<_>, _>>() {
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
        if json { CheckAnswer::to_json(answer) } else { CheckAnswer::to_text(answer) }
    };
    let text: String = answers.iter().map(|answer| line(answer) + "\n").collect();
    let printed = if json { print(&text) } else { print_painted(&text) };
    if printed == ExitCode::SUCCESS {
        return ExitCode::from(answer::exit_status(answers));
    }
    printed
}
