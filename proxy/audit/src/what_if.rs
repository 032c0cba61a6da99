//! A change of the configuration in use that somebody wants to try on the decision log.

use serde::Deserialize;
use toml::value::Datetime;
use toml::{Table, Value};
use utoipa::ToSchema;
use wayleave_decision::EnforcementMode;
use wayleave_decision_log::ChosenCrawler;
use wayleave_robots_txt::Dialect;

use super::settings::PastSettings;

/// The change.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct WhatIf {
    /// The crawlers whose refusals would be enforced, by name; `unnamed` for requests that match no `[[crawler]]`.
    #[schema(required = false, value_type = Vec<String>)]
    pub enforce: Vec<ChosenCrawler>,
    /// The dialect in which robots.txt would be read for all crawlers.
    #[schema(required = false)]
    pub dialect: Option<String>,
    /// `[[rule]]` tables, as objects, that would come before those of the configuration.
    #[schema(required = false, value_type = Vec<Object>)]
    pub rules: Vec<Table>,
}

impl WhatIf {
    /// Returns whether it changes nothing.
    pub fn is_empty(&self) -> bool {
        self.enforce.is_empty() && self.dialect.is_none() && self.rules.is_empty()
    }

    /// Returns the settings of a configuration with this change.
    ///
    /// # Errors
    ///
    /// Returns all mistakes.
    pub fn settings(&self, configuration: &str) -> Result<PastSettings, Vec<String>> {
        PastSettings::read_deciding(&self.apply(configuration)?)
    }

    /// Returns a configuration with this change, as TOML. The rules are not checked.
    ///
    /// # Errors
    ///
    /// Returns all mistakes: crawlers that the configuration does not have, and a dialect that does not exist.
    fn apply(&self, configuration: &str) -> Result<String, Vec<String>> {
        let mut all: Table = configuration.parse().map_err(|error| vec![format!("{error}")])?;
        let mut mistakes = self.enforce_crawlers(&mut all);
        mistakes.extend(self.change_dialect(&mut all));
        if let Value::Array(rules) = all.entry("rule").or_insert_with(|| Value::Array(Vec::new())) {
            rules.splice(0..0, self.rules.iter().cloned().map(with_dates));
        }
        if mistakes.is_empty() {
            toml::to_string(&all).map_err(|error| vec![error.to_string()])
        } else {
            Err(mistakes)
        }
    }

    fn enforce_crawlers(&self, all: &mut Table) -> Vec<String> {
        let enforced = EnforcementMode::Enforce.as_str();
        let proxy = table(all, "proxy");
        let default_mode = proxy.get("mode").cloned().unwrap_or_else(|| enforced.into());
        if self.enforce.iter().any(ChosenCrawler::is_unnamed) {
            proxy.insert("mode".to_owned(), enforced.into());
        }
        let mut unknown: Vec<&str> =
            self.enforce.iter().filter(|name| !name.is_unnamed()).map(|name| &**name).collect();
        for crawler in crawlers(all) {
            let name = crawler.get("name").and_then(Value::as_str).unwrap_or_default();
            let is_enforced = self.enforce.iter().any(|enforced| **enforced == *name);
            unknown.retain(|enforced| *enforced != name);
            // Stated even where it is the default, which may change.
            if is_enforced {
                crawler.insert("mode".to_owned(), enforced.into());
            } else {
                crawler.entry("mode").or_insert_with(|| default_mode.clone());
            }
        }
        unknown.iter().map(|name| format!("enforce: no [[crawler]] is named {name:?}")).collect()
    }

    fn change_dialect(&self, all: &mut Table) -> Option<String> {
        let dialect = self.dialect.as_deref()?;
        let words: Vec<_> = Dialect::ALL.iter().map(|dialect| dialect.as_str()).collect();
        if !words.contains(&dialect) {
            return Some(format!("dialect: {dialect:?} is not one of {}", words.join(", ")));
        }
        table(all, "robots").insert("dialect".to_owned(), dialect.into());
        for crawler in crawlers(all) {
            crawler.insert("dialect".to_owned(), dialect.into());
        }
        None
    }
}

