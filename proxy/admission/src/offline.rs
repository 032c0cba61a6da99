//! Decides by inputs that need no waiting: files, and fetches made one after the other.

use std::mem;

use wayleave_decision::{
    Decision, DocumentBatch, DocumentResult, Input, RobotsCopy, Step, Verdict,
};
use wayleave_lifecycle::Resource;
use wayleave_robots_txt::Origin;

/// A supplier of the inputs of decisions.
pub trait InputSource {
    /// Returns the robots.txt of an origin.
    fn robots_txt(&mut self, origin: &Origin) -> RobotsCopy;

    /// Returns a document that may be fetched.
    fn document(&mut self, resource: &Resource) -> DocumentResult;
}

/// Completes a decision.
pub fn complete(mut decision: Decision<'_>, source: &mut impl InputSource) -> Verdict {
    while let Step::Need(input) = decision.step() {
        match input {
            // It gives an exception its pace, which is no part of the verdict.
            Input::CachedRobotsTxt(_) => decision.add_cached_robots_txt(None),
            Input::RobotsTxt(origin) => decision.add_robots_txt(&source.robots_txt(&origin)),
            Input::Documents(mut batch) => {
                let results = fetch_all(&mut batch, source);
                decision.add_documents(*batch, &results);
            }
        }
    }
    decision.into_verdict()
}

fn fetch_all(batch: &mut DocumentBatch, source: &mut impl InputSource) -> Vec<DocumentResult> {
    let mut context = mem::take(&mut batch.context);
    let mut results = Vec::new();
    for document in &batch.documents {
        results.push(match document.resource() {
            Err(cause) => DocumentResult::NotAsked(cause),
            Ok(resource) => {
                let robots_txt = source.robots_txt(resource.origin());
                if batch.allows(robots_txt.access(), resource, &mut context) {
                    source.document(resource)
                } else {
                    DocumentResult::NotAsked(DocumentBatch::NOT_ALLOWED.to_owned())
                }
            }
        });
    }
    batch.context = context;
    results
}
