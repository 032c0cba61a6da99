//! An additional source or statement never allows what was refused, except where a family's own text says so:
//! `lifting_in_robots_txt` and `lifting_elsewhere` list those texts.

use std::time::SystemTime;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use wayleave_robots_txt::{Dialect, ProductToken, RobotsTxt};
use wayleave_usage_preferences::{
    CrawlerDeclaration, Preference, PreferenceQuery, PreferenceSettings, PreferenceSource,
    PreferenceState, Purpose, RslLicence, SourceSet, TdmrepFile,
};

/// Lines of robots.txt: access, every family, lines that cannot be read, and lines that begin groups.
const LINES: [&str; 20] = [
    "User-agent: *",
    "User-agent: ExampleBot",
    "User-agent: ExampleBot-Extended",
    "Disallow: /a",
    "Allow: /",
    "Content-Usage: train-ai=n",
    "Content-Usage: train-ai=y, search=y",
    "Content-Usage: /a ai-use=n, search=n",
    "Content-Usage: /a/b train-ai=y",
    "Content-Usage: all=n, search=y",
    "Content-Usage: train-ai=n,",
    "Content-Signal: search=yes, ai-train=no, use=reference",
    "Content-Signal: /a ai-input=no",
    "Content-Signal: ai-train=yes",
    "DisallowAITraining: /a",
    "AllowAITraining: /a/b",
    "License: https://site.test/refuses.xml",
    "License: https://site.test/allows.xml",
    "License: https://site.test/missing.xml",
    "",
];

/// Fields of a response. Those of TDMRep are separate, because there a later carrier replaces an earlier one.
const FIELDS: [(&str, &str); 9] = [
    ("X-Robots-Tag", "noindex, noai"),
    ("X-Robots-Tag", "index, follow, all"),
    ("X-Robots-Tag", "otherbot: none"),
    ("Content-Signal", "ai-input=no"),
    ("Content-Signal", "search=yes, ai-train=yes, use=full"),
    ("Link", "<https://site.test/allows.xml>; rel=license; type=\"application/rsl+xml\""),
    ("Link", "<https://site.test/refuses.xml>; rel=license; type=\"application/rsl+xml\""),
    ("Content-Type", "image/png"),
    ("crawler-charged", "USD 0.01"),
];

const ELEMENTS: [&str; 5] = [
    "<meta name=robots content=noindex>",
    "<meta name=examplebot content='nosnippet, index'>",
    "<meta name=robots content=all>",
    "<link rel=license type=application/rsl+xml href=/allows.xml>",
    "<script type=application/rsl+xml><rsl/></script>",
];

const ENTRIES: [&str; 4] = [
    r#"{"location":"/","tdm-reservation":1}"#,
    r#"{"location":"/","tdm-reservation":0}"#,
    r#"{"location":"/a","tdm-reservation":1}"#,
    r#"{"location":"/a"}"#,
];

const PERMITS: &str =
    "<content url='/'><license><permits type='usage'>all</permits></license></content>";
const PROHIBITS: &str =
    "<content url='/'><license><prohibits type='usage'>all</prohibits></license></content>";
const NARROWER: &str =
    "<content url='/'><license><prohibits type='usage'>all</prohibits></license></content>
     <content url='/a'><license><permits type='usage'>all</permits></license></content>";
const ASKS_MORE: &str = "<content url='/'><license><payment type='purchase'/></license></content>";
const SECOND: &str = "<content url='/'><license><payment type='purchase'/></license>
     <license><permits type='usage'>all</permits></license></content>";

