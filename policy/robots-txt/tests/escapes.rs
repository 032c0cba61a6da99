//! Escapes that a rule only begins or ends, next to wildcards that are literal or escaped.

#[allow(unreachable_pub, reason = "shared with the fuzz targets, where it can be reached")]
mod model;

use proptest::prelude::*;
use proptest::sample::select;
use wayleave_robots_txt::{
    AccessResult, Dialect, ProductToken, RobotsTxt, UrlPath, decide, decide_all_spellings,
};

fn pieces(most: usize) -> impl Strategy<Value = String> {
    let pieces = [
        "/", "a", "b", "2", "4", "A", "$", "$", "*", "*", "%", "%", "%2", "%4", "%a", "%24", "%24",
        "%2A", "%2a", "%20", "%25", "%3B", ";", "?", "%zz",
    ];
    prop::collection::vec(select(pieces.to_vec()), 0..most).prop_map(|pieces| pieces.concat())
}

fn rules() -> impl Strategy<Value = String> {
    let rule = (select(vec!["Disallow", "Allow"]), pieces(6), any::<bool>());
    let line = rule.prop_map(|(verb, value, is_anchored)| {
        format!("{verb}: /{value}{}\n", if is_anchored { "$" } else { "" })
    });
    // Some groups are large enough for an index.
    (prop::collection::vec(line, 1..5), select(vec![0, 0, 40])).prop_map(|(lines, others)| {
        let others: String = (0..others).map(|n| format!("Disallow: /*x{n}*y\n")).collect();
        format!("User-agent: foobot\n{}{others}", lines.concat())
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn every_part_of_an_escape_matches_as_in_the_model(rules in rules(), path in pieces(8)) {
        let path = format!("/{path}");
        let body = rules.as_bytes();
        let names = ["foobot"];
        let access = AccessResult::from(RobotsTxt::parse(body));
        let parsed = UrlPath::parse(&path).unwrap();
        let tokens = [ProductToken::new("foobot").unwrap()];
        for &dialect in Dialect::Strictest.each() {
            let decision = decide(&access, dialect, &tokens, &parsed);
            let found = (decision.verdict().is_allow(), decision.line());
            let expected = model::judge(body, dialect, &names, &path);
            prop_assert_eq!(found, expected, "{} {} {}", dialect, path, rules);
            let strictly = decide_all_spellings(&access, dialect, &tokens, &parsed);
            let expected = model::allows_all_spellings(body, &[dialect], &names, &path);
            prop_assert_eq!(strictly.verdict().is_allow(), expected, "{} {} {}", dialect, path, rules);
        }
    }
}
