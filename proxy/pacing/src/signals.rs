//! The requests that an answer applies to: the one place that says which of them rest, or become slower, after a sign that a
//! server wants fewer.
//!
//! An answer goes to one party: a client, with credentials or without, that requests a page of an origin at one of its
//! addresses. It applies to that party until a second, independent one gets the same, unless it is plainly about all
//! requests:
//!
//! | sign | applies to | applies to all once |
//! | --- | --- | --- |
//! | 429 | all: it is about the rate of our requests | |
//! | 503, or a connection that breaks | the page, and the client after a second page; the client's own adaptive pace | another client gets one for another page |
//! | 503 for robots.txt | all: it concerns every page | |
//! | a quota, in answer to a request without credentials | all: everybody else has none either | |
//! | a quota, with credentials or a partition key | the client | another client with other credentials gets one, too |
//!
//! By address, an answer applies to the network of the address that gave it, whatever other addresses its name has. A
//! refusal at the edge with another status, such as 403, is about the crawler or its request: nothing rests after it.

use std::net::IpAddr;
use std::time::Duration;

use ipnet::IpNet;
use ring::digest::{SHA256, digest};
use tokio::time::Instant;
use wayleave_fairness::Holder;
use wayleave_robots_txt::Target;

use super::unit::PaceUnit;

/// A sign that a server wants fewer requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Signal {
    /// 429 (RFC 6585 section 4).
    TooManyRequests,
    /// 503 for a page, or a connection that broke before the answer.
    Unavailable,
    /// 503 for robots.txt.
    RobotsUnavailable,
    /// A quota of all requests.
    CommonQuota,
    /// A quota of one partition, or of the credentials of a request.
    OwnQuota,
}

/// The requests that a signal applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SignalScope {
    /// Requests for the page, and all of the client once another page is refused to it.
    Page,
    /// Requests of the client.
    Client,
    /// All requests.
    All,
}

impl Signal {
    /// Returns the sign that a response to a request for `target` is, if it is one.
    pub(super) fn of_response(status: u16, target: &Target) -> Option<Self> {
        match status {
            429 => Some(Self::TooManyRequests),
            503 if target.path().as_str() == "/robots.txt" => Some(Self::RobotsUnavailable),
            503 => Some(Self::Unavailable),
            _ => None,
        }
    }

    /// Returns the requests that it applies to. `is_seconded`: an independent party has got the same answer.
    pub(super) fn scope(self, is_seconded: bool) -> SignalScope {
        match self {
            Self::TooManyRequests | Self::RobotsUnavailable | Self::CommonQuota => SignalScope::All,
            Self::Unavailable | Self::OwnQuota if is_seconded => SignalScope::All,
            Self::Unavailable => SignalScope::Page,
            Self::OwnQuota => SignalScope::Client,
        }
    }
}

/// A request that is answered, as far as pacing depends on it.
#[derive(Clone, Copy, Debug)]
pub(super) struct AnsweredRequest<'a> {
    pub(super) target: &'a Target,
    /// The unit whose pace it kept; `None` for its origin.
    pub(super) unit: Option<&'a PaceUnit>,
    /// The network of the address that answered, if it is known.
    pub(super) network: Option<IpNet>,
    pub(super) client: IpAddr,
    /// The number of rests that had begun when it got its slot.
    pub(super) rests_before: u64,
}

impl AnsweredRequest<'_> {
    /// Returns the units that the answer applies to. A name may also have addresses in networks of others, so an answer from
    /// elsewhere applies to its own network, and to the origin alone.
    pub(super) fn units(&self) -> Vec<PaceUnit> {
        let of_origin = || PaceUnit::Origin(self.target.origin().clone());
        match self.unit {
            Some(PaceUnit::Network(paced)) if self.network != Some(*paced) => {
                self.network.map(PaceUnit::Network).into_iter().chain([of_origin()]).collect()
            }
            Some(unit) => vec![unit.clone()],
            None => vec![of_origin()],
        }
    }
}

/// A page, and a client that got a 503 for it, as digests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PageAndClient {
    pub(super) client: u64,
    pub(super) path: u64,
}

impl PageAndClient {
    pub(super) fn of(target: &Target, client: IpAddr, unit: &PaceUnit) -> Self {
        // Digests take the same small space for every path, and are the same on all nodes. Origins that share a pace
        // have pages of the same path.
        let path = if unit.is_shared() {
            short_digest(target.to_string().as_bytes())
        } else {
            short_digest(target.path().as_str().as_bytes())
        };
        Self { client: client_digest(client), path }
    }

    /// Returns whether neither one client's requests nor one page's fault explain both refusals.
    pub(super) fn is_independent_of(self, other: Self) -> bool {
        self.client != other.client && self.path != other.path
    }
}

/// The recent refusals that no independent party has seconded.
#[derive(Debug, Default)]
pub(super) struct UnsecondedRefusals(Vec<(PageAndClient, Instant)>);

