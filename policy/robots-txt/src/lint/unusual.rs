//! Characters that look like ASCII, or like nothing, and spoil a line.

/// The explanation for findings.
pub(super) const EXPLANATION: &str = "there is an invisible or full-width character in it";

/// Returns a text in ASCII, without invisible characters and with usual ones for full-width ones, if it contains any of
/// these.
pub(super) fn plain(text: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(text).ok()?;
    text.contains(|c: char| is_invisible(c) || full_width(c).is_some()).then(|| {
        let visible = text.chars().filter(|c| !is_invisible(*c));
        visible.map(|c| full_width(c).unwrap_or(c)).collect::<String>().trim().to_owned()
    })
}

/// Returns whether a text contains an invisible character.
pub(super) fn has_invisible(text: &[u8]) -> bool {
    std::str::from_utf8(text).is_ok_and(|text| text.contains(is_invisible))
}

fn is_invisible(c: char) -> bool {
    matches!(
        c,
        '\u{A0}' | '\u{AD}' | '\u{180E}' | '\u{200B}'..='\u{200F}' | '\u{202A}'..='\u{202F}' | '\u{2060}'..='\u{2064}' | '\u{FEFF}'
    )
}

/// Returns the usual character for a full-width one.
fn full_width(c: char) -> Option<char> {
    match c {
        '\u{3000}' => Some(' '),
        '\u{FF01}'..='\u{FF5E}' => char::from_u32(u32::from(c) - 0xFEE0),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use crate::lint;
    use crate::lint::Severity;

    #[test]
    fn a_line_spoiled_by_an_unseen_character_is_an_error() {
        for line in [
            "\u{FEFF}User-agent: a",
            "\u{200B}Disallow: /x",
            "Dis\u{AD}allow: /x",
            "Disallow\u{A0}: /x",
            "\u{A0}Allow: /x",
            "\u{FF24}isallow: /x",
            "Disallow\u{FF1A} /x",
            "\u{FF24}\u{FF29}\u{FF33}\u{FF21}\u{FF2C}\u{FF2C}\u{FF2F}\u{FF37}: /x",
            "\u{200B}Sitemap: https://example.com/map.xml",
            "\u{200B}Content-Signal: ai-train=no",
            "Disallow: /x\u{200B}",
            "Disallow: \u{FF0F}x",
        ] {
            let found = lint(format!("User-agent: *\nDisallow: /y\n{line}\n").as_bytes(), &[]);
            assert_eq!(found.len(), 1, "{line:?}: {found:?}");
            assert_eq!((found[0].line, found[0].severity), (3, Severity::Error), "{line:?}");
        }
    }

    #[test]
    fn other_scripts_are_no_mistake() {
        for line in [
            "Disallow: /caf\u{e9}",
            "Disallow: /\u{30C4}",
            "# \u{200B}comment",
            "Sitemap: https://h/\u{FF21}",
        ] {
            let found = lint(format!("User-agent: *\nDisallow: /y\n{line}\n").as_bytes(), &[]);
            assert_eq!(found, [], "{line:?}");
        }
    }

    #[test]
    fn a_lost_statement_about_use_is_an_error() {
        for (line, severity) in [
            ("Content-Signals: ai-train=no", Severity::Error),
            ("Content-Useage: train-ai=n", Severity::Error),
            ("DisallowAITrainings: /", Severity::Error),
            ("Noindex: /x", Severity::Warning),
            ("NoArchive: /x", Severity::Warning),
            ("Crawl-delay: 10s", Severity::Warning),
        ] {
            let found = lint(format!("User-agent: *\nDisallow: /y\n{line}\n").as_bytes(), &[]);
            assert_eq!(found.len(), 1, "{line:?}: {found:?}");
            assert_eq!((found[0].line, found[0].severity), (3, severity), "{line:?}");
        }
    }
}