/// Lines that may follow any others. Those that lift are not among them.
const MORE_LINES: [&str; 13] = [
    "Disallow: /",
    "Content-Usage: train-ai=y, ai-use=y, search=y",
    "Content-Usage: bots=y",
    "Content-Usage: train-ai=n,",
    "Content-Signal: search=yes, ai-input=yes, ai-train=yes, use=full",
    "Content-Signal: everything=yes",
    "DisallowAITraining: /a/b",
    "AllowAITraining: ",
    "Archive-Embargo: q",
    "Allow-Everything: /",
    "<meta name=robots content=all>",
    "User-agent: OtherBot",
    "Content-Signal",
];
const MORE_ENTRIES: [&str; 3] = [
    r#"{"location":"/","tdm-reservation":0}"#,
    r#"{"location":"/a/b","tdm-reservation":0}"#,
    r#"{"location":"*","tdm-reservation":1}"#,
];
const MORE_FIELDS: [(&str, &str); 4] = [
    ("Content-Usage", "train-ai=y, ai-use=y, search=y"),
    ("tdm-reservation", "no"),
    ("tdm-policy", "https://site.test/policy.json"),
    ("Content-Type", "text/html"),
];
const MORE_ELEMENTS: [&str; 3] = [
    "<meta name=examplebot content='index, follow, max-snippet:-1'>",
    "<meta name=content-usage content='train-ai=y'>",
    "<meta name=tdm-reservation content=yes>",
];

#[derive(Clone, Debug)]
struct SiteStatements {
    purposes: Vec<Purpose>,
    path: &'static str,
    robots: Vec<&'static str>,
    tdmrep: Vec<&'static str>,
    fields: Vec<(&'static str, &'static str)>,
    page: Vec<&'static str>,
    /// The contents of `refuses.xml`.
    licence: &'static str,
}

prop_compose! {
    fn site_statements()(
        purposes in subsequence(&Purpose::ALL[..], 1..4),
        path in select(&["/", "/a", "/a/b", "/b", "/a%2Fb", "/b/../a"][..]),
        robots in vec(select(&LINES[..]), 0..10),
        tdmrep in vec(select(&ENTRIES[..]), 0..3),
        fields in vec(select(&FIELDS[..]), 0..3),
        page in vec(select(&ELEMENTS[..]), 0..3),
    ) -> SiteStatements {
        SiteStatements { purposes, path, robots, tdmrep, fields, page, licence: PROHIBITS }
    }
}

impl SiteStatements {
    /// Judges the statements of the first `stages` that are read from some sources.
    fn judge(&self, sources: SourceSet, stages: usize) -> Preference {
        let declaration = CrawlerDeclaration {
            purposes: self.purposes.iter().copied().collect(),
            purpose_tokens: vec![(
                Purpose::TrainAi,
                ProductToken::new("ExampleBot-Extended").unwrap(),
            )],
            ..CrawlerDeclaration::default()
        };
        let settings = PreferenceSettings { sources, ..PreferenceSettings::default() };
        let query = PreferenceQuery {
            declaration: &declaration,
            settings: &settings,
            tokens: &[ProductToken::new("ExampleBot").unwrap()],
            dialect: Dialect::Rfc9309,
            all_spellings: true,
            now: SystemTime::UNIX_EPOCH,
        };
        let url = format!("https://site.test{}", self.path);
        let mut state = PreferenceState::new(query, &url, self.path);
        state.add_robots_txt(query, &RobotsTxt::parse(self.robots.join("\n").as_bytes()));
        let tdmrep = format!("[{}]", self.tdmrep.join(","));
        state.add_tdmrep(query, &TdmrepFile::parse(tdmrep.as_bytes()));
        if stages > 1 {
            state.add_response_head(query, 200, &self.fields.iter().copied());
        }
        if stages > 2 {
            state.add_page(query, &self.page.concat());
        }
        for (url, contents) in [
            ("https://site.test/allows.xml", PERMITS),
            ("https://site.test/refuses.xml", self.licence),
        ] {
            let licence = format!("<rsl xmlns='https://rslstandard.org/rsl'>{contents}</rsl>");
            state.add_licence(url, &RslLicence::parse(licence.as_bytes()).into());
        }
        state.judge(query).preference
    }
}

