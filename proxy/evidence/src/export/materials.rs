//! The documents and configurations that exported decisions rest on.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::time::SystemTime;

use serde::Deserialize;
use wayleave_notation::rfc3339;

use crate::digest::Sha256Digest;
use crate::exchange::DocumentExchange;

/// The members of a decision's line that name its inputs.
#[derive(Deserialize)]
pub(super) struct DecisionEntry<'a> {
    #[serde(deserialize_with = "rfc3339::deserialize")]
    pub(super) at: SystemTime,
    #[serde(borrow)]
    pub(super) url: Cow<'a, str>,
    #[serde(default, borrow)]
    origin: Option<Cow<'a, str>>,
    #[serde(default)]
    documents: Vec<DocumentEntry>,
    #[serde(default)]
    robots_status: Option<u16>,
    #[serde(default)]
    robots_cut: bool,
    #[serde(default)]
    robots_sha256: Option<Sha256Digest>,
    #[serde(default, deserialize_with = "rfc3339::deserialize_some")]
    robots_fetched_at: Option<SystemTime>,
}

/// A document other than robots.txt.
#[derive(Deserialize)]
struct DocumentEntry {
    url: String,
    #[serde(default)]
    sha256: Option<Sha256Digest>,
    #[serde(default, deserialize_with = "rfc3339::deserialize_some")]
    fetched_at: Option<SystemTime>,
    #[serde(default)]
    cut: bool,
}

/// Everything that the exported decisions rest on, without repetitions.
#[derive(Debug, Default)]
pub(super) struct ExportMaterials {
    pub(super) configurations: BTreeSet<Sha256Digest>,
    /// The digests of robots.txt files and other documents.
    pub(super) documents: BTreeSet<Sha256Digest>,
    pub(super) exchanges: BTreeSet<DocumentExchange>,
}

impl ExportMaterials {
    pub(super) fn add_decision(
        &mut self,
        decision: &DecisionEntry<'_>,
        configuration: Option<Sha256Digest>,
    ) {
        self.configurations.extend(configuration);
        for document in &decision.documents {
            // Without a digest there was no document that the decision could rest on.
            let Some((sha256, at)) = document.sha256.zip(document.fetched_at) else {
                continue;
            };
            self.documents.insert(sha256);
            self.exchanges.insert(DocumentExchange {
                url: document.url.clone(),
                at: humantime::format_rfc3339_micros(at).to_string(),
                status: 200,
                is_cut: document.cut,
                sha256: Some(sha256),
            });
        }
        let sha256 = decision.robots_sha256;
        self.documents.extend(sha256);
        let (Some(origin), Some(at)) = (&decision.origin, decision.robots_fetched_at) else {
            return;
        };
        self.exchanges.insert(DocumentExchange {
            url: format!("{origin}/robots.txt"),
            at: humantime::format_rfc3339_micros(at).to_string(),
            status: match decision.robots_status {
                Some(status) if sha256.is_none() => status,
                // A copy was fetched with 200, even if a later attempt failed with the recorded status.
                _ => 200,
            },
            is_cut: decision.robots_cut,
            sha256,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_and_configurations_are_collected_once() {
        let robots = Sha256Digest::of(b"robots");
        let terms = Sha256Digest::of(b"terms");
        let line = format!(
            r#"{{"at":"2026-01-01T00:00:00.000001Z","url":"https://shop.test/a","origin":"https://shop.test",
            "documents":[{{"url":"https://shop.test/tdmrep.json","sha256":"{terms}","fetched_at":"2026-01-01T00:00:00Z"}},
            {{"url":"https://shop.test/licence.xml"}}],
            "robots_sha256":"{robots}","robots_fetched_at":"2026-01-01T00:00:00Z","robots_cut":true}}"#
        );
        let decision: DecisionEntry<'_> = serde_json::from_str(&line).unwrap();
        let mut materials = ExportMaterials::default();
        for _ in 0..2 {
            materials.add_decision(&decision, Some(Sha256Digest::of(b"configuration")));
        }
        assert_eq!(materials.configurations.len(), 1);
        assert_eq!(materials.documents, BTreeSet::from([robots, terms]));
        let urls: Vec<_> = materials.exchanges.iter().map(|exchange| &*exchange.url).collect();
        let expected = ["https://shop.test/robots.txt", "https://shop.test/tdmrep.json"];
        assert_eq!(urls, expected);
        let robots = materials.exchanges.first().unwrap();
        assert_eq!((robots.status, robots.is_cut), (200, true));
    }

    #[test]
    fn unavailable_robots_txt_is_exchange_without_document() {
        let line = r#"{"at":"2026-01-01T00:00:00Z","url":"https://shop.test/a","origin":"https://shop.test",
            "robots_status":404,"robots_fetched_at":"2026-01-01T00:00:00Z"}"#;
        let mut materials = ExportMaterials::default();
        materials.add_decision(&serde_json::from_str(line).unwrap(), None);
        assert!(materials.documents.is_empty() && materials.configurations.is_empty());
        let exchange = materials.exchanges.first().unwrap();
        assert_eq!((exchange.status, exchange.sha256), (404, None));
    }
}
