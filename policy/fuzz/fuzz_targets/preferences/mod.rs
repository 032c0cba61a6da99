//! Asks about a crawler with three purposes.

use std::time::SystemTime;

use wayleave_robots_txt::preferences::{
    Asker, Declaration, Preference, Preferences, Purpose, Purposes, Reading, Source,
};
use wayleave_robots_txt::{Dialect, ProductToken};

/// What is heard comes to, for the first purpose that any statement allows. Reading fewer sources never refuses more.
pub fn allows(hear: impl Fn(&mut Preferences, Asker<'_>)) -> bool {
    let tokens = [ProductToken::new("ExampleBot").unwrap()];
    let judge = |purpose, reading: &Reading| {
        let declaration = Declaration {
            purposes: Purposes::of(&[purpose]),
            purpose_tokens: vec![(purpose, ProductToken::new("ExampleBot-Extended").unwrap())],
            ..Declaration::default()
        };
        let asker = Asker {
            declaration: &declaration,
            reading,
            tokens: &tokens,
            dialect: Dialect::Rfc9309,
            strict: true,
            now: SystemTime::UNIX_EPOCH,
        };
        let mut heard = Preferences::new(asker, "https://site.test/a/b?c", "/a/b?c");
        hear(&mut heard, asker);
        let _duties = heard.duties(asker);
        heard.judge(asker).preference
    };
    let all = Reading { sources: Source::OPTIONAL.into_iter().collect(), ..Reading::default() };
    let some = Reading { sources: Source::OPTIONAL.into_iter().step_by(2).collect(), ..all.clone() };
    let mut purposes = [Purpose::Search, Purpose::TrainAi, Purpose::Tdm].into_iter();
    purposes.any(|purpose| {
        let preference = judge(purpose, &all);
        if judge(purpose, &some) == Preference::Refuse {
            assert_eq!(preference, Preference::Refuse);
        }
        preference == Preference::Allow
    })
}

/// Whether a text holds another one, whatever its case.
pub fn holds(text: &[u8], part: &str) -> bool {
    text.to_ascii_lowercase().windows(part.len()).any(|window| window == part.as_bytes())
}
