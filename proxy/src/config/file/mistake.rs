//! A mistake in a configuration file: where it is and what is wrong.

use std::fmt;

/// One mistake in a configuration file, printed as `FILE:LINE: KEY: MESSAGE`.
///
/// The line is missing when the file could not be read at all, the key when the text belongs to none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    file: String,
    line: Option<usize>,
    key: String,
    message: String,
}

impl Mistake {
    /// Says something of the whole file.
    pub(crate) fn of_file(file: &str, message: impl Into<String>) -> Self {
        Self {
            file: file.to_owned(),
            line: None,
            key: String::new(),
            message: message.into(),
        }
    }

    /// Says something of one line, and of `key` unless that is empty.
    pub(crate) fn of_line(
        file: &str,
        line: usize,
        key: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        Self {
            file: file.to_owned(),
            line: Some(line),
            key: key.into(),
            message: message.into(),
        }
    }

    /// The line, counted from 1.
    #[must_use]
    pub fn line(&self) -> Option<usize> {
        self.line
    }

    /// The key with its section, such as `robots.max_age` or `[[crawler]] 1.match.addresses[0]`: tables count from 1, as they do in refusals and logs.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// What is wrong, and what would be right.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for Mistake {
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

impl std::error::Error for Mistake {}
