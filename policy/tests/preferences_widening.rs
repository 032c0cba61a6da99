//! A source or a statement more never opens what was refused.

use std::time::SystemTime;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use wayleave_policy::preferences::{
    Asker, Declaration, Preference, Preferences, Purpose, Reading, Rsl, Source, Sources, Tdmrep,
};
use wayleave_policy::{Dialect, ProductToken, RobotsTxt};

/// Lines of robots.txt: access, every family, what cannot be read, and what begins groups.
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

/// Fields of an answer. Those of TDMRep are apart: a later carrier takes the place of an earlier one there.
const FIELDS: [(&str, &str); 9] = [
    ("X-Robots-Tag", "noindex, noai"),
    ("X-Robots-Tag", "index, follow, all"),
    ("X-Robots-Tag", "otherbot: none"),
    ("Content-Signal", "ai-input=no"),
    ("Content-Signal", "search=yes, ai-train=yes, use=full"),
    (
        "Link",
        "<https://site.test/allows.xml>; rel=license; type=\"application/rsl+xml\"",
    ),
    (
        "Link",
        "<https://site.test/refuses.xml>; rel=license; type=\"application/rsl+xml\"",
    ),
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

const TDMREPS: [&str; 4] = [
    r#"[{"location":"/","tdm-reservation":1}]"#,
    r#"[{"location":"/","tdm-reservation":0}]"#,
    r#"[{"location":"/a","tdm-reservation":1},{"location":"/","tdm-reservation":0}]"#,
    "<html>not found</html>",
];

const LICENCE: &str = r#"<rsl xmlns="https://rslstandard.org/rsl"><content url="/"><license>"#;

#[derive(Clone, Debug)]
struct Said {
    purposes: Vec<Purpose>,
    path: &'static str,
    robots: Vec<&'static str>,
    tdmrep: &'static str,
    fields: Vec<(&'static str, &'static str)>,
    page: Vec<&'static str>,
}

prop_compose! {
    fn said()(
        purposes in subsequence(&Purpose::ALL[..], 1..4),
        path in select(&["/", "/a", "/a/b", "/b", "/a%2Fb", "/b/../a"][..]),
        robots in vec(select(&LINES[..]), 0..10),
        tdmrep in select(&TDMREPS[..]),
        fields in vec(select(&FIELDS[..]), 0..3),
        page in vec(select(&ELEMENTS[..]), 0..3),
    ) -> Said {
        Said { purposes, path, robots, tdmrep, fields, page }
    }
}

impl Said {
    /// What is said as far as `stages` go, read from some sources.
    fn judge(&self, sources: Sources, stages: usize) -> Preference {
        let declaration = Declaration {
            purposes: self.purposes.iter().copied().collect(),
            purpose_tokens: vec![(
                Purpose::TrainAi,
                ProductToken::new("ExampleBot-Extended").unwrap(),
            )],
            ..Declaration::default()
        };
        let reading = Reading {
            sources,
            ..Reading::default()
        };
        let asker = Asker {
            declaration: &declaration,
            reading: &reading,
            tokens: &[ProductToken::new("ExampleBot").unwrap()],
            dialect: Dialect::Rfc9309,
            strict: true,
            now: SystemTime::UNIX_EPOCH,
        };
        let url = format!("https://site.test{}", self.path);
        let mut heard = Preferences::new(asker, &url, self.path);
        heard.hear_robots_txt(asker, &RobotsTxt::parse(self.robots.join("\n").as_bytes()));
        heard.hear_tdmrep(asker, &Tdmrep::parse(self.tdmrep.as_bytes()));
        if stages > 1 {
            heard.hear_head(asker, 200, &self.fields.iter().copied());
        }
        if stages > 2 {
            heard.hear_page(asker, &self.page.concat());
        }
        for (url, usage) in [
            (
                "https://site.test/allows.xml",
                "<permits type='usage'>all</permits>",
            ),
            (
                "https://site.test/refuses.xml",
                "<prohibits type='usage'>all</prohibits>",
            ),
        ] {
            let licence = format!("{LICENCE}{usage}</license></content></rsl>");
            heard.hear_licence(url, &Rsl::parse(licence.as_bytes()).into());
        }
        heard.judge(asker).preference
    }
}

proptest! {
    #[test]
    fn a_source_more_never_opens(
        said in said(),
        fewer in subsequence(&Source::OPTIONAL[..], 0..8),
        more in subsequence(&Source::OPTIONAL[..], 0..8),
    ) {
        let narrow: Sources = fewer.iter().copied().collect();
        let wide: Sources = fewer.iter().chain(&more).copied().collect();
        if said.judge(narrow, 3) == Preference::Refuse {
            prop_assert_eq!(said.judge(wide, 3), Preference::Refuse);
        }
    }

    #[test]
    fn what_comes_with_the_answer_never_opens(said in said()) {
        let sources = Sources::default();
        for stages in 1..3 {
            if said.judge(sources, stages) == Preference::Refuse {
                prop_assert_eq!(said.judge(sources, stages + 1), Preference::Refuse);
            }
        }
    }
}
