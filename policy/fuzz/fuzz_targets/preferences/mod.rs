//! Asks about a crawler with three purposes.

use std::time::SystemTime;

use wayleave_robots_txt::{Dialect, ProductToken};
use wayleave_usage_preferences::{
    CrawlerDeclaration, Preference, PreferenceQuery, PreferenceSettings, PreferenceSource,
    PreferenceState, Purpose, PurposeSet,
};

/// Returns whether the statements added allow any of the purposes. Reading fewer sources never refuses more.
pub fn allows(add_statements: impl Fn(&mut PreferenceState, PreferenceQuery<'_>)) -> bool {
    let tokens = [ProductToken::new("ExampleBot").unwrap()];
    let judge = |purpose, reading: &PreferenceSettings| {
        let declaration = CrawlerDeclaration {
            purposes: PurposeSet::of(&[purpose]),
            purpose_tokens: vec![(purpose, ProductToken::new("ExampleBot-Extended").unwrap())],
            ..CrawlerDeclaration::default()
        };
        let query = PreferenceQuery {
            declaration: &declaration,
            settings: reading,
            tokens: &tokens,
            dialect: Dialect::Rfc9309,
            all_spellings: true,
            now: SystemTime::UNIX_EPOCH,
        };
        let mut state = PreferenceState::new(query, "https://site.test/a/b?c", "/a/b?c");
        add_statements(&mut state, query);
        let _duties = state.duties(query);
        state.judge(query).preference
    };
    let all = PreferenceSettings {
        sources: PreferenceSource::OPTIONAL.into_iter().collect(),
        ..PreferenceSettings::default()
    };
    let some = PreferenceSettings {
        sources: PreferenceSource::OPTIONAL.into_iter().step_by(2).collect(),
        ..all.clone()
    };
    let mut purposes = [Purpose::Search, Purpose::TrainAi, Purpose::Tdm].into_iter();
    purposes.any(|purpose| {
        let preference = judge(purpose, &all);
        if judge(purpose, &some) == Preference::Refuse {
            assert_eq!(preference, Preference::Refuse);
        }
        preference == Preference::Allow
    })
}

/// Returns whether a text contains another one, in any case.
pub fn holds(text: &[u8], part: &str) -> bool {
    text.to_ascii_lowercase().windows(part.len()).any(|window| window == part.as_bytes())
}
