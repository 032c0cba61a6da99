//! Every key with the value in use, for display and to find out what a reload cannot change.

use std::fmt;

use toml::Value;

use super::value::credentials_range;

/// The name of a key or a section, whether a change needs a restart, and whether its value is secret.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeySpec {
    pub(super) name: &'static str,
    pub(super) needs_restart: bool,
    is_secret: bool,
}

impl From<&'static str> for KeySpec {
    fn from(name: &'static str) -> Self {
        Self { name, needs_restart: false, is_secret: false }
    }
}

/// Marks a key, or a whole section, as used only when the process starts: changing it needs a restart.
pub(crate) fn fixed(key: impl Into<KeySpec>) -> KeySpec {
    KeySpec { needs_restart: true, ..key.into() }
}

/// Marks a key as secret: neither the admin page nor `config show` shows its value, or the credentials in its URL.
pub(crate) fn secret(key: impl Into<KeySpec>) -> KeySpec {
    KeySpec { is_secret: true, ..key.into() }
}

/// All keys with their values, table by table in the order in which they were read. `Display` writes a file that reads back
/// the same, except for secrets: they are replaced by text that is not accepted as a value.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct EffectiveKeys(Vec<KeyTable>);

#[derive(Clone, Debug, PartialEq)]
struct KeyTable {
    /// The header with its brackets.
    header: String,
    needs_restart: bool,
    lines: Vec<KeyLine>,
}

#[derive(Clone, Debug, PartialEq)]
struct KeyLine {
    key: String,
    value: Value,
    needs_restart: bool,
    is_secret: bool,
}

impl EffectiveKeys {
    /// Begins a table and returns its index for [`Self::add`].
    pub(super) fn begin_table(&mut self, header: String, needs_restart: bool) -> usize {
        self.0.push(KeyTable { header, needs_restart, lines: Vec::new() });
        self.0.len() - 1
    }

    pub(super) fn add(&mut self, table: usize, key: KeySpec, value: Value) {
        self.0[table].lines.push(KeyLine {
            key: key.name.to_owned(),
            value,
            needs_restart: key.needs_restart,
            is_secret: key.is_secret,
        });
    }

    /// Adds a key with an arbitrary name, such as a host.
    pub(super) fn add_entry(&mut self, table: usize, name: &str, value: Value) {
        self.0[table].lines.push(KeyLine {
            // A quoted key may contain any character, a bare one no dots.
            key: Value::String(name.to_owned()).to_string(),
            value,
            needs_restart: false,
            is_secret: false,
        });
    }

    /// Returns the keys, or whole sections such as `[admin]`, that need a restart because the process `started_with` other values.
    pub(crate) fn needs_restart(&self, started_with: &Self) -> Vec<String> {
        // Of both: a key that the file no longer sets is in one of them only.
        let mut names: Vec<String> = Vec::new();
        for (name, ..) in self.fixed_keys().chain(started_with.fixed_keys()) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let differs = |name: &String| {
            let values = |keys: &Self| -> Vec<(String, Value)> {
                let of_name = keys.fixed_keys().filter(|(fixed, ..)| fixed == name);
                of_name.map(|(_, key, value)| (key.to_owned(), value.clone())).collect()
            };
            values(self) != values(started_with)
        };
        names.into_iter().filter(differs).collect()
    }

    /// Returns these keys with the values that the process `started_with` wherever a change needs a restart.
    pub(crate) fn with_fixed_of(&self, started_with: &Self) -> Self {
        let mut keys = self.clone();
        for table in &mut keys.0 {
            let mut before = started_with.0.iter();
            let Some(before) = before.find(|before| before.header == table.header) else {
                continue;
            };
            if table.needs_restart {
                table.clone_from(before);
            }
            for line in table.lines.iter_mut().filter(|line| line.needs_restart) {
                if let Some(before) = before.lines.iter().find(|before| before.key == line.key) {
                    line.value.clone_from(&before.value);
                }
            }
        }
        keys
    }

    /// Returns everything that needs a restart: the name to report, the key, and its value.
    fn fixed_keys(&self) -> impl Iterator<Item = (String, &str, &Value)> {
        self.0.iter().flat_map(|table| {
            let section = table.header.trim_matches(['[', ']']);
            table.lines.iter().filter(|line| table.needs_restart || line.needs_restart).map(
                move |line| {
                    let name = if table.needs_restart {
                        table.header.clone()
                    } else {
                        format!("{section}.{}", line.key)
                    };
                    (name, &*line.key, &line.value)
                },
            )
        })
    }
}

impl fmt::Display for EffectiveKeys {
    /// Writes them without secrets, in the alternate form (`{:#}`) with them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut is_first = true;
        for table in self.0.iter().filter(|table| !table.lines.is_empty()) {
            if !std::mem::take(&mut is_first) {
                writeln!(f)?;
            }
            writeln!(f, "{}", table.header)?;
            for line in &table.lines {
                match line.value.as_str().filter(|_| line.is_secret && !f.alternate()) {
                    Some(secret) => writeln!(f, "{} = {}", line.key, redacted(secret))?,
                    None => writeln!(f, "{} = {}", line.key, line.value)?,
                }
            }
        }
        Ok(())
    }
}

/// Returns the part of a secret that may be shown: the host of a URL, or only that there is a secret.
fn redacted(secret: &str) -> Value {
    // Neither note can be parsed as the key's value, so a printed configuration that is fed back is rejected.
    match credentials_range(secret) {
        Some(at) => {
            let scheme = &secret[..at.start];
            let rest = &secret[at.end..];
            format!("{scheme}{rest} (credentials not shown)").into()
        }
        None if secret.is_empty() || secret.contains("://") => secret.into(),
        None => "(not shown)".into(),
    }
}
