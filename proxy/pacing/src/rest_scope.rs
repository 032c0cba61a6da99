//! The scope of a rest, and its name in the fleet.

use super::signals::{CredentialsMark, PageAndClient, QuotaHolder};
use super::unit::PaceUnit;

/// The part of an origin, or of its pace unit, that rests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RestScope {
    /// All of it.
    Whole,
    /// A page, and the client once it has got a 503 for two.
    Part(PageAndClient),
    /// All of it for one client, whose quota is used up.
    Client(QuotaHolder),
}

impl RestScope {
    /// Returns the name used in the fleet: that of the unit, with a fragment for a part of it.
    pub(super) fn name(self, unit: &PaceUnit) -> String {
        match self {
            Self::Whole => unit.to_string(),
            Self::Part(PageAndClient { client, path }) => {
                format!("{unit}#{client:016x}{path:016x}")
            }
            Self::Client(QuotaHolder { client, credentials }) => {
                let mark = credentials.map_or(String::new(), |mark| format!("{:02x}", mark.0));
                format!("{unit}#{client:016x}~{mark}")
            }
        }
    }

    /// Parses a name used in the fleet.
    pub(super) fn parse_name(name: &str) -> Option<(PaceUnit, Self)> {
        let Some((unit, part)) = name.split_once('#') else {
            return Some((PaceUnit::parse(name)?, Self::Whole));
        };
        let (client, of_client) = part.split_at_checked(16)?;
        let client = u64::from_str_radix(client, 16).ok()?;
        let scope = match of_client.strip_prefix('~') {
            Some("") => Self::Client(QuotaHolder { client, credentials: None }),
            Some(mark) => {
                let mark = u8::from_str_radix(mark, 16).ok()?;
                let credentials = Some(CredentialsMark(mark));
                Self::Client(QuotaHolder { client, credentials })
            }
            None => {
                let path = u64::from_str_radix(of_client, 16).ok()?;
                Self::Part(PageAndClient { client, path })
            }
        };
        Some((PaceUnit::parse(unit)?, scope))
    }
}

#[cfg(test)]
mod tests {
    use wayleave_robots_txt::Target;

    use super::*;

    #[test]
    fn scope_names_round_trip() {
        let target = Target::parse("https://shop.test:8443/a?b").unwrap();
        let origin = PaceUnit::Origin(target.origin().clone());
        let client = [192, 0, 2, 1].into();
        let part = PageAndClient::of(&target, client, &origin);
        let [anonymous, known] =
            [None, Some(CredentialsMark(7))].map(|mark| QuotaHolder::of(client, mark));
        for unit in [origin, PaceUnit::of_domain(target.origin())] {
            for resting in [
                RestScope::Whole,
                RestScope::Part(part),
                RestScope::Client(anonymous),
                RestScope::Client(known),
            ] {
                let name = resting.name(&unit);
                let read = RestScope::parse_name(&name);
                assert_eq!(read, Some((unit.clone(), resting)), "{name}");
            }
        }
        let of_client = "https://shop.test#0123456789abcdef";
        for name in ["", "shop.test", "https://shop.test#", "https://shop.test#x", of_client] {
            assert_eq!(RestScope::parse_name(name), None, "{name}");
            assert_eq!(RestScope::parse_name(&format!("{of_client}~x")), None);
        }
    }
}
