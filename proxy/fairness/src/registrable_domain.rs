//! The part of a host's name that somebody registered.

use std::net::IpAddr;

/// Returns the registrable domain of a host, by the public suffix list; the whole host if it has none or is an address, which may
/// be in brackets.
///
/// Nothing else should call `psl`: its list is code, which is compiled again for each module that does, and takes as long as a large
/// crate.
pub fn registrable_domain(host: &str) -> &str {
    let address = host.trim_start_matches('[').trim_end_matches(']');
    match address.parse::<IpAddr>() {
        Ok(_) => host,
        Err(_) => psl::domain_str(host).unwrap_or(host),
    }
}

/// Returns whether a host is a suffix below which anybody can register a name, such as `com` or `co.uk`.
pub fn is_public_suffix(host: &str) -> bool {
    let suffix = psl::suffix(host.as_bytes());
    // The list has suffixes of companies as well, and takes names that it does not have for suffixes.
    suffix.is_some_and(|suffix| suffix.typ() == Some(psl::Type::Icann) && suffix == host.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_public_suffixes_are_whole() {
        for (host, domain) in [
            ("www.shop.example", "shop.example"),
            ("a.b.shop.co.uk", "shop.co.uk"),
            ("alice.github.io", "alice.github.io"),
            ("co.uk", "co.uk"),
            ("localhost", "localhost"),
            ("192.0.2.1", "192.0.2.1"),
            ("2001:db8::1", "2001:db8::1"),
            ("[2001:db8::1]", "[2001:db8::1]"),
        ] {
            assert_eq!(registrable_domain(host), domain, "{host}");
        }
    }

    #[test]
    fn only_registries_have_public_suffixes() {
        for (host, expected) in [
            ("com", true),
            ("co.uk", true),
            ("shop.com", false),
            ("github.io", false),
            ("corp", false),
        ] {
            assert_eq!(is_public_suffix(host), expected, "{host}");
        }
    }
}
