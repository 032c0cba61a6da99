//! Findings of lint about the fields of a response.

use wayleave_usage_preferences::lint_head;

/// Returns the findings of a head as they are shown.
fn found(fields: &str) -> Vec<String> {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n{fields}\r\n\r\n");
    lint_head(head.as_bytes()).iter().map(ToString::to_string).collect()
}

#[track_caller]
fn expect_one(fields: &str, expected: &str) {
    let findings = found(fields);
    assert!(findings.len() == 1 && findings[0].contains(expected), "{fields}: {findings:?}");
}

#[test]
fn the_older_field_alone_is_a_warning_with_the_field_to_add() {
    for (line, example) in [
        ("X-Robots-Tag: noindex", "3: warning: "),
        ("X-Robots-Tag: noindex", "\"Robots-Tag: *;noindex\""),
        ("x-robots-tag: noindex, max-snippet: 50", "\"Robots-Tag: *;noindex;max-snippet=50\""),
        (
            "X-Robots-Tag: unavailable_after: 1 Jul 2000 07:00:00 GMT",
            "\"Robots-Tag: *;unavailable_after=\"1 Jul 2000 07:00:00 GMT\"\"",
        ),
        ("X-Robots-Tag: otherbot: noindex", "\"Robots-Tag: ExampleBot;noindex\""),
    ] {
        expect_one(line, example);
    }
    assert_eq!(found("X-Robots-Tag: noindex\r\nRobots-Tag: *;noindex"), [""; 0]);
    assert_eq!(found("Cache-Control: no-store"), [""; 0]);
    assert_eq!(found("X-Robots-Tag: a\r\nX-Robots-Tag: b").len(), 2);
}

#[test]
fn a_field_without_effect_is_an_error() {
    for (fields, expected) in [
        ("Robots-Tag: *: noindex", "3: error: Robots-Tag cannot be parsed"),
        ("Robots-Tag: *;noindex\r\nRobots-Tag: a;", "4: error: Robots-Tag cannot be parsed"),
        (
            "Robots-Tag: noindex",
            "error: \"noindex\" is taken for a crawler's name: write \"*;noindex\"",
        ),
        ("Robots-Tag: (\"*\");noindex", "error: a list in parentheses names no crawler"),
        ("Robots-Tag: 1;noindex", "names no crawler, so its rules have no effect"),
        ("Robots-Tag: \"ExampleBot\";noindex", "warning: \"ExampleBot\" should be a token"),
        ("Robots-Tag: *;nosnipet", "note: \"nosnipet\" is not a known rule"),
        ("Robots-Tag: ExampleBot", "note: \"examplebot\" has no rules"),
    ] {
        expect_one(fields, expected);
    }
    let long = format!("Robots-Tag: *;noindex{}", ", OtherBot;noindex".repeat(500));
    expect_one(&long, "3: warning: Robots-Tag is longer than 8 KiB");
    assert_eq!(found("Robots-Tag: *;noindex, ExampleBot;max-snippet=0"), [""; 0]);
}
