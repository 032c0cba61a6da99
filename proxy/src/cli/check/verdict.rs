//! The proxy's verdict on URLs, by its configuration and by files that are fetched or given.

use std::collections::HashSet;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::SystemTime;

use wayleave_admission::offline::{self, InputSource};
use wayleave_admission::preview::{PreviewedDecision, PurposeWords, Question, readings};
use wayleave_clock::system_time;
use wayleave_config::Config;
use wayleave_decision::{
    CheckedSnapshot, ClaimedNames, Crawlers, Decision, DecisionRequest, DecisionSettings,
    DocumentResult, Identity, InterceptionSettings, PolicyRules, RequestOutcome, RobotsCopy,
};
use wayleave_lifecycle::{FetchEnding, FetchOutcome, FinishedFetch, Resource};
use wayleave_notation::harmless::escape_controls;
use wayleave_robots_txt::{Origin, ProductToken, Target};
use wayleave_usage_preferences::{PreferenceSettings, Purpose};

use super::annotations::{Level, annotation};
use super::arguments::CheckArguments;
use super::by_origin::answer_by_origin;
use super::live::FetchedFiles;
use super::url_list::{join_rows, with_escaped_spaces};
use crate::admin::preview::Preview;
use crate::cli::config_file::load_config;
use crate::cli::crawler_names;
use crate::cli::paint::Tone;
use crate::cli::robots_fetcher::RobotsFetcher;
use crate::cli::terminal::{
    CommandResult, INCOMPLETE, UNUSABLE, counted, json_line, print, print_painted, unusable,
};

/// The settings of the proxy that decide.
pub(crate) struct ProxySettings {
    crawlers: Crawlers,
    rules: PolicyRules,
    interception: InterceptionSettings,
    preferences: PreferenceSettings,
}

impl ProxySettings {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            crawlers: Crawlers::new(config.crawlers.clone()),
            rules: PolicyRules::new(config.rules.clone()),
            interception: config.https.interception.clone(),
            preferences: config.preferences.reading.clone(),
        }
    }

    /// Decides about a request that nobody made. `tokens` are the names of a crawler that is not configured.
    ///
    /// # Errors
    ///
    /// Returns a message if the question is wrong.
    pub(crate) fn decide(
        &self,
        question: &Question,
        tokens: &[ProductToken],
        source: &mut impl InputSource,
    ) -> Result<Preview, String> {
        let now = system_time();
        Ok(Preview::new(self.preview(question, tokens, source, now)?, now))
    }

    /// Returns the decision itself.
    ///
    /// # Errors
    ///
    /// As [`Self::decide`].
    pub(crate) fn preview(
        &self,
        question: &Question,
        tokens: &[ProductToken],
        source: &mut impl InputSource,
        now: SystemTime,
    ) -> Result<PreviewedDecision, String> {
        let mut request = question.request(&self.crawlers, &self.interception)?;
        // All names in their order: from a `User-Agent` that contains them, only some might be read.
        if let Identity::Asserted { claim, .. } = &mut request.identified.identity
            && !tokens.is_empty()
        {
            *claim = ClaimedNames::with_tokens(tokens.to_vec()).into();
            // The stand-in that declares the purposes has the same names.
            if let Some(crawler) = &mut request.identified.purposes_from {
                Arc::make_mut(crawler).tokens = tokens.to_vec();
            }
        }
        let settings = DecisionSettings {
            crawlers: &self.crawlers,
            rules: &self.rules,
            interception: &self.interception,
            preferences: &self.preferences,
        };
        let decision = Decision::new(
            settings,
            DecisionRequest {
                identified: &request.identified,
                method: &request.method,
                resolved: request.resolved,
                is_by_tunnel: request.is_by_tunnel,
                subresource: None,
                now,
            },
        );
        let verdict = offline::complete(decision, source);
        let identity = request.identified.identity;
        let dialects = match &verdict.facts.finding {
            Some(_) => {
                let robots_txt = source.robots_txt(request.target.target.origin());
                readings(robots_txt.access(), &identity, &request.target)
            }
            // It was not needed, so it is not fetched to be shown.
            None => Vec::new(),
        };
        Ok(PreviewedDecision {
            client: request.client,
            method: request.method,
            url: request.target.target.to_string(),
            identity,
            // A process counts its configurations from 1, and this one loads no other.
            configuration: 1,
            verdict,
            dialects,
        })
    }

    /// Returns the configured crawlers.
    pub(crate) fn crawlers(&self) -> &Crawlers {
        &self.crawlers
    }
}

