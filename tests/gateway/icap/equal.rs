//! A gateway that asks by ICAP gets the proxy's own answer, whatever the request is.

use serde_json::Value;

use super::{IcapAnswer, IcapGated, reqmod};
use crate::gateway::equal::{Verdict, compare, with_rule};
use crate::harness::Origin;

fn verdict(answer: &IcapAnswer) -> Verdict {
    let Some(status) = answer.http_status() else {
        return (200, Value::Null, None);
    };
    let proxy_status = answer.inside.lines().find_map(|line| line.strip_prefix("Proxy-Status: "));
    let reason = if answer.body.is_empty() { Value::Null } else { answer.json()["reason"].clone() };
    (status, reason, proxy_status.map(str::to_owned))
}

#[test]
fn every_verdict_by_icap_is_the_proxys() {
    let origin = Origin::start();
    let gated = IcapGated::start_with(&origin, with_rule);
    let mut wire = gated.connect();
    compare(
        &gated.gated,
        &origin,
        |_| true,
        |asked| {
            wire.0.send(reqmod(&asked.head(), "Allow: 204\r\n", None));
            Some(verdict(&wire.answer()))
        },
    );
}