/// Returns a table of the file, which is made if it is missing.
fn table<'a>(all: &'a mut Table, name: &str) -> &'a mut Table {
    let value = all.entry(name).or_insert_with(|| Value::Table(Table::new()));
    if !value.is_table() {
        *value = Value::Table(Table::new());
    }
    value.as_table_mut().expect("it is a table now")
}

fn crawlers(all: &mut Table) -> impl Iterator<Item = &mut Table> {
    let crawlers = all.get_mut("crawler").and_then(Value::as_array_mut);
    crawlers.into_iter().flatten().filter_map(Value::as_table_mut)
}

/// Returns a rule whose dates are dates, which JSON has only as text.
fn with_dates(mut rule: Table) -> Value {
    if let Some(expires) = rule.get_mut("expires")
        && let Some(date) = expires.as_str().and_then(|text| text.parse::<Datetime>().ok())
    {
        *expires = Value::Datetime(date);
    }
    Value::Table(rule)
}

#[cfg(test)]
mod tests {
    use super::*;

    const IN_USE: &str = r#"
        [proxy]
        mode = "observe"
        [[crawler]]
        name = "news"
        [[crawler]]
        name = "images"
        mode = "enforce"
        dialect = "google"
        [[crawler]]
        name = "prices"
        [[rule]]
        hosts = ["old.example"]
    "#;

    fn applied(what_if: &WhatIf) -> Table {
        what_if.apply(IN_USE).expect("it can be applied").parse().expect("TOML")
    }

    fn of_crawlers(all: &Table, key: &str) -> Vec<Option<String>> {
        let crawlers = all["crawler"].as_array().expect("an array");
        crawlers.iter().map(|crawler| Some(crawler.get(key)?.as_str()?.to_owned())).collect()
    }

    fn chosen<const N: usize>(names: [&str; N]) -> Vec<ChosenCrawler> {
        names.map(|name| name.to_owned().into()).to_vec()
    }

    fn words(words: [&str; 3]) -> Vec<Option<String>> {
        words.map(|word| Some(word.to_owned())).to_vec()
    }

    #[test]
    fn only_the_named_crawlers_are_enforced() {
        let one = WhatIf { enforce: chosen(["prices"]), ..WhatIf::default() };
        let all = applied(&one);
        assert_eq!(of_crawlers(&all, "mode"), words(["observe", "enforce", "enforce"]));
        assert_eq!(all["proxy"]["mode"].as_str(), Some("observe"));
        let unnamed = WhatIf { enforce: chosen(["unnamed"]), ..WhatIf::default() };
        let all = applied(&unnamed);
        assert_eq!(of_crawlers(&all, "mode"), words(["observe", "enforce", "observe"]));
        assert_eq!(all["proxy"]["mode"].as_str(), Some("enforce"));
    }

    #[test]
    fn the_dialect_changes_for_all_and_rules_come_first() {
        let rule = Table::from_iter([
            ("hosts".to_owned(), Value::Array(vec!["new.example".into()])),
            ("expires".to_owned(), "2100-01-01".into()),
        ]);
        let what_if =
            WhatIf { dialect: Some("selfhtml".to_owned()), rules: vec![rule], ..WhatIf::default() };
        let all = applied(&what_if);
        assert_eq!(of_crawlers(&all, "dialect"), words(["selfhtml"; 3]));
        assert_eq!(all["robots"]["dialect"].as_str(), Some("selfhtml"));
        let rules = all["rule"].as_array().expect("an array");
        let hosts: Vec<_> = rules.iter().map(|rule| rule["hosts"][0].as_str()).collect();
        assert_eq!(hosts, [Some("new.example"), Some("old.example")]);
        assert!(rules[0]["expires"].is_datetime());
    }

    #[test]
    fn every_mistake_is_said() {
        let wrong = WhatIf {
            enforce: chosen(["news", "nwes", "prises"]),
            dialect: Some("bing".to_owned()),
            ..WhatIf::default()
        };
        let mistakes = wrong.apply(IN_USE).expect_err("three mistakes");
        assert_eq!(
            mistakes,
            [
                "enforce: no [[crawler]] is named \"nwes\"",
                "enforce: no [[crawler]] is named \"prises\"",
                "dialect: \"bing\" is not one of rfc9309, google, koster1996, selfhtml, strictest",
            ]
        );
    }
}
