//! Runs every case in `cases/` against the model of usage preferences.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use serde::Deserialize;
use wayleave_robots_txt::{
    AccessResult, Dialect, ProductToken, RobotsTxt, UrlPath, decide, decide_all_spellings,
};
use wayleave_usage_preferences::{
    CrawlerDeclaration, Preference, PreferenceQuery, PreferenceSettings, PreferenceState, Purpose,
    PurposeSet, RslLicence, TdmrepFile,
};

const CASES: [&str; 2] =
    [include_str!("cases/preferences.jsonl"), include_str!("cases/robots_tag.jsonl")];

/// 2026-11-22, the day the cases are from, in seconds since 1970.
const NOW: u64 = 1_795_305_600;

#[derive(Deserialize)]
struct Case {
    id: String,
    token: String,
    url: String,
    purpose: OneOrMany,
    robots: Option<String>,
    tdmrep: Option<String>,
    #[serde(default)]
    rsl: BTreeMap<String, String>,
    status: Option<u16>,
    headers: Option<Vec<(String, String)>>,
    html: Option<String>,
    #[serde(default)]
    config: Config,
    stage: String,
    expect: String,
    because: String,
}

/// A case after a public report or a real site, about the preference alone.
#[derive(Deserialize)]
struct PublicCase {
    id: String,
    user_agent: String,
    url: String,
    robots: String,
    question: PublicQuestion,
    right: String,
    why: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PublicQuestion {
    purpose: OneOrMany,
    tdmrep: Option<String>,
    #[serde(default)]
    rsl: BTreeMap<String, String>,
    headers: Option<Vec<(String, String)>>,
    html: Option<String>,
    #[serde(default)]
    config: Config,
}

impl PublicCase {
    fn into_case(self) -> Case {
        let PublicQuestion { purpose, tdmrep, rsl, headers, html, config } = self.question;
        Case {
            id: self.id,
            token: self.user_agent,
            url: self.url,
            purpose,
            robots: Some(self.robots),
            tdmrep,
            rsl,
            status: None,
            headers,
            html,
            config,
            stage: String::new(),
            expect: self.right,
            because: self.why,
        }
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Config {
    purpose_tokens: BTreeMap<String, String>,
    content_use: Option<String>,
    unstated: Option<String>,
    sources: Option<Vec<String>>,
    rule: Option<String>,
}

impl Case {
    fn declaration(&self) -> CrawlerDeclaration {
        let purposes = match &self.purpose {
            OneOrMany::One(name) => std::slice::from_ref(name),
            OneOrMany::Many(names) => names,
        };
        let purpose = |name: &String| name.parse::<Purpose>().unwrap();
        let tokens = self.config.purpose_tokens.iter();
        CrawlerDeclaration {
            purposes: purposes.iter().map(purpose).collect(),
            purpose_tokens: tokens
                .map(|(name, token)| (purpose(name), ProductToken::new(token).unwrap()))
                .collect(),
            content_use: self
                .config
                .content_use
                .as_ref()
                .map(|content_use| content_use.parse().unwrap()),
            refuse_unstated: self.config.unstated.as_deref() == Some("refuse"),
        }
    }

    fn settings(&self) -> PreferenceSettings {
        let mut settings = PreferenceSettings::default();
        if let Some(sources) = &self.config.sources {
            settings.sources = sources.iter().map(|source| source.parse().unwrap()).collect();
        }
        settings
    }

    /// Returns the preference and the stage that the model gives.
    fn judged(&self, strict: bool) -> (&'static str, &'static str) {
        let declaration = self.declaration();
        let settings = self.settings();
        let tokens = [ProductToken::new(&self.token).unwrap()];
        let query = PreferenceQuery {
            declaration: &declaration,
            settings: &settings,
            tokens: &tokens,
            dialect: Dialect::Rfc9309,
            all_spellings: strict,
            now: SystemTime::UNIX_EPOCH + Duration::from_secs(NOW),
        };
        let path = UrlPath::of_url(&self.url).unwrap();
        let mut state = PreferenceState::new(query, &self.url, path.as_str());
        if let Some(rule) = &self.config.rule {
            state.add_rule(rule == "allow");
        }
        if let Some(robots) = &self.robots {
            let robots = RobotsTxt::parse(robots.as_bytes());
            let access = AccessResult::Successful(robots.clone());
            let judge = if strict { decide_all_spellings } else { decide };
            state.add_access_decision(&judge(&access, Dialect::Rfc9309, &tokens, &path));
            state.add_robots_txt(query, &robots);
        }
        if let Some(file) = &self.tdmrep {
            state.add_tdmrep(query, &TdmrepFile::parse(file.as_bytes()));
        }
        if self.headers.is_some() || self.status.is_some() {
            let fields = self.headers.iter().flatten();
            let fields = fields.map(|(name, value)| (name.as_str(), value.as_str()));
            state.add_response_head(query, self.status.unwrap_or(200), &fields);
        }
        if let Some(html) = &self.html {
            state.add_page(query, html);
        }
        for (url, text) in &self.rsl {
            state.add_licence(url, &RslLicence::parse(text.as_bytes()).into());
        }
        let judgement = state.judge(query);
        (judgement.preference.as_str(), judgement.stage.as_str())
    }
}

fn cases() -> Vec<Case> {
    let lines = CASES.iter().flat_map(|file| file.lines());
    lines.map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn every_case_has_the_result_of_its_clause() {
    let cases = cases();
    assert!(cases.len() >= 420, "only {} cases were read", cases.len());
    let mut failed = Vec::new();
    for case in &cases {
        for strict in [false, true] {
            let judged = case.judged(strict);
            if judged != (&case.expect, &case.stage) {
                let Case { id, expect, stage, because, .. } = case;
                failed.push(format!("{id}: {judged:?}, not {expect} {stage}: {because}"));
            }
        }
    }
    assert!(failed.is_empty(), "{}: {failed:#?}", failed.len());
}

#[test]
fn every_public_case_about_use_is_right() {
    let mut failed = Vec::new();
    let lines = include_str!("cases/public.jsonl").lines();
    for line in lines.clone() {
        let case = serde_json::from_str::<PublicCase>(line).unwrap().into_case();
        for strict in [false, true] {
            let (preference, _) = case.judged(strict);
            if preference != case.expect {
                let Case { id, expect, because, .. } = &case;
                failed.push(format!("{id}: {preference}, not {expect}: {because}"));
            }
        }
    }
    assert_eq!(lines.count(), 79);
    assert!(failed.is_empty(), "{}: {failed:#?}", failed.len());
}

fn declare(purpose: Purpose) -> CrawlerDeclaration {
    CrawlerDeclaration { purposes: PurposeSet::of(&[purpose]), ..CrawlerDeclaration::default() }
}

/// Reads a robots.txt for a path, or for every path, and asks about its state.
fn read<T>(
    declaration: &CrawlerDeclaration,
    path: Option<&str>,
    robots: &str,
    ask: impl FnOnce(&PreferenceState, PreferenceQuery<'_>) -> T,
) -> T {
    let query = PreferenceQuery {
        declaration,
        settings: &PreferenceSettings::default(),
        tokens: &[],
        dialect: Dialect::Rfc9309,
        all_spellings: true,
        now: SystemTime::UNIX_EPOCH,
    };
    let mut state = match path {
        Some(path) => PreferenceState::new(query, "https://site.test/", path),
        None => PreferenceState::for_every_path("https://site.test/"),
    };
    state.add_robots_txt(query, &RobotsTxt::parse(robots.as_bytes()));
    ask(&state, query)
}

/// Returns the preference of robots.txt for a crawler that trains, with or without its access rules.
fn for_training(robots: &str, token: &str, with_access: bool) -> Preference {
    let tokens = [ProductToken::new(token).unwrap()];
    let query = PreferenceQuery {
        declaration: &declare(Purpose::TrainAi),
        settings: &PreferenceSettings::default(),
        tokens: &tokens,
        dialect: Dialect::Rfc9309,
        all_spellings: true,
        now: SystemTime::UNIX_EPOCH,
    };
    let robots = RobotsTxt::parse(robots.as_bytes());
    let mut state = PreferenceState::new(query, "https://site.test/x", "/x");
    if with_access {
        let access = AccessResult::Successful(robots.clone());
        state.add_access_decision(&decide(
            &access,
            Dialect::Rfc9309,
            &tokens,
            &UrlPath::parse("/x").unwrap(),
        ));
    }
    state.add_robots_txt(query, &robots);
    state.judge(query).preference
}

#[test]
fn quotations_are_bounded() {
    let long = "x".repeat(100_000);
    let robots = format!(
        "User-agent: *\nUser-agent: {long}\nDisallow: /{long}\nContent-Usage: train-ai=n;{long}\n"
    );
    let crawler = RobotsTxt::parse(robots.as_bytes()).for_crawler("foobot").unwrap();
    let details = crawler.decide(&format!("/{long}")).unwrap().details();
    let rule = details.rule.unwrap();
    assert!(rule.starts_with("Disallow: /xx") && rule.ends_with("x\u{2026}"));
    assert_eq!(rule.len(), 200);
    assert!(details.group.iter().all(|name| name.len() <= 200));
    let training = declare(Purpose::TrainAi);
    let judgement = read(&training, Some("/"), &robots, PreferenceState::judge);
    assert_eq!(judgement.preference, Preference::Refuse);
    let text = &judgement.statement().unwrap().text;
    assert!(text.starts_with("Content-Usage: train-ai=n"), "{text}");
    assert_eq!(text.len(), 200);
}

#[test]
fn an_embargo_is_named_once_by_a_letter_that_is_known() {
    let lines =
        "Archive-Embargo: q\nArchive-Embargo: forever\nArchive-Embargo: Q\nArchive-Embargo: m\n";
    let robots = format!("User-agent: *\n{}", lines.repeat(1000));
    let archive = declare(Purpose::Archive);
    let duties = read(&archive, Some("/"), &robots, PreferenceState::duties);
    assert_eq!(duties.len(), 1);
    assert_eq!(duties[0].value.as_deref(), Some("q|m"));
}

/// The texts differ on whether a preference ends a run of user-agent lines: to preferences it does, to access it does not.
#[test]
fn content_usage_splits_groups_for_preferences_only() {
    let robots = "User-agent: A\nContent-Usage: train-ai=y\nUser-agent: B\nDisallow: /\n";
    assert_eq!(for_training(robots, "A", true), Preference::Refuse);
    assert_eq!(for_training(robots, "A", false), Preference::Allow);
    let robots =
        "User-agent: A\nContent-Usage: train-ai=y\nUser-agent: B\nContent-Usage: train-ai=n\n";
    assert_eq!(for_training(robots, "A", true), Preference::Allow);
    assert_eq!(for_training(robots, "B", true), Preference::Refuse);
    // Without anything between them two lines begin one group.
    let robots = "User-agent: A\nUser-agent: B\nContent-Usage: train-ai=n\n";
    assert_eq!(for_training(robots, "A", true), Preference::Refuse);
    assert_eq!(for_training(robots, "B", true), Preference::Refuse);
}

#[test]
fn another_spelling_of_a_path_restricts_and_never_permits() {
    let robots = "User-agent: *\nContent-Usage: /x train-ai=n\nContent-Usage: /y train-ai=y\n";
    let training = declare(Purpose::TrainAi);
    let at = |path| read(&training, Some(path), robots, PreferenceState::judge).preference;
    assert_eq!(at("/a/../x"), Preference::Refuse);
    assert_eq!(at("/a/../y"), Preference::Unstated);
    assert_eq!(at("/y"), Preference::Allow);
}

#[test]
fn a_refusal_of_one_path_refuses_a_hidden_path() {
    let mut training = declare(Purpose::TrainAi);
    training.purpose_tokens = vec![(Purpose::TrainAi, ProductToken::new("A-Extended").unwrap())];
    let judge = |line: &str| {
        let robots = format!("User-agent: *\nContent-Usage: train-ai=y\n{line}\n");
        read(&training, None, &robots, PreferenceState::judge).preference
    };
    assert_eq!(judge(""), Preference::Unstated);
    for line in [
        "Content-Usage: /a train-ai=n",
        "Content-Signal: /a ai-train=no",
        "DisallowAITraining: /a",
        "User-agent: A-Extended\nDisallow: /a",
    ] {
        assert_eq!(judge(line), Preference::Refuse, "{line}");
    }
}
