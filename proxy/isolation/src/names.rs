//! The addresses that names have inside: each name has its own, from ranges that are used nowhere else. So a connection shows
//! which name it is for even if nothing in it does.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The range for tests of network devices, which is routed nowhere (RFC 2544 appendix C.2.2; RFC 6890): 198.18.0.0/15.
const IPV4_RANGE: u32 = 0xc612_0000;
/// A unique local range (RFC 4193): fd77:6179:6c65::/48.
const IPV6_RANGE: u128 = 0xfd77_6179_6c65 << 80;
/// The addresses of `lo`. Names follow from the next /24 on.
pub(super) const OWN_IPV4: Ipv4Addr = Ipv4Addr::from_bits(IPV4_RANGE + 1);
pub(super) const OWN_IPV6: Ipv6Addr = Ipv6Addr::from_bits(IPV6_RANGE + 1);
const FIRST: usize = 256;
/// The names that have an address at a time; the one that got its address first makes room for a further one.
const CAPACITY: usize = 65_536;

/// The addresses of names, assigned when they are first asked for.
#[derive(Debug, Default)]
pub struct ReservedNames(Mutex<NameTable>);

#[derive(Debug, Default)]
struct NameTable {
    names: Vec<Arc<str>>,
    indices: HashMap<Arc<str>, usize>,
    /// The index that the next new name gets.
    next: usize,
}

impl ReservedNames {
    /// Returns the addresses of a name, in lower case and without a final dot.
    pub fn addresses(&self, name: &str) -> (Ipv4Addr, Ipv6Addr) {
        let index = FIRST + self.lock().index(name);
        // Both ranges have room for more than `CAPACITY`.
        (
            Ipv4Addr::from_bits(IPV4_RANGE + index as u32),
            Ipv6Addr::from_bits(IPV6_RANGE + index as u128),
        )
    }

    /// Returns the name that has this address.
    pub fn name(&self, address: IpAddr) -> Option<Arc<str>> {
        let index: usize = match address.to_canonical() {
            IpAddr::V4(address) => address.to_bits().checked_sub(IPV4_RANGE)?.try_into().ok()?,
            IpAddr::V6(address) => {
                usize::try_from(address.to_bits().checked_sub(IPV6_RANGE)?).ok()?
            }
        };
        self.lock().names.get(index.checked_sub(FIRST)?).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, NameTable> {
        // No step in between leaves the table unusable.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl NameTable {
    fn index(&mut self, name: &str) -> usize {
        if let Some(index) = self.indices.get(name) {
            return *index;
        }
        let name: Arc<str> = name.into();
        let index = self.next;
        if let Some(place) = self.names.get_mut(index) {
            let former = std::mem::replace(place, Arc::clone(&name));
            self.indices.remove(&former);
        } else {
            self.names.push(Arc::clone(&name));
        }
        self.indices.insert(name, index);
        self.next = (index + 1) % CAPACITY;
        index
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_leads_back_to_its_name() {
        let names = ReservedNames::default();
        let (first, _) = names.addresses("shop.example");
        let (ipv4, ipv6) = names.addresses("www.example");
        assert_eq!(names.addresses("shop.example").0, first);
        assert_ne!(first, ipv4);
        let mapped = ipv4.to_ipv6_mapped();
        for address in [IpAddr::V4(ipv4), IpAddr::V6(ipv6), IpAddr::V6(mapped)] {
            assert_eq!(names.name(address).as_deref(), Some("www.example"), "{address}");
        }
        for address in ["198.18.0.1", "198.18.9.9", "192.0.2.1", "fd77:6179:6c65::1", "::1"] {
            assert_eq!(names.name(address.parse().unwrap()), None, "{address}");
        }
    }

    #[test]
    fn the_oldest_name_makes_room_for_a_new_one() {
        let names = ReservedNames::default();
        let (oldest, _) = names.addresses("0.example");
        let (second, _) = names.addresses("1.example");
        for number in 2..=CAPACITY {
            names.addresses(&format!("{number}.example"));
        }
        let name = |address| names.name(IpAddr::V4(address));
        assert_eq!(name(oldest).as_deref(), Some("65536.example"));
        assert_eq!(name(second).as_deref(), Some("1.example"));
        assert_ne!(names.addresses("0.example").0, oldest);
    }
}
