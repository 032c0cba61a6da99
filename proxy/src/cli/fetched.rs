//! Fetches robots.txt for the command line exactly as the proxy does.

use std::collections::HashMap;

use wayleave_policy::Origin;
use wayleave_policy::lifecycle::{Facts, FetchRequest};

use crate::clock::Clock;
use crate::config::Config;
use crate::robots::Fetch;
use crate::run::wiring;

/// Asks every origin once, one after the other.
pub(super) fn fetch<'a>(
    config: &Config,
    origins: impl Iterator<Item = &'a Origin>,
) -> anyhow::Result<HashMap<Origin, Facts>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let clock = Clock::start();
        let fetch = wiring::robots_fetch(config, clock)?;
        let mut fetched = HashMap::new();
        for origin in origins {
            if !fetched.contains_key(origin) {
                let request = FetchRequest {
                    resource: origin.into(),
                    validators: None,
                };
                let outcome = fetch.fetch(request, None).await.outcome;
                fetched.insert(
                    origin.clone(),
                    Facts {
                        fetched_at: clock.now(),
                        outcome,
                    },
                );
            }
        }
        Ok(fetched)
    })
}

/// Why an answer cannot be used.
pub(super) fn why_not(facts: &Facts) -> String {
    match (facts.outcome.cause(), facts.outcome.status()) {
        (Some(cause), _) => cause,
        (None, Some(status)) => format!("HTTP {status}"),
        (None, None) => "no answer".to_owned(),
    }
}
