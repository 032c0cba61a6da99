//! Names of crawlers as robots.txt spells them.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use crate::name_tag;
use crate::user_agent;

/// The name by which a crawler finds its group (RFC 9309 §2.2.1, "product token").
///
/// The standard allows letters, `_` and `-`; names in use go further (`MJ12bot`, `archive.org_bot`), so this type
/// accepts anything that can stand on a user-agent line. Names compare without regard to ASCII case.
///
/// With the feature `serde` it is stored as its name, which [`new`](Self::new) checks when it is read back.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProductToken {
    text: Box<str>,
    /// The name in ASCII lower case, and its tag: made once, because every decision compares them.
    folded: Box<str>,
    tag: u8,
}

impl ProductToken {
    /// Creates a token from a name as the crawler spells it.
    ///
    /// # Errors
    ///
    /// If no group could be found by the name: it is empty, starts or ends with whitespace, contains a control
    /// character, `#`, `*` or a version (`ExampleBot/1.0`), or is a whole `User-Agent` value.
    pub fn new(name: &str) -> Result<Self, InvalidProductToken> {
        Self::from_check(name, syntax_problem(name).or_else(|| group_problem(name)))
    }

    /// Creates a token from any name that a user-agent line can hold, even one that rarely finds a group, such as
    /// `ExampleBot/1.0`; for comparisons with other implementations, which accept those.
    ///
    /// # Errors
    ///
    /// If the name is empty, starts or ends with whitespace, or contains a control character or `#`.
    pub fn verbatim(name: &str) -> Result<Self, InvalidProductToken> {
        Self::from_check(name, syntax_problem(name))
    }

    fn from_check(
        name: &str,
        problem: Option<Cow<'static, str>>,
    ) -> Result<Self, InvalidProductToken> {
        match problem {
            None => Ok(Self::from_checked(name)),
            Some(reason) => Err(InvalidProductToken { name: name.to_owned(), reason }),
        }
    }

    /// Returns the token of a crawler without a name, to which only the group of `*` applies.
    #[must_use]
    pub fn anonymous() -> Self {
        Self::from_checked("")
    }

    /// Extracts the name from a `User-Agent` field: its first product or, where that is a browser, a device or a library,
    /// the name that follows `compatible;`, looks like a crawler's, or else is neither of these.
    ///
    /// `None` if the field does not name a product at all.
    #[must_use]
    pub fn from_user_agent(field: &[u8]) -> Option<Self> {
        // A product such as `*` is a name in the field, but none that a group can have.
        Self::new(&user_agent::crawler_name(field)?).ok()
    }

    /// Returns the name as given.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the name in ASCII lower case.
    pub(crate) fn lowercase(&self) -> &[u8] {
        self.folded.as_bytes()
    }

    /// Returns the tag that the name shares with every user-agent line that names this crawler.
    pub(crate) fn tag(&self) -> u8 {
        self.tag
    }

    fn from_checked(name: &str) -> Self {
        let folded = name.to_ascii_lowercase();
        Self { text: name.into(), tag: name_tag::tag(folded.as_bytes()), folded: folded.into() }
    }
}

/// Returns the reason why no user-agent line could hold a name.
fn syntax_problem(name: &str) -> Option<Cow<'static, str>> {
    let reason = if name.is_empty() {
        "is empty"
    } else if name.trim_ascii() != name {
        "starts or ends with whitespace"
    } else if name.chars().any(|c| c.is_ascii_control()) {
        "contains a control character"
    } else if name.contains('#') {
        "contains \"#\", which starts a comment in robots.txt"
    } else {
        return None;
    };
    Some(reason.into())
}

/// Returns the reason why a name that a line could hold would rarely find the crawler's group.
fn group_problem(name: &str) -> Option<Cow<'static, str>> {
    if name == "*" {
        return Some("means every crawler that is not named: write the crawler's name".into());
    }
    // A whole `User-Agent` finds no group; configurations get this wrong most often.
    if name.contains(['(', ';']) {
        let crawler = user_agent::crawler_name(name.as_bytes()).unwrap_or_default();
        return Some(format!("is a whole User-Agent{}", suggestion(&crawler)).into());
    }
    // A line may have a version, which is not part of the name (RFC 9309 §2.2.1): no line equals this one.
    if let Some((crawler, _)) = name.split_once('/') {
        return Some(format!("contains a version{}", suggestion(crawler.trim_ascii_end())).into());
    }
    name.contains('*').then(|| "contains \"*\", which no name can have".into())
}

/// Returns the advice to write another name, if that one is valid.
fn suggestion(name: &str) -> String {
    match ProductToken::new(name) {
        Ok(token) => format!(": write \"{token}\""),
        Err(_) => String::new(),
    }
}

impl fmt::Debug for ProductToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ProductToken").field(&self.text).finish()
    }
}

impl fmt::Display for ProductToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

impl FromStr for ProductToken {
    type Err = InvalidProductToken;

    fn from_str(name: &str) -> Result<Self, InvalidProductToken> {
        Self::new(name)
    }
}

/// The error for a name by which no group could be found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidProductToken {
    name: String,
    /// The rest of the message, after the name.
    reason: Cow<'static, str>,
}

impl fmt::Display for InvalidProductToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {}", self.name, self.reason)
    }
}

impl std::error::Error for InvalidProductToken {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_find_no_group_are_refused_with_advice() {
        for (name, message) in [
            ("", r#""" is empty"#),
            ("*", r#""*" means every crawler that is not named: write the crawler's name"#),
            (" a", r#"" a" starts or ends with whitespace"#),
            ("a\tb", r#""a\tb" contains a control character"#),
            ("a#b", r##""a#b" contains "#", which starts a comment in robots.txt"##),
            ("VerBot/2.1", r#""VerBot/2.1" contains a version: write "VerBot""#),
            ("Example Bot/1.0", r#""Example Bot/1.0" contains a version: write "Example Bot""#),
            ("VerBot / 2", r#""VerBot / 2" contains a version: write "VerBot""#),
            ("/1", r#""/1" contains a version"#),
            ("*/1", r#""*/1" contains a version"#),
            ("VerBot*", r#""VerBot*" contains "*", which no name can have"#),
            (
                "Mozilla/5.0 (compatible; VerBot/2.1)",
                r#""Mozilla/5.0 (compatible; VerBot/2.1)" is a whole User-Agent: write "VerBot""#,
            ),
            ("(x", r#""(x" is a whole User-Agent"#),
        ] {
            let error = ProductToken::new(name).unwrap_err();
            assert_eq!(error.to_string(), message);
            assert_eq!(name.parse::<ProductToken>(), Err(error), "{name}");
        }
    }

    #[test]
    fn names_in_use_are_taken() {
        for name in [
            "ExampleBot",
            "MJ12bot",
            "archive.org_bot",
            "Screaming Frog SEO Spider",
            "Yahoo! Slurp",
            "b\u{fc}cherbot",
        ] {
            assert_eq!(ProductToken::new(name).unwrap().as_str(), name);
        }
        assert_eq!(ProductToken::from_user_agent(b"*"), None);
    }

    #[test]
    fn any_name_that_a_line_can_hold_is_taken_verbatim() {
        for name in ["*", "VerBot/2.1", "Mozilla/5.0 (compatible; VerBot/2.1)"] {
            assert_eq!(ProductToken::verbatim(name).unwrap().as_str(), name);
        }
        for name in ["", " a", "a#b", "a\nb"] {
            assert!(ProductToken::verbatim(name).is_err(), "{name:?}");
        }
    }
}