proptest! {
    #[test]
    fn an_additional_source_never_allows(
        stated in site_statements(),
        fewer in subsequence(&PreferenceSource::OPTIONAL[..], 0..8),
        more in subsequence(&PreferenceSource::OPTIONAL[..], 0..8),
    ) {
        let narrow: SourceSet = fewer.iter().copied().collect();
        let wide: SourceSet = fewer.iter().chain(&more).copied().collect();
        if stated.judge(narrow, 3) == Preference::Refuse {
            prop_assert_eq!(stated.judge(wide, 3), Preference::Refuse);
        }
    }

    /// The statement comes last; for one in between, and for a more specific one, see the list.
    #[test]
    fn an_additional_statement_never_allows(
        before in site_statements(),
        line in select([&LINES[..], &MORE_LINES[..]].concat()),
        entry in select([&ENTRIES[..], &MORE_ENTRIES[..]].concat()),
        field in select([&FIELDS[..], &MORE_FIELDS[..]].concat()),
        element in select([&ELEMENTS[..], &MORE_ELEMENTS[..]].concat()),
    ) {
        let sources = SourceSet::default();
        let mut lines = before.clone();
        lines.robots.push(line);
        let mut entries = before.clone();
        entries.tdmrep.push(entry);
        let mut fields = before.clone();
        fields.fields.push(field);
        let mut elements = before.clone();
        elements.page.push(element);
        // A page of another type is not read.
        let is_type = field == ("Content-Type", "image/png");
        if before.judge(sources, 3) == Preference::Refuse {
            for (more, is_lifted) in [
                (lines, lifts(&before, line)),
                (entries, false),
                (fields, is_type),
                (elements, false),
            ] {
                prop_assert!(is_lifted || more.judge(sources, 3) == Preference::Refuse, "{more:?}");
            }
        }
    }

    #[test]
    fn the_response_never_allows_more(stated in site_statements()) {
        let sources = SourceSet::default();
        for stages in 1..3 {
            if stated.judge(sources, stages) == Preference::Refuse {
                prop_assert_eq!(stated.judge(sources, stages + 1), Preference::Refuse);
            }
        }
    }
}

/// Returns whether a line of robots.txt may lift what was refused before it.
fn lifts(before: &SiteStatements, line: &str) -> bool {
    let has_group = before.robots.iter().any(|line| line.starts_with("User-agent"));
    let (name, value) = line.split_once(": ").unwrap_or((line, ""));
    let has_path = value.starts_with('/');
    match name {
        // A group of one's own replaces the one for everybody.
        "User-agent" => value != "OtherBot",
        "Content-Usage" | "Content-Signal" | "AllowAITraining" if has_path => true,
        // In a group it replaces those before all groups.
        "Content-Signal" | "License" => has_group,
        "Allow" => true,
        _ => false,
    }
}

/// A site without statements, and a request for `/a/b`.
const NOTHING: SiteStatements = SiteStatements {
    purposes: Vec::new(),
    path: "/a/b",
    robots: Vec::new(),
    tdmrep: Vec::new(),
    fields: Vec::new(),
    page: Vec::new(),
    licence: PROHIBITS,
};

