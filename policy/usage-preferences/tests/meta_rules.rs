//! Robots meta rules that come twice: in the head and in the page.

use std::time::{Duration, SystemTime};

use wayleave_robots_txt::{Dialect, ProductToken};
use wayleave_usage_preferences::{
    CrawlerDeclaration, Preference, PreferenceQuery, PreferenceSettings, PreferenceStage,
    PreferenceState, Purpose, PurposeSet, StatementCarrier,
};

/// Asks about a state that has the rules of a field and of a page.
fn with_rules<T>(
    purpose: Purpose,
    field: &str,
    page: &str,
    ask: impl FnOnce(&PreferenceState, PreferenceQuery<'_>) -> T,
) -> T {
    let declaration = CrawlerDeclaration {
        purposes: PurposeSet::of(&[purpose]),
        ..CrawlerDeclaration::default()
    };
    let tokens = [ProductToken::new("ExampleBot").unwrap()];
    let query = PreferenceQuery {
        declaration: &declaration,
        settings: &PreferenceSettings::default(),
        tokens: &tokens,
        dialect: Dialect::Rfc9309,
        all_spellings: true,
        now: SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000),
    };
    let mut state = PreferenceState::new(query, "https://site.test/", "/");
    let fields = [("X-Robots-Tag", field), ("Content-Type", "text/html")];
    state.add_response_head(query, 200, &fields.into_iter());
    state.add_page(query, &format!("<meta name=robots content='{page}'>"));
    ask(&state, query)
}

#[test]
fn the_strictest_limit_is_the_duty_wherever_it_stands() {
    for (field, page) in [("50", "20"), ("20", "50"), ("20", "20"), ("20", "-1"), ("-1", "20")] {
        let field = format!("max-snippet:{field}");
        let page = format!("max-snippet:{page}");
        let duties = with_rules(Purpose::Search, &field, &page, PreferenceState::duties);
        let limits: Vec<_> = duties.iter().filter(|duty| duty.name == "max-snippet").collect();
        assert_eq!(limits.len(), 1, "{field}, {page}");
        assert_eq!(limits[0].value.as_deref(), Some("20"), "{field}, {page}");
    }
}

#[test]
fn a_rule_of_the_page_does_not_replace_that_of_the_head() {
    for (field, page) in [
        ("noindex", "noindex"),
        ("unavailable_after: 2020-01-02", "unavailable_after: 2020-01-02"),
        ("unavailable_after: 2020-01-02", "unavailable_after: 2020-01-01"),
        ("unavailable_after: 2020-01-01", "unavailable_after: 2020-01-02"),
    ] {
        let judgement = with_rules(Purpose::Search, field, page, PreferenceState::judge);
        assert_eq!(judgement.preference, Preference::Refuse, "{field}, {page}");
        let statement = judgement.statement().expect("one that refuses");
        assert_eq!(statement.stage, PreferenceStage::Head, "{field}, {page}");
        assert_eq!(statement.carrier, StatementCarrier::Field, "{field}, {page}");
    }
}
