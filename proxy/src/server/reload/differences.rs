//! The differences between two configurations in words, for the log.

use std::collections::{BTreeMap, BTreeSet};

use toml::{Table, Value};

/// The most changes that are listed, and the longest text of a value.
const MAX_LISTED: usize = 20;
const MAX_VALUE_CHARS: usize = 80;

/// Returns in words the differences between two configurations, as [`Config`](wayleave_config::Config) shows them, such as
/// `proxy.mode: "observe" -> "enforce"`, and the files that they refer to whose content was replaced.
pub(super) fn describe_changes(before: &str, after: &str, replaced_files: &[String]) -> String {
    let mut changes = Vec::new();
    if let (Ok(before), Ok(after)) = (before.parse::<Table>(), after.parse::<Table>()) {
        let before = Value::Table(before);
        let after = Value::Table(after);
        describe_value("", Some(&before), Some(&after), &mut changes);
    }
    changes.extend(replaced_files.iter().map(|file| format!("the content of {file}")));
    let more = changes.len().saturating_sub(MAX_LISTED);
    changes.truncate(MAX_LISTED);
    if more > 0 {
        changes.push(format!("and {more} more"));
    }
    if changes.is_empty() { "none".to_owned() } else { changes.join("; ") }
}

fn describe_value(
    key: &str,
    before: Option<&Value>,
    after: Option<&Value>,
    changes: &mut Vec<String>,
) {
    match (before, after) {
        (one, other) if one == other => {}
        (Some(Value::Table(before)), Some(Value::Table(after))) => {
            let prefix = if key.is_empty() { String::new() } else { format!("{key}.") };
            let keys: BTreeSet<_> = before.keys().chain(after.keys()).collect();
            for name in keys {
                let key = format!("{prefix}{name}");
                describe_value(&key, before.get(name), after.get(name), changes);
            }
        }
        (Some(Value::Array(before)), Some(Value::Array(after)))
            if before.iter().chain(after).all(Value::is_table) =>
        {
            let before = by_name(key, before);
            let after = by_name(key, after);
            let names: BTreeSet<_> = before.keys().chain(after.keys()).collect();
            for name in names {
                match (before.get(name), after.get(name)) {
                    (None, _) => changes.push(format!("{name} added")),
                    (_, None) => changes.push(format!("{name} removed")),
                    (one, other) => {
                        describe_value(name, one.copied(), other.copied(), changes);
                    }
                }
            }
        }
        (before, after) => {
            let text = |value: Option<&Value>| match value {
                None => "none".to_owned(),
                Some(value) => value.to_string().chars().take(MAX_VALUE_CHARS).collect(),
            };
            changes.push(format!("{key}: {} -> {}", text(before), text(after)));
        }
    }
}

/// Returns the tables of an array by their name, or else their number.
fn by_name<'a>(key: &str, tables: &'a [Value]) -> BTreeMap<String, &'a Value> {
    let named = tables.iter().zip(1..).map(|(table, number): (_, usize)| {
        let name = match table.get("name").and_then(Value::as_str) {
            Some(name) => format!("[[{key}]] {name:?}"),
            None => format!("[[{key}]] {number}"),
        };
        (name, table)
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use wayleave_config::Config;

    use super::*;

    #[test]
    fn changes_are_listed_by_key() {
        let crawler = |name: &str, mode: &str| {
            format!(
                "[[crawler]]\nname = {name:?}\ntokens = [\"B\"]\nmatch = {{ user_agent = \"B\" }}\nmode = {mode:?}\n"
            )
        };
        let shown = |text: &str| Config::from_toml("", text).expect("it is right").to_string();
        let before = shown(&format!(
            "proxy.mode = \"observe\"\n{}{}",
            crawler("news", "observe"),
            crawler("images", "enforce")
        ));
        let after = shown(&format!(
            "proxy.mode = \"enforce\"\n{}{}",
            crawler("prices", "enforce"),
            crawler("news", "enforce")
        ));
        assert_eq!(
            describe_changes(&before, &after, &[]),
            "[[crawler]] \"images\" removed; [[crawler]] \"news\".mode: \"observe\" -> \"enforce\"; \
             [[crawler]] \"prices\" added; proxy.mode: \"observe\" -> \"enforce\""
        );
        assert_eq!(describe_changes(&before, &before, &[]), "none");
        let replaced = ["/etc/wayleave/site.txt".to_owned()];
        let described = describe_changes(&before, &before, &replaced);
        assert_eq!(described, "the content of /etc/wayleave/site.txt");
    }
}