fn robots(lines: &[&'static str]) -> SiteStatements {
    SiteStatements { robots: lines.to_vec(), ..NOTHING }
}

fn fields(fields: &[(&'static str, &'static str)]) -> SiteStatements {
    SiteStatements { tdmrep: vec![ENTRIES[0]], fields: fields.to_vec(), ..NOTHING }
}

fn usage_fields(values: &[&'static str]) -> SiteStatements {
    let fields = values.iter().map(|value| ("Content-Usage", *value));
    SiteStatements { fields: fields.collect(), ..NOTHING }
}

fn entries(entries: &[&'static str]) -> SiteStatements {
    SiteStatements { tdmrep: entries.to_vec(), ..NOTHING }
}

fn licence(licence: &'static str) -> SiteStatements {
    SiteStatements { robots: vec!["License: https://site.test/refuses.xml"], licence, ..NOTHING }
}

/// The text, the statements that refuse, and the same with the statement that lifts the refusal.
type Lifting = (&'static str, SiteStatements, SiteStatements);

/// Returns the cases in which a family's own text lets one statement of robots.txt replace another. `docs/preferences.md` lists all.
fn lifting_in_robots_txt() -> Vec<Lifting> {
    let all = "User-agent: *";
    let no_training = "Content-Usage: train-ai=n";
    let refused = "License: https://site.test/refuses.xml";
    vec![
        (
            "RFC 9309 section 2.2.1: a group of one's own",
            robots(&[all, no_training]),
            robots(&[all, no_training, "User-agent: ExampleBot", "Allow: /"]),
        ),
        (
            "aipref-attach-05: the longest path",
            robots(&[all, no_training]),
            robots(&[all, no_training, "Content-Usage: /a search=y"]),
        ),
        (
            "aipref-attach-05: a preference ends a run of user-agent lines",
            robots(&[all, "User-agent: OtherBot", no_training]),
            robots(&[all, "Content-Usage: search=y", "User-agent: OtherBot", no_training]),
        ),
        (
            "aipref-vocab-02: a label for everything means what is not stated by itself",
            robots(&[all, "Content-Usage: all=n"]),
            robots(&[all, "Content-Usage: all=n, train-ai=y"]),
        ),
        (
            "Content Signals: the longest path",
            robots(&[all, "Content-Signal: ai-train=no"]),
            robots(&[all, "Content-Signal: ai-train=no", "Content-Signal: /a search=yes"]),
        ),
        (
            "Content Signals: lines of the group replace those before all groups",
            robots(&["Content-Signal: ai-train=no", all]),
            robots(&["Content-Signal: ai-train=no", all, "Content-Signal: search=yes"]),
        ),
        (
            "draft-canel-robots-ai-control: the longest path",
            robots(&[all, "DisallowAITraining: /"]),
            robots(&[all, "DisallowAITraining: /", "AllowAITraining: /a"]),
        ),
        (
            "RSL 1.0: licences of the group replace those before all groups",
            robots(&[refused, all]),
            robots(&[refused, all, "License: https://site.test/allows.xml"]),
        ),
    ]
}

/// Returns the same for other carriers.
fn lifting_elsewhere() -> Vec<Lifting> {
    vec![
        (
            "RFC 9651 section 3.2: of one key given twice the last counts",
            usage_fields(&["train-ai=n"]),
            usage_fields(&["train-ai=n", "train-ai=y"]),
        ),
        (
            "RFC 9651 section 4.2: a dictionary that cannot be read says nothing",
            usage_fields(&["train-ai=n"]),
            usage_fields(&["train-ai=n", "Search=n"]),
        ),
        (
            "TDMRep: the first entry that matches",
            entries(&[ENTRIES[0]]),
            entries(&[r#"{"location":"/a","tdm-reservation":0}"#, ENTRIES[0]]),
        ),
        (
            "TDMRep: a later carrier replaces an earlier one",
            fields(&[]),
            fields(&[("tdm-reservation", "0")]),
        ),
        ("RSL 1.0: a licence for a narrower path", licence(PROHIBITS), licence(NARROWER)),
        ("RSL 1.0: a second offer that asks for less", licence(ASKS_MORE), licence(SECOND)),
    ]
}

#[test]
fn only_documented_statements_lift_a_refusal() {
    for (text, before, after) in [lifting_in_robots_txt(), lifting_elsewhere()].concat() {
        let judge = |stated: SiteStatements| {
            let purposes = vec![Purpose::TrainAi];
            SiteStatements { purposes, ..stated }.judge(SourceSet::default(), 3)
        };
        assert_eq!(judge(before), Preference::Refuse, "{text}");
        assert_ne!(judge(after), Preference::Refuse, "{text}");
    }
}
