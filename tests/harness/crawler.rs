//! Crawlers, to be written into a configuration.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// A `[[crawler]]` table.
#[derive(Debug, Clone)]
pub struct Crawler {
    keys: BTreeMap<String, Value>,
}

/// Returns a crawler that is recognised by its product token in `User-Agent`.
pub fn crawler(name: &str, token: &str) -> Crawler {
    let crawler = Crawler { keys: BTreeMap::new() };
    crawler.set("name", name).set("tokens", [token]).matched_by("user_agent", token)
}

impl Crawler {
    /// Sets a key, also one that is set already.
    pub fn set(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.keys.insert(key.to_owned(), value.into());
        self
    }

    /// Recognises it by this instead: `user_agent`, `addresses`, `username` or `certificate`.
    pub fn matched_by(self, key: &str, value: impl Into<Value>) -> Self {
        let value = value.into();
        self.set("match", json!({ key: value }))
    }

    /// Counts and logs its refusals, and forwards the requests.
    pub fn observed(self) -> Self {
        self.set("mode", "observe")
    }

    pub fn purposes<const N: usize>(self, purposes: [&str; N]) -> Self {
        self.set("purposes", purposes)
    }

    pub fn into_toml(self) -> String {
        let line = |(key, value): (String, Value)| format!("{key} = {}\n", toml(&value));
        let lines = self.keys.into_iter().map(line);
        std::iter::once("[[crawler]]\n".to_owned()).chain(lines).collect()
    }
}

/// Writes a value as TOML, which differs from JSON in objects only.
pub fn toml(value: &Value) -> String {
    match value {
        Value::Object(entries) => {
            let entry = |(key, value): (&String, &Value)| format!("{key} = {}", toml(value));
            let entries: Vec<_> = entries.iter().map(entry).collect();
            format!("{{ {} }}", entries.join(", "))
        }
        other => other.to_string(),
    }
}