/// Files that the user gave: one robots.txt for every origin, and no other documents.
struct GivenRobotsTxt {
    ending: FetchEnding,
    now: SystemTime,
}

impl InputSource for GivenRobotsTxt {
    fn robots_txt(&mut self, origin: &Origin) -> RobotsCopy {
        let resource = Resource::from(origin);
        let outcome = FetchOutcome {
            redirects: Vec::new(),
            uri: resource.uri(),
            ending: self.ending.clone(),
        };
        RobotsCopy::Cached(CheckedSnapshot::from_fetch(
            &resource,
            FinishedFetch::of_proxy(outcome, self.now),
        ))
    }

    fn document(&mut self, _: &Resource) -> DocumentResult {
        DocumentResult::NotAsked("with a given robots.txt, nothing else is fetched".to_owned())
    }
}

/// Prints the verdicts on all URLs. `given` is the result of fetching robots.txt, if it is not to be fetched.
pub(super) fn run(
    arguments: &CheckArguments,
    tokens: &[ProductToken],
    config: Option<&Path>,
    given: Option<FetchEnding>,
) -> CommandResult {
    let (config, _) = load_config(config)?;
    if let Some(name) = &arguments.crawler {
        crawler_names::check_known(name, &config).map_err(|mistake| unusable(&mistake))?;
    }
    let settings = ProxySettings::new(&config);
    let decided: Result<Vec<Preview>, String> = match given {
        Some(ending) => {
            let mut source = GivenRobotsTxt { ending, now: system_time() };
            let questions = arguments.urls.iter().map(|url| arguments.question(url));
            questions.map(|question| settings.decide(&question, tokens, &mut source)).collect()
        }
        None => {
            let fetcher =
                RobotsFetcher::new(&config).map_err(|error| unusable(&format!("{error:#}")))?;
            decide_live(arguments, tokens, &settings, fetcher)
        }
    };
    let verdicts = decided.map_err(|message| unusable(&message))?;
    Ok(finish(&verdicts, arguments))
}

/// Decides by the files that the origins serve now.
fn decide_live(
    arguments: &CheckArguments,
    tokens: &[ProductToken],
    settings: &ProxySettings,
    fetcher: RobotsFetcher,
) -> Result<Vec<Preview>, String> {
    let targets = arguments.urls.iter().map(|url| Target::parse(&with_escaped_spaces(url)));
    let targets: Result<Vec<_>, _> = targets.collect();
    let targets = targets.map_err(|error| error.to_string())?;
    let origins: Vec<&Origin> = targets.iter().map(Target::origin).collect();
    let question = arguments.question("");
    let identified = question.identified(&settings.crawlers)?;
    let identity = fetcher.identities().of(&identified.identity, question.user_agent.as_bytes());
    let count = origins.iter().collect::<HashSet<_>>().len();
    let files = FetchedFiles::new(count, fetcher, identity);
    let decided = answer_by_origin(&origins, |index| {
        settings.decide(&arguments.question(&arguments.urls[index]), tokens, &mut &files)
    });
    decided.into_iter().collect()
}

impl CheckArguments {
    /// Returns the question about a URL. A product token stands for a `User-Agent`, too.
    fn question(&self, url: &str) -> Question {
        let purpose = self.purposes.iter().copied().map(Purpose::as_str);
        Question {
            url: with_escaped_spaces(url),
            user_agent: match &self.user_agent {
                Some(user_agent) => user_agent.clone(),
                None => self.tokens.join(" "),
            },
            crawler: self.crawler.clone(),
            dialect: self.dialect,
            client: self.client.map(|client| client.to_string()),
            method: None,
            purpose: purpose.map(|word| PurposeWords(word.to_owned())).collect(),
        }
    }
}

