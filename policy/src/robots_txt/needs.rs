//! Needs: what a path has if a pattern matches it, as numbers, and the set of all that it has.

use super::spread::spread;
use crate::blocks::padded;

/// The stretches that are told apart have one of these widths.
const WIDTHS: [usize; 7] = [2, 3, 4, WORD, 16, 32, 64];
const WORD: usize = size_of::<u64>();

/// What a path has if a pattern matches it: octets, and two stretches of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Needs {
    octets: Octets,
    stretches: [Need; 2],
}

/// The widths of the stretches in use, a bit for each.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Widths(u8);

impl Needs {
    /// Takes the parts of a pattern; and the widths of the stretches used.
    pub(super) fn of<'a>(parts: impl Iterator<Item = &'a [u8]>, anchored: bool) -> (Self, Widths) {
        let mut widths = Widths::default();
        let mut octets = Octets::default();
        let mut rarest = Rarest::default();
        let mut parts = parts.peekable();
        let mut is_first = true;
        while let Some(part) = parts.next() {
            let is_last = parts.peek().is_none();
            let place = match (is_first, is_last && anchored) {
                (_, true) => Place::End,
                (true, _) => Place::Start,
                _ => Place::Anywhere,
            };
            is_first = false;
            octets.add(part);
            rarest.add(part, place);
        }
        let stretches = rarest.0.map(|stretch| {
            stretch.map_or(Need::NOTHING, |stretch| {
                widths.0 |= 1 << stretch.width;
                stretch.need
            })
        });
        (Self { octets, stretches }, widths)
    }
}

/// A small set of octets, with false positives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Octets(u32);

impl Octets {
    fn add(&mut self, text: &[u8]) {
        for byte in text {
            self.0 |= 1 << (byte & 31);
        }
    }
}

/// A stretch of octets at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Need(u32);

/// Where a stretch must be. The numbers tell apart what is the same but for this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Anywhere = 0x8E3A,
    Start = 0x3B55,
    End = 0xD10F,
}

impl Need {
    /// Every path has this.
    const NOTHING: Self = Self(0);

    /// Takes a stretch of one of the widths.
    fn new(place: Place, stretch: &[u8]) -> Self {
        Self::of_number(place, number(stretch), stretch.len())
    }

    #[inline]
    fn of_number(place: Place, number: u32, width: usize) -> Self {
        let seed = (place as u64) << 32 | (width as u64) << 56;
        Self(spread(seed | u64::from(number)))
    }
}

/// A number for a stretch: from eight octets on, that of its halves, joined.
fn number(stretch: &[u8]) -> u32 {
    if stretch.len() > WORD {
        let (one, other) = stretch.split_at(stretch.len() / 2);
        return joined(number(one), number(other));
    }
    narrow(stretch)
}

/// The same for at most a word.
#[inline]
fn narrow(stretch: &[u8]) -> u32 {
    spread(u64::from_le_bytes(padded(stretch)))
}

#[inline]
fn joined(one: u32, other: u32) -> u32 {
    spread(u64::from(one) << 32 | u64::from(other))
}

/// The two stretches in a pattern that are found least often: a wide one is rarer than a narrow one, and rarer still if it
/// must be at a place.
#[derive(Debug, Default)]
struct Rarest([Option<Stretch>; 2]);

#[derive(Clone, Copy, Debug)]
struct Stretch {
    need: Need,
    /// Which of the widths it has.
    width: usize,
    rarity: usize,
}

impl Rarest {
    /// Looks at the stretches that a part begins and ends with.
    fn add(&mut self, part: &[u8], place: Place) {
        let Some(width) = WIDTHS.iter().rposition(|&width| width <= part.len()) else {
            return;
        };
        let first = &part[..WIDTHS[width]];
        let last = &part[part.len() - WIDTHS[width]..];
        let (first_place, last_place) = match place {
            Place::End => (Place::Anywhere, place),
            _ => (place, Place::Anywhere),
        };
        self.add_stretch(first, width, first_place);
        if last.len() < part.len() || first_place != last_place {
            self.add_stretch(last, width, last_place);
        }
    }

