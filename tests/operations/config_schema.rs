//! `wayleave config schema`, and the copy of it in the repository. `WAYLEAVE_GENERATE=1` rewrites the copy.

use std::fs;
use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::tools::{self, clean, output_of, project};
use crate::harness::wayleave::command;

const LIMIT: Duration = Duration::from_secs(120);

fn printed() -> String {
    output_of(command().args(["config", "schema"]), b"", LIMIT)
}

/// Returns whether each document is valid by the schema, as another implementation sees it.
fn validate(documents: &[&str]) -> Vec<bool> {
    let schema: Value = serde_json::from_str(&printed()).expect("JSON");
    let input = json!({ "schema": schema, "documents": documents }).to_string();
    let mut python = clean(tools::python());
    python.arg(project().join("tests/clients/config_schema.py"));
    serde_json::from_str(&output_of(&mut python, input.as_bytes(), LIMIT)).expect("JSON")
}

#[test]
fn the_schema_in_the_repository_is_the_one_printed() {
    let file = project().join("docs/config.schema.json");
    let printed = printed();
    if std::env::var_os("WAYLEAVE_GENERATE").is_some() {
        fs::write(&file, &printed).expect("writable");
    }
    let kept = fs::read_to_string(&file).expect("a file of the project");
    assert!(kept == printed, "{} is out of date: WAYLEAVE_GENERATE=1 writes it", file.display());
}

#[test]
fn the_schema_accepts_the_shipped_file_and_its_examples() {
    let shipped = fs::read_to_string(project().join("config.toml")).expect("shipped");
    let is_example = |line: &str| {
        line.starts_with("[[") || line.split_once(" = ").is_some_and(|(key, _)| !key.contains(' '))
    };
    let uncommented: Vec<_> = shipped
        .lines()
        .map(|line| line.strip_prefix("# ").filter(|rest| is_example(rest)).unwrap_or(line))
        .collect();
    assert_eq!(validate(&[&shipped, &uncommented.join("\n"), ""]), [true; 3]);
}

#[test]
fn the_schema_rejects_unknown_keys_and_wrong_types() {
    let crawler = "[[crawler]]\nname = \"a\"\ntokens = [\"A\"]\nmatch = { user_agent = \"A\" }\n";
    let rejected = [
        "[proxy]\nlisten = 3128\n",
        "[proxy]\nlisten = [3128]\n",
        "[proxy]\nmode = \"watch\"\n",
        "[proxy]\nmax_connections = \"many\"\n",
        "[proxy]\nidle_timout = \"1s\"\n",
        "[prxy]\n",
        "[[crawler]]\nname = \"a\"\n",
        "[crawler]\nname = \"a\"\ntokens = [\"A\"]\n",
        "[dns.overrides]\n\"shop.test\" = 7\n",
        &format!("{crawler}purpose_tokens = {{ train-ai = 1 }}\n"),
        &crawler.replace("user_agent", "user_agnt"),
        "[[rule]]\naction = \"permit\"\nhosts = [\"shop.test\"]\n",
    ];
    assert_eq!(validate(&rejected), vec![false; rejected.len()]);
    assert_eq!(validate(&[crawler]), [true]);
}

#[test]
fn editors_show_what_a_key_means() {
    let schema: Value = serde_json::from_str(&printed()).expect("JSON");
    let described = schema.pointer("/properties/robots/properties/max_age/description");
    let text = described.and_then(Value::as_str).expect("a description");
    assert!(text.starts_with("The time after which a robots.txt is fetched again"), "{text}");
    let mut count = 0;
    for (name, table) in schema["properties"].as_object().expect("tables") {
        let table = table.get("items").unwrap_or(table);
        for (key, value) in table["properties"].as_object().into_iter().flatten() {
            let is_table =
                value.get("properties").is_some() || value.get("additionalProperties").is_some();
            assert!(is_table || value.get("description").is_some(), "{name}.{key}");
            count += 1;
        }
    }
    assert!(count > 80, "{count}");
}
