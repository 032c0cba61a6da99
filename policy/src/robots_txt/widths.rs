//! Widths: where in a path all its stretches of a few widths are, to find whole parts without searching.
//!
//! Paths can be made in which all short pieces of a part are everywhere, but not the part, or not behind the one before; to
//! search for each of thousands of such parts takes longer than to note the path's stretches of as many octets once.

use memchr::memmem;

use super::spread::SPREAD;

/// Parts are looked up by the widest stretches of these that they begin and end with.
const WIDTHS: [usize; 5] = [4, 8, 16, 32, 64];
/// So many stretches of a part are looked up.
const MANY_STRETCHES: usize = 16;
/// So many places are tried before it is searched for.
const MANY_PLACES: usize = 1 << 10;

#[derive(Debug, Default)]
pub(super) struct Widths([Option<Stretches>; WIDTHS.len()]);

impl Widths {
    /// The narrowest part that can be found.
    pub(super) const NARROWEST: usize = WIDTHS[0];

    /// Where in the path a part first is, from a place on.
    pub(super) fn find(&mut self, path: &[u8], from: usize, part: &[u8]) -> Option<usize> {
        let index = WIDTHS.iter().rposition(|&width| width <= part.len())?;
        let stretches = self.0[index].get_or_insert_with(|| Stretches::of(path, WIDTHS[index]));
        stretches.find(path, from, part)
    }
}

/// The places of all stretches of one width.
#[derive(Debug)]
struct Stretches {
    width: usize,
    /// Where the places of each hash begin, and behind the last where they end.
    starts: Vec<u32>,
    /// In order, those of one hash after the other.
    places: Vec<u32>,
}

impl Stretches {
    fn of(path: &[u8], width: usize) -> Self {
        let hashes: Vec<u32> = path.windows(width).map(hash).collect();
        let slots = hashes.len().next_power_of_two();
        let mut stretches = Self {
            width,
            starts: vec![0; slots + 1],
            places: vec![0; hashes.len()],
        };
        for &hash in &hashes {
            let slot = stretches.slot(hash);
            stretches.starts[slot] += 1;
        }
        let mut end = 0;
        for start in &mut stretches.starts {
            end += *start;
            *start = end;
        }
        // From the last place on, so that where those of a hash end becomes where they begin.
        for (place, &hash) in hashes.iter().enumerate().rev() {
            let slot = stretches.slot(hash);
            stretches.starts[slot] -= 1;
            let index = stretches.starts[slot] as usize;
            stretches.places[index] = place as u32;
        }
        stretches
    }

    fn slot(&self, hash: u32) -> usize {
        hash as usize & (self.starts.len() - 2)
    }

    /// The places of what has the hash of a stretch.
    fn places(&self, stretch: &[u8]) -> &[u32] {
        let slot = self.slot(hash(stretch));
        &self.places[self.starts[slot] as usize..self.starts[slot + 1] as usize]
    }

    /// Where a part first is, from a place on, told by the rarest of some stretches in it.
    fn find(&self, path: &[u8], from: usize, part: &[u8]) -> Option<usize> {
        let last = part.len() - self.width;
        let mut places = self.places(&part[..self.width]);
        let mut offset = 0;
        if last > 0 {
            let offsets = (self.width..last).step_by(self.width);
            for other in offsets.take(MANY_STRETCHES).chain([last]) {
                let others = self.places(&part[other..][..self.width]);
                if others.len() < places.len() {
                    (places, offset) = (others, other);
                }
            }
        }
        let before = places.partition_point(|&place| (place as usize) < from + offset);
        let mut places = places[before..]
            .iter()
            .map(|&place| place as usize - offset);
        for place in places.by_ref().take(MANY_PLACES) {
            if path[place..].starts_with(part) {
                return Some(place);
            }
        }
        // To try each place takes longer than to search where there are many.
        search(path, places.next()?, part)
    }
}

/// Apart, since few come here.
#[cold]
fn search(path: &[u8], from: usize, part: &[u8]) -> Option<usize> {
    memmem::find(&path[from..], part).map(|at| from + at)
}

/// A number for a stretch of one of the widths.
fn hash(stretch: &[u8]) -> u32 {
    let (words, rest) = stretch.as_chunks();
    let rest = rest
        .first_chunk()
        .map_or(0, |rest| u32::from_le_bytes(*rest));
    let start = u64::from(rest).wrapping_mul(SPREAD);
    let hash = words.iter().fold(start, |hash: u64, word| {
        (hash.rotate_left(29) ^ u64::from_le_bytes(*word)).wrapping_mul(SPREAD)
    });
    (hash >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_found_where_they_first_are() {
        let path: Vec<u8> = (0..2_000_u32)
            .map(|n| b"/ab"[(n * n % 251 % 3) as usize])
            .collect();
        let mut widths = Widths::default();
        for from in (0..2_000).step_by(190) {
            for width in [4, 5, 7, 8, 9, 20, 33, 64, 65, 200] {
                for at in [0, 64, 65, 1_000, 1_800] {
                    let mut part = path[at..at + width].to_vec();
                    for last in [None, Some(b'a'), Some(b'z')] {
                        if let (Some(last), Some(octet)) = (last, part.last_mut()) {
                            *octet = last;
                        }
                        let expected = memmem::find(&path[from..], &part).map(|at| from + at);
                        assert_eq!(widths.find(&path, from, &part), expected, "{part:?} {from}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_part_is_found_whose_stretches_are_at_many_places() {
        let path = [&[b'a'; 2_000][..], b"b", &[b'a'; 200], b"c", &[b'a'; 50]].concat();
        let mut widths = Widths::default();
        for (before, middle, after) in [
            (70, b'b', 70),
            (250, b'b', 150),
            (90, b'c', 40),
            (90, b'c', 60),
        ] {
            let part = [&vec![b'a'; before][..], &[middle], &vec![b'a'; after]].concat();
            for from in [0, 20, 1_920, 2_100] {
                let expected = memmem::find(&path[from..], &part).map(|at| from + at);
                assert_eq!(
                    widths.find(&path, from, &part),
                    expected,
                    "{before} {after} {from}"
                );
            }
        }
    }

    #[test]
    fn nothing_is_in_a_path_that_is_shorter() {
        assert_eq!(Widths::default().find(b"/ab", 0, b"/abc"), None);
        assert_eq!(Widths::default().find(b"", 0, b"/abc"), None);
    }
}
