//! The part of a configuration that differs from the defaults, for the page.

use toml::{Table, Value};

use crate::config::Config;

/// The least `[[crawler]]` and `[[rule]]`, from which the defaults of their keys are read.
const LEAST_TABLES: &str = "\
[[crawler]]
name = \"-\"
tokens = [\"default\"]
match = { user_agent = \"default\" }
[[rule]]
action = \"refuse\"
hosts = [\"default.invalid\"]
";

/// The keys of these tables that have no default.
const REQUIRED: [&str; 5] = ["name", "tokens", "match", "action", "hosts"];

/// Returns those keys of a configuration, as [`Config`] shows it, that differ from the defaults; of `[[crawler]]` and
/// `[[rule]]` the keys that are not left at theirs.
pub(crate) fn changed_toml(shown: &str) -> String {
    let defaults = Config::from_toml("", LEAST_TABLES);
    let defaults = defaults.map(|it| it.to_string()).unwrap_or_default();
    let (Ok(shown), Ok(defaults)) = (shown.parse(), defaults.parse()) else {
        return shown.to_owned();
    };
    difference(&shown, &defaults).to_string()
}

fn difference(shown: &Table, defaults: &Table) -> Table {
    let changed = shown.iter().filter_map(|(key, value)| {
        let value = match (value, defaults.get(key)) {
            (value, Some(default)) if value == default => return None,
            (Value::Table(table), Some(Value::Table(default))) => {
                let table = difference(table, default);
                (!table.is_empty()).then_some(Value::Table(table))?
            }
            (Value::Array(items), Some(Value::Array(default))) => {
                // Of tables that may occur several times, each is compared with the least one.
                let of_item = |item: &Value| match (item, default.first()) {
                    (Value::Table(item), Some(Value::Table(least))) => {
                        let mut least = least.clone();
                        least.retain(|key, _| !REQUIRED.contains(&key));
                        Value::Table(difference(item, &least))
                    }
                    (item, _) => item.clone(),
                };
                Value::Array(items.iter().map(of_item).collect())
            }
            (value, _) => value.clone(),
        };
        Some((key.clone(), value))
    });
    changed.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_left_out() {
        let text = "proxy.name = \"edge\"\n[[crawler]]\nname = \"news\"\ntokens = [\"NewsBot\"]\n\
                    match = { user_agent = \"NewsBot\" }\n[[rule]]\naction = \"refuse\"\nhosts = [\"a.test\"]\n";
        let config = Config::from_toml("", text).expect("it is right");
        let changed = changed_toml(&config.to_string());
        let expected: Table = text.parse().expect("TOML");
        assert_eq!(changed.parse::<Table>().expect("TOML"), expected, "{changed}");
        assert_eq!(changed_toml(&Config::default().to_string()), "");
    }
}
