//! Real robots.txt files, with requests and verdicts.

use std::collections::HashMap;
use std::path::PathBuf;

use wayleave_robots_txt::UrlPath;

pub(crate) struct Corpus {
    pub(crate) bodies: HashMap<String, Vec<u8>>,
    pub(crate) questions: Vec<Question>,
}

/// A question to Google's parser: a path and query of a file, for one crawler.
pub(crate) struct Question {
    pub(crate) file: String,
    pub(crate) agent: String,
    pub(crate) path: String,
}

impl Corpus {
    pub(crate) fn read() -> Self {
        let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/../policy/robots-txt/tests/corpus");
        let dir = std::env::var_os("WAYLEAVE_CORPUS").map_or(PathBuf::from(sample), PathBuf::from);
        let files = std::fs::read_dir(dir.join("files")).expect("a directory of files");
        let bodies = files.map(|file| {
            let path = file.expect("a readable directory").path();
            let name = path.file_name().expect("a file has a name");
            let name = format!("files/{}", name.to_string_lossy());
            (name, std::fs::read(path).expect("a readable file"))
        });
        let bodies = bodies.collect();
        let verdicts = std::fs::read_to_string(dir.join("google_verdicts.jsonl"));
        let verdicts = verdicts.expect("google_verdicts.jsonl beside the files");
        let questions = verdicts.lines().flat_map(questions).collect();
        Self { bodies, questions }
    }
}

/// Shuffles by the algorithm of Fisher and Yates. The same seed gives the same order, and becomes the next one.
pub(crate) fn shuffle(order: &mut [usize], seed: &mut u64) {
    for last in (1..order.len()).rev() {
        // A linear congruential generator.
        *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        order.swap(last, (*seed >> 33) as usize % (last + 1));
    }
}

fn questions(line: &str) -> Vec<Question> {
    let row: serde_json::Value = serde_json::from_str(line).expect("a row of verdicts");
    let text = |value: &serde_json::Value| value.as_str().expect("text").to_owned();
    let queries = row["queries"].as_array().expect("queries");
    let question = |query: &serde_json::Value| {
        let path = UrlPath::of_url(query[0].as_str().expect("text")).ok()?.to_string();
        Some(Question { file: text(&row["file"]), agent: text(&row["agent"]), path })
    };
    // Some of the questions are about texts that are not URLs.
    queries.iter().filter_map(question).collect()
}
