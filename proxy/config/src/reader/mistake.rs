//! A mistake in a configuration file: its position and a message.

use std::fmt;

use super::value::{credentials_range, nearest};

/// The first characters of a password hash.
const HASH_PREFIX: &str = "$argon2";
/// The words that introduce an example, whose quoted value is ours and need not be masked.
const EXAMPLE_PREFIX: &str = "such as \"";

/// One mistake in a configuration file, printed as `FILE:LINE: KEY: MESSAGE`.
///
/// It never repeats a password that was written in the wrong place: neither the credentials of a URL nor a hash.
///
/// There is no line if the file could not be read at all, and no key if the text belongs to none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigMistake {
    file: String,
    line: Option<usize>,
    key: String,
    message: String,
    /// Whether the key has the value that its author wrote, so that it only contradicts something else.
    is_value_readable: bool,
}

impl ConfigMistake {
    /// Reports the file as a whole.
    pub fn in_file(file: &str, message: impl Into<String>) -> Self {
        Self {
            file: file.to_owned(),
            line: None,
            key: String::new(),
            message: redact_quoted(&message.into()),
            is_value_readable: false,
        }
    }

    /// Reports one line, and `key` unless it is empty.
    pub(crate) fn in_line(
        file: &str,
        line: usize,
        key: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        Self {
            file: file.to_owned(),
            line: Some(line),
            key: redact_quoted(&key.into()),
            message: redact_quoted(&message.into()),
            is_value_readable: false,
        }
    }

    /// Returns the mistake as one of a key whose value could be read.
    pub(super) fn of_readable_value(self) -> Self {
        Self { is_value_readable: true, ..self }
    }

    /// Returns whether `key`, such as `state.dir`, may have another value than its author meant: the mistake is in it, in its
    /// table, or in a name that may be a misspelling of one of them.
    pub fn may_concern(&self, key: &str) -> bool {
        let bare = |name: &str| name.split([']', '[', ' ']).next().unwrap_or_default().to_owned();
        let names = self.key.trim_start_matches('[').split('.').map(bare);
        let is_near =
            names.zip(key.split('.')).all(|(name, wanted)| nearest(&name, [wanted]).is_some());
        !self.is_value_readable && (self.key.is_empty() || is_near)
    }

    /// Returns the file, as it was named.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Returns the line, counted from 1.
    #[must_use]
    pub fn line(&self) -> Option<usize> {
        self.line
    }

    /// Returns the key with its section, such as `robots.max_age` or `[[crawler]] 1.match.addresses[0]`. Tables are counted from 1,
    /// as in refusals and logs.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Returns the message: what is wrong, and what would be right.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for ConfigMistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if !self.key.is_empty() {
            write!(f, ": {}", self.key)?;
        }
        write!(f, ": {}", self.message)
    }
}

impl std::error::Error for ConfigMistake {}

/// Returns the text without secrets. It looks for them in each quotation as a whole, which may hold spaces, and elsewhere word
/// by word.
fn redact_quoted(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    // The parser of TOML quotes with backticks.
    while let Some(start) = rest.find(['"', '`']) {
        let (words, quoted) = rest.split_at(start + 1);
        let quote = rest.as_bytes()[start];
        shown.extend(words.split_inclusive(' ').map(redact));
        let end = closing_quote(quoted, quote);
        shown += &if words.ends_with(EXAMPLE_PREFIX) {
            quoted[..end].to_owned()
        } else {
            redact(&quoted[..end])
        };
        // An open quotation ends with the text.
        let after = quoted.len().min(end + 1);
        shown += &quoted[end..after];
        rest = &quoted[after..];
    }
    shown.extend(rest.split_inclusive(' ').map(redact));
    shown
}

/// Returns the offset of the quote that ends a quotation: the first that is not escaped by a backslash.
fn closing_quote(quoted: &str, quote: u8) -> usize {
    // Values are quoted by `{:?}`, which escapes the quotes within.
    let mut is_escaped = false;
    for (at, byte) in quoted.bytes().enumerate() {
        match byte {
            byte if byte == quote && !is_escaped => return at,
            b'\\' => is_escaped = !is_escaped,
            _ => is_escaped = false,
        }
    }
    quoted.len()
}

fn redact(text: &str) -> String {
    let text = match text.find(HASH_PREFIX) {
        Some(at) => format!("{}(not shown)", &text[..at]),
        None => text.to_owned(),
    };
    match credentials_range(&text) {
        Some(at) => format!("{}(not shown)@{}", &text[..at.start], &text[at.end..]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(key: &str, message: String) -> String {
        ConfigMistake::in_line("t.toml", 1, key, message).to_string()
    }

    #[test]
    fn passwords_in_the_wrong_place_are_not_repeated() {
        for secret in
            ["http://me:pazz@h", "me:pazz@h", "me:p z@zz@h", "me:p\"pazz@h", "me:p\\\"pazz@h"]
        {
            let quoted =
                shown("a.b", format!("{secret:?} is not a host, such as \"*.corp.example\""));
            assert!(!quoted.contains('z'), "{quoted}");
            assert!(quoted.contains("@h\" is not a host, such as \"*.corp.example\""), "{quoted}");
            let ticked = shown("a.b", format!("`{secret}` is wrong"));
            assert!(!ticked.contains('z'), "{ticked}");
            let key = shown(&format!("dns.overrides.{secret:?}"), "is wrong".to_owned());
            assert!(!key.contains('z') && key.ends_with("@h\": is wrong"), "{key}");
        }
        for secret in ["http://me:pazz@h", "me:pazz@h"] {
            let bare = shown(&format!("upstream.{secret}"), format!("{secret} is wrong"));
            assert!(!bare.contains('z') && bare.ends_with("@h is wrong"), "{bare}");
        }
        let hash = "$argon2id$v=19$m=8,t=1,p=1$c2FsdHNhbHQ$LuxT";
        let misplaced = shown("a.b", format!("{hash:?} is no name"));
        assert_eq!(misplaced, "t.toml:1: a.b: \"(not shown)\" is no name");
    }

    #[test]
    fn mistakes_concern_what_may_have_been_meant() {
        let concerns = |key: &str| {
            let mistake = ConfigMistake::in_line("t.toml", 1, key, "is wrong");
            assert!(!mistake.clone().of_readable_value().may_concern("log.decisions"), "{key}");
            mistake.may_concern("log.decisions")
        };
        for key in ["", "log", "lgo", "log.decisions", "log.decisons", "log.decisions.x"] {
            assert!(concerns(key), "{key}");
        }
        for key in ["log.format", "log.decisions_keep", "[[crawler]] 1.name", "state.decisions"] {
            assert!(!concerns(key), "{key}");
        }
    }

    #[test]
    fn text_without_secrets_is_unchanged() {
        for message in [
            "\"10s\" is not one of \"a\", \"b\"; did you mean \"a\"?",
            "me@corp.example has no colon, and 10:30 no at sign",
            "not a URL, such as \"rediss://wayleave@redis.internal:6379\"",
            "an open \"quote",
            "",
        ] {
            assert_eq!(shown("a", message.to_owned()), format!("t.toml:1: a: {message}"));
        }
    }
}
