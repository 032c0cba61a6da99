//! The Internet-Drafts that are followed, each in one revision. `docs/design.md` lists them for readers; a test compares it, and
//! every mention of a revision in code and documents, with this list.

/// The name and the revision of each draft.
pub const FOLLOWED_DRAFTS: [(&str, &str); 8] = [
    ("draft-ietf-aipref-attach", "05"),
    ("draft-ietf-aipref-vocab", "08"),
    ("draft-ietf-httpapi-ratelimit-headers", "11"),
    ("draft-ietf-webbotauth-httpsig-protocol", "01"),
    ("draft-illyes-repext", "03"),
    ("draft-illyes-webbotauth-cbcp", "01"),
    ("draft-illyes-webbotauth-jafar", "00"),
    ("draft-meunier-webbotauth-registry", "04"),
];

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    use super::*;

    fn project() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
    }

    /// Returns the files below `dir` that people read or compile, with their text.
    fn texts(dir: &Path, found: &mut Vec<(PathBuf, String)>) {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap_or_default();
            if path.is_dir() && name != "target" && name != "node_modules" {
                texts(&path, found);
            } else if path.extension().is_some_and(|extension| {
                extension == "md" || extension == "rs" || extension == "toml"
            }) {
                found.push((path.clone(), fs::read_to_string(&path).unwrap()));
            }
        }
    }

    /// Returns the two digits that follow each mention of `name`, with a hyphen before them.
    fn revisions<'a>(text: &'a str, name: &str) -> Vec<&'a str> {
        let mentions = text.match_indices(name).map(|(at, _)| &text[at + name.len()..]);
        let revision = |rest: &'a str| {
            let digits = rest.strip_prefix('-')?.get(..2)?;
            digits.bytes().all(|byte| byte.is_ascii_digit()).then_some(digits)
        };
        mentions.filter_map(revision).collect()
    }

    #[test]
    fn every_mention_of_a_draft_has_the_followed_revision() {
        let mut files = Vec::new();
        for dir in ["docs", "policy", "proxy"] {
            texts(&project().join(dir), &mut files);
        }
        for file in ["README.md", "CHANGELOG.md", "config.toml"] {
            let path = project().join(file);
            files.push((path.clone(), fs::read_to_string(path).unwrap()));
        }
        assert!(files.len() > 300, "{}", files.len());
        for (draft, followed) in FOLLOWED_DRAFTS {
            let mut mentions = 0;
            for (path, text) in &files {
                for revision in revisions(text, draft) {
                    mentions += 1;
                    assert_eq!(revision, followed, "{draft} in {}", path.display());
                }
            }
            assert!(mentions > 0, "{draft} is mentioned nowhere");
        }
    }

    /// A refusal's clause names the revision, too: a section of another one would mislead.
    #[test]
    fn clauses_cite_the_followed_vocabulary() {
        let mut files = Vec::new();
        texts(&project().join("policy/usage-preferences/src"), &mut files);
        let sections: Vec<_> = files
            .iter()
            .flat_map(|(_, text)| text.match_indices("aipref-vocab-").map(|(at, _)| &text[at..]))
            .filter(|rest| rest.get(15..).is_some_and(|rest| rest.starts_with(" \u{a7}")))
            .map(|rest| &rest[13..15])
            .collect();
        assert!(sections.len() >= 3);
        assert!(sections.iter().all(|section| *section == "08"), "{sections:?}");
        assert!(FOLLOWED_DRAFTS.contains(&("draft-ietf-aipref-vocab", "08")));
    }

    #[test]
    fn the_documents_list_exactly_the_followed_drafts() {
        let text = fs::read_to_string(project().join("docs/design.md")).unwrap();
        let rows = text.lines().filter_map(|line| line.strip_prefix("| draft-"));
        let listed: Vec<_> = rows.map(|row| row.split(" |").next().unwrap_or_default()).collect();
        let expected = FOLLOWED_DRAFTS.map(|(name, revision)| format!("{name}-{revision}"));
        let expected: Vec<_> =
            expected.iter().filter_map(|name| name.strip_prefix("draft-")).collect();
        assert_eq!(listed, expected);
    }
}
