//! Writes the JSON Schema of the configuration, for editors: the keys that are read, with the comments of the shipped file. It
//! declares no key: each file in `proxy/config/src/` declares those of its section.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

/// The kind of a table.
#[derive(Clone, Copy, Debug)]
pub(super) enum TableKind {
    /// `[name]`
    Single,
    /// `[[name]]`
    Repeated,
    /// `[name]` with arbitrary keys, whose values have this schema.
    Entries(fn() -> Value),
}

/// A schema that grows with each table and key that is read.
#[derive(Debug)]
pub(super) struct SchemaBuilder {
    root: Value,
    descriptions: HashMap<(String, String), String>,
}

impl SchemaBuilder {
    /// Creates a schema without keys. `documented` is a configuration whose comments describe the keys below them.
    pub(super) fn new(documented: &str) -> Self {
        let mut root = closed_table();
        root["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
        root["title"] = json!("The configuration of wayleave");
        Self { root, descriptions: descriptions(documented) }
    }

    /// Adds the table `name`, such as `crawler.match`. A table that is there already is kept.
    pub(super) fn add_table(&mut self, name: &str, kind: TableKind) {
        let (parent, key) = name.rsplit_once('.').unwrap_or(("", name));
        let mut table = match kind {
            TableKind::Single => closed_table(),
            TableKind::Repeated => json!({ "type": "array", "items": closed_table() }),
            TableKind::Entries(value) => {
                json!({ "type": "object", "additionalProperties": value() })
            }
        };
        if let Some(text) = self.descriptions.get(&(parent.to_owned(), key.to_owned())) {
            table["description"] = json!(text);
        }
        self.properties(parent).entry(key).or_insert(table);
    }

    /// Adds a key of a table that was added before.
    pub(super) fn add_key(&mut self, table: &str, key: &str, mut schema: Value) {
        if let Some(text) = self.descriptions.get(&(table.to_owned(), key.to_owned())) {
            schema["description"] = json!(text);
        }
        self.properties(table).insert(key.to_owned(), schema);
    }

    /// Marks a key as one that must be there.
    pub(super) fn require(&mut self, table: &str, key: &str) {
        let required = self.table(table).entry("required").or_insert_with(|| json!([]));
        if let Some(keys) = required.as_array_mut() {
            keys.push(json!(key));
        }
    }

    pub(super) fn finish(self) -> Value {
        self.root
    }

    fn properties(&mut self, table: &str) -> &mut Map<String, Value> {
        let properties = self.table(table).get_mut("properties").and_then(Value::as_object_mut);
        properties.expect("every table has properties")
    }

    /// Returns the schema of a table, or of the items of a repeated one.
    fn table(&mut self, name: &str) -> &mut Map<String, Value> {
        let mut table = &mut self.root;
        for key in name.split('.').filter(|key| !key.is_empty()) {
            table = &mut table["properties"][key];
            if table.get("items").is_some() {
                table = &mut table["items"];
            }
        }
        table.as_object_mut().expect("tables are added before their keys")
    }
}

fn closed_table() -> Value {
    json!({ "type": "object", "properties": {}, "additionalProperties": false })
}

/// Returns the comments of a configuration by table and key. Tables that are themselves commented out are described, too.
fn descriptions(documented: &str) -> HashMap<(String, String), String> {
    let mut found = HashMap::new();
    let mut table = String::new();
    let mut is_example = false;
    let mut comment = Vec::new();
    let mut is_complete = false;
    for line in documented.lines() {
        is_example = line.starts_with("# [[") || is_example && line.starts_with('#');
        let line = if is_example { line[1..].trim_start() } else { line };
        if line.is_empty() {
            comment.clear();
        } else if let Some(header) = line.strip_prefix('[') {
            header.trim_matches(['[', ']']).clone_into(&mut table);
            comment.clear();
        } else if let Some(text) = line.strip_prefix('#') {
            // Keys that follow each other share a comment, and the next comment is for the next keys.
            if is_complete {
                comment.clear();
                is_complete = false;
            }
            comment.push(text.trim());
        } else if let Some((key, _)) = line.split_once(" = ") {
            found.insert((table.clone(), key.to_owned()), comment.join(" "));
            is_complete = true;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_the_comment_above_them() {
        let text = "# Head.\n\n[a]\n# Two\n# lines.\nx = 1\ny = 2\n# One.\nz = 3\n\n# Many.\n#\n# [[b]]\n# # In b.\n# x = 1\n";
        let found = descriptions(text);
        let of = |table: &str, key: &str| found[&(table.to_owned(), key.to_owned())].clone();
        let keys = [("a", "x"), ("a", "y"), ("a", "z"), ("b", "x")];
        assert_eq!(
            keys.map(|(table, key)| of(table, key)),
            ["Two lines.", "Two lines.", "One.", "In b."]
        );
    }
}