impl UnsecondedRefusals {
    /// The most refusals that are remembered. Beyond it, the oldest is forgotten.
    const MOST: usize = 32;
    /// The time for which a refusal is remembered.
    const REMEMBERED_FOR: Duration = Duration::from_secs(60);

    /// Records a refusal. Returns whether it seconds another one. Both are then used up: the next sign needs two parties again, or
    /// one client's refusals would go on slowing down everybody after a single refusal of another.
    pub(super) fn record(&mut self, refused: PageAndClient) -> bool {
        let now = Instant::now();
        self.0.retain(|(other, at)| *other != refused && now < *at + Self::REMEMBERED_FOR);
        let is_seconded = self.0.iter().any(|(other, _)| refused.is_independent_of(*other));
        if is_seconded {
            self.0.clear();
            return true;
        }
        if self.0.len() >= Self::MOST {
            self.0.remove(0);
        }
        self.0.push((refused, now));
        false
    }
}

/// A client with a used-up quota of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct QuotaHolder {
    pub(super) client: u64,
    pub(super) credentials: Option<CredentialsMark>,
}

/// A byte of a digest of credentials: enough to distinguish most, and too little to reveal anything where other nodes see
/// it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CredentialsMark(pub(super) u8);

impl QuotaHolder {
    pub(super) fn of(client: IpAddr, credentials: Option<CredentialsMark>) -> Self {
        Self { client: client_digest(client), credentials }
    }

    /// Returns whether the two have different quotas. Clients with the same credentials share one.
    pub(super) fn is_independent_of(self, other: Self) -> bool {
        let shares_credentials =
            self.credentials.is_some() && self.credentials == other.credentials;
        self.client != other.client && !shares_credentials
    }
}

/// The quota that a response says is left.
#[derive(Clone, Copy, Debug)]
pub struct ToldQuota {
    pub remaining: u64,
    /// The time until there is more.
    pub reset: Duration,
    /// Whether the response says that the quota is one partition's.
    pub is_partitioned: bool,
    /// The credentials of the request, if it had any.
    pub credentials: Option<CredentialsMark>,
}

impl ToldQuota {
    /// Returns the quota with which no request has to wait for longer than `longest`.
    pub(super) fn limited(self, longest: Duration) -> Self {
        let spans = self.reset.as_nanos().div_ceil(longest.as_nanos().max(1));
        match spans {
            0 | 1 => self,
            _ => Self {
                remaining: self.remaining.max(u64::try_from(spans).unwrap_or(u64::MAX)),
                ..self
            },
        }
    }

    pub(super) fn signal(&self) -> Signal {
        if self.is_partitioned || self.credentials.is_some() {
            Signal::OwnQuota
        } else {
            Signal::CommonQuota
        }
    }
}

/// Returns the mark of the credentials in these fields of a request: `Authorization` or else `Cookie`.
pub fn credentials_mark<'a>(
    authorization: Option<&'a [u8]>,
    cookie: Option<&'a [u8]>,
) -> Option<CredentialsMark> {
    let credentials = authorization.or(cookie)?;
    digest(&SHA256, credentials).as_ref().first().copied().map(CredentialsMark)
}

fn client_digest(client: IpAddr) -> u64 {
    match Holder::of_client(client).address() {
        Some(IpAddr::V4(address)) => short_digest(&address.octets()),
        Some(IpAddr::V6(address)) => short_digest(&address.octets()),
        None => 0,
    }
}

