//! Findings of lint about statements about use.

use wayleave_usage_preferences::lint;

/// Returns the findings of a file as they are shown, with or without notes.
fn found(robots: &str, with_notes: bool) -> Vec<String> {
    let findings = lint(robots.as_bytes(), &[]).into_iter();
    let shown = findings.map(|finding| finding.to_string());
    shown.filter(|finding| with_notes || !finding.contains(": note: ")).collect()
}

/// Returns the only finding of a group that has an `Allow` and these lines.
#[track_caller]
fn one(lines: &str) -> String {
    let findings = found(&format!("User-agent: *\nAllow: /\n{lines}\n"), false);
    assert_eq!(findings.len(), 1, "{lines:?}: {findings:?}");
    findings.into_iter().next().unwrap()
}

#[test]
fn a_statement_without_meaning_is_an_error() {
    for (line, part) in [
        ("Content-Usage: train-ai=n,", "cannot be parsed, so it has no effect"),
        ("Content-Usage: Train-AI=n", "cannot be parsed"),
        ("Content-Usage: train-ai=n search=y", "cannot be parsed"),
        ("Content-Usage: *.pdf train-ai=n", "a path starts with \"/\""),
        ("Content-Usage: /a", "this has no effect"),
        ("Content-Usage: train-ai=no", "\"train-ai\" has no effect: its value is neither y nor n"),
        ("Content-Usage: ai-train=n", "did you mean \"train-ai\"?"),
        ("Content-Signal:", "this has no effect"),
        ("Content-Signal: ai-train=n", "\"ai-train=n\" has no effect: expected ai-train=yes or no"),
        ("Content-Signal: ai-train", "expected ai-train=yes or no"),
        ("Content-Signal: use=none", "expected use=immediate or reference or full"),
        ("Content-Signal: train-ai=no", "did you mean \"ai-train\"?"),
        ("DisallowAITraining: a", "never matches"),
        ("License: ftp://site.test/l.xml", "cannot be fetched over HTTP"),
    ] {
        let finding = one(line);
        assert!(finding.starts_with("3: error: "), "{line}: {finding}");
        assert!(finding.contains(part), "{line}: {finding}");
    }
    for line in ["License: /l.xml", "License: //site.test/l.xml"] {
        let finding = one(line);
        let is_warning = finding.starts_with("3: warning: ");
        assert!(is_warning && finding.contains("not an absolute URL"), "{line}: {finding}");
    }
    let finding = one("Content-Usage: genai=n");
    assert!(finding.contains("warning: \"genai\" is a label of an earlier draft"), "{finding}");
}

#[test]
fn statements_that_say_something_are_no_findings() {
    for line in [
        "Content-Usage: train-ai=n, search=y",
        "Content-Usage: /a \t train-ai=n;since=@1",
        "Content-Signal: search=yes, ai-train=no, use=reference",
        "Content-Signal: /a Search = YES; ai-input=no",
        "DisallowAITraining: /\nContent-Signal: ai-train=no",
        "DisallowAITraining: /a\nAllowAITraining: /a/b",
        "License: https://site.test/l.xml",
        "License: HTTP://site.test/l.xml",
        "Archive-Embargo: q\nEmbargo-Allow: /a",
    ] {
        let robots = format!("User-agent: *\nAllow: /\n{line}\n");
        assert_eq!(found(&robots, true), [""; 0], "{line}");
    }
}

#[test]
fn contradictions_are_reported_with_both_lines() {
    let finding = one("Content-Usage: train-ai=n\nContent-Signal: ai-train=yes");
    assert_eq!(finding, "4: warning: line 3 says the opposite about train-ai: the refusal wins");
    let finding = one("DisallowAITraining: /\nContent-Usage: train-ai=y");
    assert!(finding.contains("line 3 says the opposite"), "{finding}");
    let finding = one("Content-Usage: train-ai=n\nContent-Usage: /b search=y");
    assert!(finding.contains("\"/b\" says nothing about train-ai"), "{finding}");
}

#[test]
fn a_misplaced_statement_is_reported() {
    let before = |line: &str| found(&format!("{line}\nUser-agent: *\nAllow: /\n"), false);
    assert!(before("Content-Usage: train-ai=n")[0].starts_with("1: error: "));
    assert!(before("Content-Signal: ai-train=no")[0].starts_with("1: warning: "));
    assert_eq!(before("License: https://site.test/l.xml"), [""; 0]);
    let parted = "User-agent: A\nContent-Usage: train-ai=n\nUser-agent: B\nDisallow: /a\n";
    let findings = found(parted, false);
    assert!(findings[0].starts_with("3: warning: the Content-Usage in line 2"), "{findings:?}");
    let own =
        "User-agent: *\nContent-Signal: ai-train=no\nAllow: /\n\nUser-agent: A\nDisallow: /a\n";
    let findings = found(own, true);
    assert!(findings[0].starts_with("5: note: \"A\" has its own group"), "{findings:?}");
}

#[test]
fn a_signal_with_another_separator_is_an_error() {
    for (line, part) in [
        ("Content-Signal: ai_train=no", "did you mean \"ai-train\"?"),
        ("Content-Signal: search=yes, AI_Input=no", "did you mean \"ai-input\"?"),
        ("Content-Signal: train_ai=no", "did you mean \"ai-train\"?"),
        ("Content-Usage: train_ai=n", "did you mean \"train-ai\"?"),
        ("Content-Usage: ai_train=n", "did you mean \"train-ai\"?"),
    ] {
        let finding = one(line);
        assert!(finding.starts_with("3: error: ") && finding.contains(part), "{line}: {finding}");
    }
}

#[test]
fn a_signal_that_falls_to_the_last_group_is_reported() {
    let file = |last: &str, gap: &str, line: &str| {
        found(
            &format!("User-agent: *\nAllow: /\n\nUser-agent: {last}\nDisallow: /\n{gap}{line}\n"),
            false,
        )
    };
    let signal = "Content-Signal: ai-train=no";
    for (gap, line) in [
        ("\n", signal),
        ("\n# For all\n", signal),
        ("\n", "DisallowAITraining: /"),
        ("\n", "Content-Usage: train-ai=n\nContent-Signal: ai-train=no"),
    ] {
        let findings = file("A", gap, line);
        assert!(findings[0].contains("belongs to the group of \"A\" only"), "{findings:?}");
    }
    assert_eq!(file("A", "", signal), [""; 0]);
    assert_eq!(file("A", "Allow: /x\n", signal), [""; 0]);
    assert_eq!(found(&format!("User-agent: *\nDisallow: /x\n\n{signal}\n"), false), [""; 0]);
}