/// Prints the verdicts and returns the exit status that sums them up.
fn finish(verdicts: &[Preview], arguments: &CheckArguments) -> ExitCode {
    let printed = if arguments.github {
        print(&annotations(verdicts, arguments))
    } else if arguments.json {
        let rows = verdicts.iter().map(|verdict| json_line(verdict) + "\n");
        print(&join_rows(rows, &arguments.mistakes, |mistake| json_line(mistake) + "\n"))
    } else {
        let urls = arguments.urls.iter();
        let lines = urls.zip(verdicts).map(|(url, verdict)| line(url, verdict) + "\n");
        print_painted(&lines.collect::<String>())
    };
    match printed {
        // Nothing is known about these lines, so that no verdict sums up all of them.
        ExitCode::SUCCESS if !arguments.mistakes.is_empty() => ExitCode::from(UNUSABLE),
        ExitCode::SUCCESS => ExitCode::from(exit_status(verdicts)),
        error => error,
    }
}

/// Returns the verdict in a word: `forward`, `observe`, `refuse`, or `fail` for a name that cannot be resolved.
pub(crate) fn word(verdict: &Preview) -> &'static str {
    match verdict.outcome() {
        RequestOutcome::Forwarded | RequestOutcome::Tunnelled => "forward",
        RequestOutcome::Observed => "observe",
        RequestOutcome::Failed => "fail",
        RequestOutcome::Refused => "refuse",
    }
}

/// Formats a verdict as `refuse https://shop.test/private: rule (403): Disallow: /private (line 2 of
/// https://shop.test/robots.txt)`.
pub(crate) fn line(url: &str, verdict: &Preview) -> String {
    let word = word(verdict);
    let tone = match word {
        "forward" => Tone::Good,
        "refuse" if !is_undecided(verdict) => Tone::Bad,
        _ => Tone::Doubtful,
    };
    tone.paint(word) + " " + &escape_controls(&explanation(url, verdict))
}

/// Formats the details of a verdict about a URL, after its word.
fn explanation(url: &str, verdict: &Preview) -> String {
    let mut text = format!("{url}: {} ({}", verdict.reason(), verdict.status());
    if let Some(would_be) = verdict.would_be() {
        text += &format!(", would be {would_be}");
    }
    text += ")";
    if let Some(details) = verdict.details() {
        text += &format!(": {details}");
    }
    text
}

/// Returns an annotation for each URL that would not simply be forwarded and for each line without one, and one that counts
/// all.
fn annotations(verdicts: &[Preview], arguments: &CheckArguments) -> String {
    // A file is named as it is in the repository; standard input has no name there.
    let file = arguments.from.as_deref().filter(|file| *file != Path::new("-"));
    let [mut refused, mut undecided, mut observed] = [0; 3];
    let rows = verdicts.iter().enumerate().map(|(index, verdict)| {
        let (level, title) = match word(verdict) {
            "forward" => return String::new(),
            "observe" => {
                observed += 1;
                (Level::Warning, "Would be refused, if wayleave did not only observe")
            }
            _ if is_undecided(verdict) => {
                undecided += 1;
                (Level::Warning, "Undecided")
            }
            _ => {
                refused += 1;
                (Level::Error, "Would be refused")
            }
        };
        let place = file.zip(arguments.lines.get(index).copied());
        annotation(level, place, title, &explanation(&arguments.urls[index], verdict))
    });
    let mut text = join_rows(rows, &arguments.mistakes, |mistake| {
        let place = file.map(|file| (file, mistake.line));
        annotation(Level::Error, place, "No URL", &mistake.to_string())
    });
    let all = verdicts.len();
    let forwarded = all - refused - undecided - observed;
    let mut count = format!(
        "{all} URLs: {forwarded} forwarded, {refused} refused, {undecided} undecided, {observed} observed"
    );
    if !arguments.mistakes.is_empty() {
        count += &format!("; {} without a URL", counted(arguments.mistakes.len(), "line"));
    }
    text += &annotation(Level::Notice, None, "wayleave check", &count);
    text
}

/// Returns 3 if anything could not be decided, else 1 if anything is refused, else 0.
fn exit_status(verdicts: &[Preview]) -> u8 {
    if verdicts.iter().any(is_undecided) {
        return INCOMPLETE;
    }
    u8::from(verdicts.iter().any(|verdict| word(verdict) == "refuse"))
}

/// Returns whether the verdict may be another one when the origin, or DNS, answers again.
pub(crate) fn is_undecided(verdict: &Preview) -> bool {
    match verdict.outcome() {
        RequestOutcome::Failed => true,
        // As for an unreachable robots.txt, which the next attempt may reach.
        RequestOutcome::Refused => verdict.status() == 503,
        RequestOutcome::Forwarded | RequestOutcome::Tunnelled | RequestOutcome::Observed => false,
    }
}