fn short_digest(bytes: &[u8]) -> u64 {
    let first = digest(&SHA256, bytes).as_ref().first_chunk().copied();
    u64::from_be_bytes(first.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(url: &str) -> Target {
        Target::parse(url).unwrap()
    }

    #[test]
    fn a_signal_counts_for_its_party_until_it_is_seconded() {
        use SignalScope::{All, Client, Page};
        for (signal, alone, seconded) in [
            (Signal::TooManyRequests, All, All),
            (Signal::Unavailable, Page, All),
            (Signal::RobotsUnavailable, All, All),
            (Signal::CommonQuota, All, All),
            (Signal::OwnQuota, Client, All),
        ] {
            assert_eq!(signal.scope(false), alone, "{signal:?}");
            assert_eq!(signal.scope(true), seconded, "{signal:?}");
        }
        let page = target("http://shop.test/a");
        for (status, signal) in [
            (429, Some(Signal::TooManyRequests)),
            (503, Some(Signal::Unavailable)),
            (200, None),
            (402, None),
            (403, None),
            (451, None),
            (500, None),
            (504, None),
        ] {
            assert_eq!(Signal::of_response(status, &page), signal, "{status}");
        }
        let robots_txt = target("http://shop.test/robots.txt");
        assert_eq!(Signal::of_response(503, &robots_txt), Some(Signal::RobotsUnavailable));
    }

    #[test]
    fn only_another_client_and_page_second_a_503() {
        let unit = PaceUnit::Origin(target("http://shop.test/").origin().clone());
        let of = |path: &str, client: &str| {
            let target = target(&format!("http://shop.test{path}"));
            PageAndClient::of(&target, client.parse().unwrap(), &unit)
        };
        let first = of("/a", "192.0.2.1");
        for (path, client, is_independent) in [
            ("/a", "192.0.2.1", false),
            ("/b", "192.0.2.1", false),
            ("/a", "192.0.2.2", false),
            ("/b", "192.0.2.2", true),
        ] {
            let is_seconded = of(path, client).is_independent_of(first);
            assert_eq!(is_seconded, is_independent, "{path} {client}");
        }
        let of_64 = of("/a", "2001:db8::1");
        assert!(!of("/b", "2001:db8::ffff:1").is_independent_of(of_64), "one /64");
    }

    #[test]
    fn a_quota_is_everybodys_if_nothing_sets_its_request_apart() {
        for (is_partitioned, authorization, cookie, signal) in [
            (false, None, None, Signal::CommonQuota),
            (true, None, None, Signal::OwnQuota),
            (false, Some("Bearer a"), None, Signal::OwnQuota),
            (false, None, Some("session=a"), Signal::OwnQuota),
            (true, Some("Bearer a"), Some("session=a"), Signal::OwnQuota),
        ] {
            let [authorization, cookie] =
                [authorization, cookie].map(|value: Option<&str>| value.map(str::as_bytes));
            let credentials = credentials_mark(authorization, cookie);
            let reset = Duration::from_secs(1);
            let told = ToldQuota { remaining: 0, reset, is_partitioned, credentials };
            assert_eq!(told.signal(), signal, "{told:?}");
        }
    }

    #[test]
    fn clients_with_the_same_credentials_share_a_quota() {
        let holder = |last, mark: Option<u8>| {
            QuotaHolder::of([192, 0, 2, last].into(), mark.map(CredentialsMark))
        };
        let first = holder(1, Some(7));
        for (other, is_independent) in [
            (holder(1, Some(7)), false),
            (holder(1, Some(8)), false),
            (holder(1, None), false),
            (holder(2, Some(7)), false),
            (holder(2, Some(8)), true),
            (holder(2, None), true),
        ] {
            assert_eq!(other.is_independent_of(first), is_independent, "{other:?}");
        }
        assert!(holder(1, None).is_independent_of(holder(2, None)), "only a partition is named");
    }

    #[test]
    fn a_quota_with_a_far_reset_lasts_as_long_as_a_request_may_wait() {
        let seconds = Duration::from_secs;
        for (remaining, reset, longest, limited) in [
            (0, 30, 300, 0),
            (0, 300, 300, 0),
            (7, 301, 300, 7),
            (0, 301, 300, 2),
            (1, 3_000, 300, 10),
            (1, 90_000_000, 300, 300_000),
        ] {
            let reset = seconds(reset);
            let told = ToldQuota { remaining, reset, is_partitioned: false, credentials: None };
            assert_eq!(told.limited(seconds(longest)).remaining, limited, "{told:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn refusals_of_one_client_second_each_other_never() {
        let refused = |client, path| PageAndClient { client, path };
        let mut refusals = UnsecondedRefusals::default();
        assert!(!refusals.record(refused(1, 7)));
        assert!(!refusals.record(refused(2, 7)), "one page may be broken for all");
        assert!(refusals.record(refused(2, 8)), "another client, and another page");
        for page in 0..100 {
            assert!(!refusals.record(refused(1, page)), "those have counted");
        }
        assert!(refusals.record(refused(2, 7)));
        assert!(!refusals.record(refused(1, 3)), "they have, too");
        tokio::time::advance(Duration::from_secs(60)).await;
        assert!(!refusals.record(refused(2, 4)), "long ago");
        assert!(refusals.record(refused(1, 5)));
    }

    #[test]
    fn an_answer_counts_for_the_network_that_gave_it() {
        let shop = target("http://shop.test/");
        let network = |text: &str| text.parse::<IpNet>().unwrap();
        let paced = network("192.0.2.0/24");
        let other = network("198.51.100.0/24");
        let unit = PaceUnit::Network(paced);
        let origin = PaceUnit::Origin(shop.origin().clone());
        let domain = PaceUnit::of_domain(shop.origin());
        for (unit, network, units) in [
            (None, None, vec![origin.clone()]),
            (None, Some(other), vec![origin.clone()]),
            (Some(&domain), Some(other), vec![domain.clone()]),
            (Some(&unit), Some(paced), vec![unit.clone()]),
            (Some(&unit), Some(other), vec![PaceUnit::Network(other), origin.clone()]),
            (Some(&unit), None, vec![origin.clone()]),
        ] {
            let client = [192, 0, 2, 1].into();
            let answered =
                AnsweredRequest { target: &shop, unit, network, client, rests_before: 0 };
            assert_eq!(answered.units(), units, "{answered:?}");
        }
    }
}
