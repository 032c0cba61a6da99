//! The hundred real files, and Protego's verdicts on them.

use std::path::PathBuf;
use std::sync::OnceLock;

use serde_json::{Value, json};

use super::LIMIT;
use crate::harness::tools::{clean, output_of, project, python};

/// A real file, and requests to it.
pub struct Sample {
    pub host: String,
    pub file: PathBuf,
    /// The crawler's product token.
    pub agent: String,
    /// Paths, and whether Protego allows them.
    pub paths: Vec<(String, bool)>,
}

pub fn samples() -> &'static [Sample] {
    static SAMPLES: OnceLock<Vec<Sample>> = OnceLock::new();
    SAMPLES.get_or_init(|| {
        let dir = project().join("tests/data/robots");
        let manifest = std::fs::read_to_string(dir.join("manifest.jsonl"))
            .expect("the manifest is part of the project");
        let rows: Vec<Value> = manifest
            .lines()
            .map(|line| serde_json::from_str(line).expect("each line is JSON"))
            .collect();
        let text = |value: &Value| value.as_str().expect("a string").to_owned();
        let paths = |row: &Value| {
            row["paths"].as_array().expect("a list").iter().map(text).collect::<Vec<_>>()
        };
        let questions: Vec<_> = rows
            .iter()
            .map(|row| (dir.join(text(&row["file"])), text(&row["agent"]), paths(row)))
            .collect();
        let verdicts = judge(&questions);
        let samples = rows.iter().zip(questions).zip(verdicts).map(
            |((row, (file, agent, paths)), verdicts)| {
                let length =
                    std::fs::metadata(&file).expect("each file of the manifest is there").len();
                assert_eq!(row["bytes"], length, "{} differs from what was served", file.display());
                Sample {
                    host: text(&row["host"]),
                    file,
                    agent,
                    paths: paths.into_iter().zip(verdicts).collect(),
                }
            },
        );
        samples.collect()
    })
}

/// Returns Protego's verdicts on `(file, product token, paths)`.
pub fn judge(questions: &[(PathBuf, String, Vec<String>)]) -> Vec<Vec<bool>> {
    let lines = questions.iter().map(|(file, agent, paths)| {
        json!({ "file": file, "agent": agent, "paths": paths }).to_string() + "\n"
    });
    let script = project().join("tests/clients/verdicts.py");
    let output =
        output_of(clean(python()).arg(script), lines.collect::<String>().as_bytes(), LIMIT);
    output.lines().map(|line| serde_json::from_str(line).expect("a list of verdicts")).collect()
}
