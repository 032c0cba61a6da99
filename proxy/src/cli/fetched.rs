//! Fetches robots.txt for the command line exactly as the proxy does.

use std::collections::HashMap;

use wayleave_policy::Origin;
use wayleave_policy::lifecycle::{Facts, FetchRequest};

use crate::clock::Clock;
use crate::config::Config;
use crate::robots::Fetch;
use crate::run::wiring;

/// Asks the origins one after the other; `tell` hears of each before it is asked.
pub(super) fn fetch(
    config: &Config,
    origins: &[&Origin],
    tell: impl Fn(&Origin),
) -> anyhow::Result<HashMap<Origin, Facts>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let clock = Clock::start();
        let fetch = wiring::robots_fetch(config, clock)?;
        let mut fetched = HashMap::new();
        for &origin in origins {
            tell(origin);
            let request = FetchRequest {
                resource: origin.into(),
                validators: None,
            };
            let outcome = fetch.fetch(request, None).await.outcome;
            let fetched_at = clock.now();
            fetched.insert(
                origin.clone(),
                Facts {
                    fetched_at,
                    outcome,
                },
            );
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
