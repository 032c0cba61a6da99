//! The part of a configuration that differs from the defaults, for the page.

use toml::{Table, Value};
use wayleave_config::Config;

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

/// The keys whose values are the defaults of others: of `mode` and `dialect` in `[[crawler]]`, and of files.
const INHERITED: [(&str, &str); 3] = [("proxy", "mode"), ("robots", "dialect"), ("state", "dir")];

/// Returns those keys of a configuration, as [`Config`] shows it, that differ from the defaults; of `[[crawler]]` and
/// `[[rule]]` the keys that are not left at theirs. A key that would inherit another value is not left at its default.
pub(super) fn changed_toml(shown: &str) -> String {
    let Ok(all) = shown.parse::<Table>() else {
        return shown.to_owned();
    };
    match defaults_beside(&all) {
        Some(defaults) => difference(&all, &defaults).to_string(),
        None => shown.to_owned(),
    }
}

/// Returns the value that each key has if it is left out of a configuration with these values.
fn defaults_beside(shown: &Table) -> Option<Table> {
    let section = |name: &str, key: &str, value: &Value| {
        (name.to_owned(), Value::Table(Table::from_iter([(key.to_owned(), value.clone())])))
    };
    let inherited = INHERITED
        .iter()
        .filter_map(|&(name, key)| Some(section(name, key, shown.get(name)?.get(key)?)));
    let text = inherited.collect::<Table>().to_string() + LEAST_TABLES;
    let mut beside: Table = Config::from_toml("", &text).ok()?.to_string().parse().ok()?;
    let mut plain: Table = Config::default().to_string().parse().ok()?;
    // These themselves differ from their values in an empty file.
    for (name, key) in INHERITED {
        let default = plain.get_mut(name)?.as_table_mut()?.remove(key)?;
        beside.get_mut(name)?.as_table_mut()?.insert(key.to_owned(), default);
    }
    Some(beside)
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

    #[test]
    fn a_key_stays_if_it_would_inherit_another_value() {
        let crawler = |name: &str, keys: &str| {
            format!(
                "[[crawler]]\nname = \"{name}\"\ntokens = [\"A\"]\nmatch = {{ user_agent = \"{name}\" }}\n{keys}\n"
            )
        };
        for general in [
            "",
            "proxy.mode = \"observe\"",
            "robots.dialect = \"google\"",
            "state.dir = \"/other\"",
        ] {
            let mut text = format!("{general}\n");
            for files in ["", "log.decisions = \"state/decisions.jsonl\"\nhttps.ca_dir = \"/ca\"\n"]
            {
                text += files;
                let mut tables = String::new();
                for mode in ["", "mode = \"enforce\"", "mode = \"observe\""] {
                    for dialect in ["", "dialect = \"rfc9309\"", "dialect = \"google\""] {
                        tables +=
                            &crawler(&format!("c{}", tables.len()), &format!("{mode}\n{dialect}"));
                    }
                }
                let shown = Config::from_toml("", &format!("{text}{tables}")).expect("it is right");
                let changed = changed_toml(&shown.to_string());
                let read_again = Config::from_toml("", &changed).expect("it can be used");
                assert_eq!(read_again.to_string(), shown.to_string(), "{changed}");
            }
        }
    }
}
