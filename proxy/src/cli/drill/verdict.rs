//! Judges whether an answer is the right one.

use std::net::Ipv4Addr;
use std::time::Duration;

use tokio::time::Instant;
use wayleave_config::Config;
use wayleave_decision::Reason;
use wayleave_robots_txt::UrlScheme;

use super::client::DrillAnswer;
use super::exempt;
use super::probes::{Probe, RightAnswer};
use super::report::ProbeVerdict;

/// The part of the delay by which two arrivals may be closer: the clock of the origin is read after its task wakes, which a busy
/// machine makes late.
const TOLERANCE: f64 = 0.2;
/// Answers that say nothing about enforcement: the proxy stops, is full, must not forward anything, or does not know the drill.
const BEFORE_ANY: [Reason; 5] = [
    Reason::Shutdown,
    Reason::ConnectionLimitReached,
    Reason::HeadTimeout,
    Reason::Unrecorded,
    Reason::Unidentified,
];
const BY_PACE: [Reason; 4] =
    [Reason::CrawlDelay, Reason::OriginRests, Reason::Concurrency, Reason::Budget];

/// Judges the answer to a request that arrived this often at the origin, which is at `address`.
pub(super) fn judge(
    config: &Config,
    address: Ipv4Addr,
    probe: &Probe,
    scheme: UrlScheme,
    answer: anyhow::Result<DrillAnswer>,
    arrivals: usize,
) -> ProbeVerdict {
    let what = format!("{} ({})", probe.what, scheme.as_str());
    if arrivals > 0 && matches!(probe.right, RightAnswer::Refused(_)) {
        return ProbeVerdict::wrong(format!("{what} was fetched"));
    }
    let answer = match answer {
        Ok(answer) => answer,
        Err(error) => return ProbeVerdict::failed(format!("{what}: {error:#}")),
    };
    if answer.is_uninspected {
        return ProbeVerdict::wrong(format!("{what}: the tunnel is not inspected"));
    }
    let reasons: &[Reason] = match &probe.right {
        RightAnswer::Forwarded if answer.status == 200 && arrivals == 1 => {
            return ProbeVerdict::RIGHT;
        }
        RightAnswer::Forwarded => &[],
        RightAnswer::Refused(reasons) => reasons,
        RightAnswer::Withheld(reason) => std::slice::from_ref(reason),
    };
    let status = answer.status;
    let is_sent_on = !matches!(probe.right, RightAnswer::Refused(_));
    match answer.reason {
        Some(reason) if reasons.contains(&reason) && status == reason.default_answer().status => {
            ProbeVerdict::RIGHT
        }
        Some(reason) if BEFORE_ANY.contains(&reason) => {
            ProbeVerdict::failed(format!("{what}: {reason}"))
        }
        // A request that must be refused at once never waits for a slot.
        Some(reason) if is_sent_on && BY_PACE.contains(&reason) => {
            ProbeVerdict::not_enforced(format!("{what} comes too soon by the configured pace"))
        }
        Some(Reason::PolicyRule)
            if let Some(rule) = exempt::refusing_rule(config, probe.host, address) =>
        {
            ProbeVerdict::not_enforced(rule)
        }
        // Too much is refused: worth a look, but nothing got out.
        reason if reasons.is_empty() => {
            let reason = reason.map_or("no reason", Reason::as_str);
            ProbeVerdict::failed(format!("{what}: {status}, {reason}"))
        }
        reason => {
            let answered = reason.map_or("no refusal", Reason::as_str);
            let right: Vec<_> = reasons.iter().map(|reason| reason.as_str()).collect();
            let right = right.join(" or ");
            ProbeVerdict::wrong(format!("{what} got {status} ({answered}) instead of {right}"))
        }
    }
}

/// Judges requests that came too fast; an answer is `None` if the request was held. `arrivals` are the times at the origin.
pub(super) fn judge_pace(
    delay: Duration,
    answers: &[Option<anyhow::Result<DrillAnswer>>],
    arrivals: &[Instant],
) -> ProbeVerdict {
    let shortest = delay.mul_f64(1.0 - TOLERANCE);
    let too_close = |pair: &[Instant]| pair[1].duration_since(pair[0]) < shortest;
    if arrivals.windows(2).any(too_close) {
        let delay = humantime::format_duration(delay);
        return ProbeVerdict::wrong(format!("requests arrived closer together than {delay}"));
    }
    if arrivals.is_empty() && answers.iter().all(Option::is_none) {
        return ProbeVerdict::failed("no paced request was answered".to_owned());
    }
    for answer in answers.iter().flatten() {
        match answer {
            Err(error) => return ProbeVerdict::failed(format!("{error:#}")),
            Ok(DrillAnswer { status: 200, .. }) => {}
            Ok(DrillAnswer { reason: Some(Reason::CrawlDelay), status: 429, .. }) => {}
            Ok(DrillAnswer { reason, status, .. }) => {
                let reason = reason.map_or("no reason", Reason::as_str);
                return ProbeVerdict::failed(format!("paced requests: {status}, {reason}"));
            }
        }
    }
    ProbeVerdict::RIGHT
}

#[cfg(test)]
mod tests {
    use super::super::report::DrillResult;
    use super::*;

    fn answer(status: u16, reason: Option<Reason>) -> Option<anyhow::Result<DrillAnswer>> {
        Some(Ok(DrillAnswer { status, reason, is_uninspected: false }))
    }

    #[tokio::test(start_paused = true)]
    async fn requests_closer_together_than_the_delay_are_wrong() {
        let delay = Duration::from_secs(4);
        let first = Instant::now();
        let after = |seconds| first + Duration::from_secs_f64(seconds);
        let too_soon = || answer(429, Some(Reason::CrawlDelay));
        for (answers, arrivals, result) in [
            ([answer(200, None), too_soon()], vec![first], DrillResult::Right),
            ([answer(200, None), None], vec![first, after(4.0)], DrillResult::Right),
            ([answer(200, None), None], vec![first, after(3.5)], DrillResult::Right),
            ([too_soon(), too_soon()], vec![first], DrillResult::Right),
            ([answer(200, None), answer(200, None)], vec![first, after(1.0)], DrillResult::Wrong),
            ([answer(200, None), too_soon()], vec![first, after(3.0)], DrillResult::Wrong),
            ([answer(200, None), answer(502, None)], vec![first], DrillResult::Failed),
            ([Some(Err(anyhow::anyhow!("x"))), None], vec![], DrillResult::Failed),
            ([None, None], vec![], DrillResult::Failed),
            ([None, None], vec![first], DrillResult::Right),
        ] {
            let verdict = judge_pace(delay, &answers, &arrivals);
            assert_eq!(verdict.result, result, "{answers:?} {arrivals:?}");
        }
    }
}