    fn add_stretch(&mut self, stretch: &[u8], width: usize, place: Place) {
        let rarity = 2 * width + usize::from(place != Place::Anywhere);
        let is_rarer = |other: &Option<Stretch>| other.is_none_or(|other| other.rarity < rarity);
        let [first, second] = &mut self.0;
        if !is_rarer(second) {
            return;
        }
        *second = Some(Stretch {
            need: Need::new(place, stretch),
            width,
            rarity,
        });
        if is_rarer(first) {
            std::mem::swap(first, second);
        }
    }
}

/// What a path has, with some false positives.
#[derive(Debug)]
pub(super) struct Has {
    octets: Octets,
    /// A set of stretches, two bits of a word for each.
    words: Box<[u64]>,
    shift: u32,
}

impl Has {
    /// Takes the widths of the stretches that will be asked for.
    pub(super) fn of(path: &[u8], widths: Widths) -> Self {
        // One bit in eight at most, as long as the set stays where the processor has it at hand.
        const SPARSE: usize = 4;
        const MOST_WORDS: usize = 1 << 15;
        let noted = (path.len() + 2) * widths.0.count_ones() as usize;
        let words = (noted / SPARSE).next_power_of_two().clamp(2, MOST_WORDS);
        let mut octets = Octets::default();
        octets.add(path);
        let mut has = Self {
            octets,
            words: vec![0; words].into(),
            shift: u32::BITS - words.ilog2(),
        };
        has.note(Need::NOTHING);
        has.note_narrow::<2>(path, widths);
        has.note_narrow::<3>(path, widths);
        has.note_narrow::<4>(path, widths);
        has.note_wide(path, widths);
        has.note_ends(path, widths);
        has
    }

    /// Notes all stretches of a width below a word.
    fn note_narrow<const WIDTH: usize>(&mut self, path: &[u8], widths: Widths) {
        if widths.has(WIDTH) {
            for stretch in path.windows(WIDTH) {
                let stretch: &[u8; WIDTH] = stretch.first_chunk().expect("of this width");
                self.note(Need::new(Place::Anywhere, stretch));
            }
        }
    }

    /// Notes all stretches of a word or more, each width by the one of half as much.
    fn note_wide(&mut self, path: &[u8], widths: Widths) {
        if !widths.has_from(WORD) {
            return;
        }
        let mut numbers: Vec<u32> = path.windows(WORD).map(narrow).collect();
        let mut width = WORD;
        while widths.has_from(width) {
            if widths.has(width) {
                for &number in &numbers {
                    self.note(Need::of_number(Place::Anywhere, number, width));
                }
            }
            let left = numbers.len().saturating_sub(width);
            for index in 0..left {
                numbers[index] = joined(numbers[index], numbers[index + width]);
            }
            numbers.truncate(left);
            width *= 2;
        }
    }

    fn note_ends(&mut self, path: &[u8], widths: Widths) {
        for width in WIDTHS {
            if widths.has(width) && width <= path.len() {
                self.note(Need::new(Place::Start, &path[..width]));
                self.note(Need::new(Place::End, &path[path.len() - width..]));
            }
        }
    }

    #[inline]
    fn note(&mut self, need: Need) {
        let (word, bits) = self.place(need);
        self.words[word] |= bits;
    }

    /// Whether the path has all that a pattern needs.
    #[inline]
    pub(super) fn meets(&self, needs: &Needs) -> bool {
        let has = |need| {
            let (word, bits) = self.place(need);
            self.words[word] & bits == bits
        };
        let [rarest, other] = needs.stretches;
        needs.octets.0 & !self.octets.0 == 0 && has(rarest) && has(other)
    }

    /// The word for a stretch, and its bits there.
    #[inline]
    fn place(&self, need: Need) -> (usize, u64) {
        let bit = |shift: u32| 1 << (need.0 >> shift & 63);
        ((need.0 >> self.shift) as usize, bit(0) | bit(6))
    }
}

impl Widths {
    pub(super) fn add(&mut self, other: Self) {
        self.0 |= other.0;
    }

    fn has(self, width: usize) -> bool {
        let index = WIDTHS.iter().position(|&other| other == width);
        index.is_some_and(|index| self.0 & 1 << index != 0)
    }

    /// Whether it has this width or a greater one.
    fn has_from(self, width: usize) -> bool {
        WIDTHS
            .iter()
            .any(|&other| other >= width && self.has(other))
    }
}
