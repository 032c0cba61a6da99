//! User-agent lines: where they are, and whether one means a crawler.

use super::super::parse::line::is_space;
use crate::name_tag::is_letter;
use crate::{Dialect, ProductToken};

/// Where a user-agent line is in the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Agent(u32);

impl Agent {
    const LARGE: u32 = 1 << 31;
    const GOES_ON: u32 = 1 << 30;
    const FLAGS: u32 = Self::LARGE | Self::GOES_ON;

    /// `goes_on` says that no rule stands between this line and the one before.
    pub(crate) fn new(offset: usize, goes_on: bool) -> Self {
        let offset = u32::try_from(offset).expect("the limit is below 512 MiB");
        Self(offset | if goes_on { Self::GOES_ON } else { 0 })
    }

    pub(crate) fn offset(self) -> usize {
        (self.0 & !Self::FLAGS) as usize
    }

    /// Whether the line belongs to the same run of the stream as the one before.
    pub(crate) fn goes_on(self) -> bool {
        self.0 & Self::GOES_ON != 0
    }

    /// Whether the group has so many rules that an index pays.
    pub(crate) fn is_large(self) -> bool {
        self.0 & Self::LARGE != 0
    }

    pub(crate) fn mark_large(&mut self) {
        self.0 |= Self::LARGE;
    }

    pub(crate) fn to_bytes(self) -> [u8; Agents::BYTES] {
        self.0.to_le_bytes()
    }
}

/// The user-agent lines of a file in its order, as bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Agents<'a>(&'a [[u8; Agents::BYTES]]);

impl<'a> Agents<'a> {
    /// So many bytes stand for a line.
    pub(crate) const BYTES: usize = size_of::<u32>();

    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes.as_chunks().0)
    }

    pub(crate) fn at(self, index: usize) -> Option<Agent> {
        self.0.get(index).copied().map(Self::read)
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = Agent> + 'a {
        self.0.iter().copied().map(Self::read)
    }

    /// The last line whose event is not behind an offset.
    pub(crate) fn last_until(self, offset: usize) -> Option<Agent> {
        self.at(self.before(offset + 1).checked_sub(1)?)
    }

    /// How many lines' events are before an offset.
    pub(crate) fn before(self, offset: usize) -> usize {
        self.0
            .partition_point(|&bytes| Self::read(bytes).offset() < offset)
    }

    fn read(bytes: [u8; Agents::BYTES]) -> Agent {
        Agent(u32::from_le_bytes(bytes))
    }
}

/// Whether the line means every crawler not named elsewhere.
pub(crate) fn is_everyone(value: &[u8], dialect: Dialect) -> bool {
    match value {
        b"*" => true,
        [b'*', next, ..] => dialect == Dialect::Google && is_space(*next),
        _ => false,
    }
}

/// How well a line names the crawler: `None` if it does not, else the more the better.
pub(crate) fn rank(value: &[u8], token: &ProductToken, dialect: Dialect) -> Option<usize> {
    let name = token.folded();
    // Only the group for everyone is meant for a crawler without a name. Google's parser, which asks for no name, would
    // take what it cuts to nothing, such as `1bot`, for that crawler's.
    if is_everyone(value, dialect) || name.is_empty() {
        return None;
    }
    match dialect {
        Dialect::Google => google(value).eq_ignore_ascii_case(name).then_some(1),
        _ if name == b"*" => None,
        Dialect::Rfc9309 | Dialect::Strictest => names(value, name).then_some(1),
        Dialect::Koster1996 => contains(value, without_version(name)).then_some(1),
        Dialect::Selfhtml => {
            let value = without_version(value);
            let start = name.get(..value.len());
            let is_prefix = start.is_some_and(|start| start.eq_ignore_ascii_case(value));
            (is_prefix && !value.is_empty()).then_some(value.len())
        }
    }
}

/// RFC 9309 §2.2.1, stretched to names its grammar cannot spell: all of the value, or what
/// stands before a byte that no name holds.
fn names(value: &[u8], name: &[u8]) -> bool {
    let Some((start, rest)) = value.split_at_checked(name.len()) else {
        return false;
    };
    let ends = rest
        .first()
        .is_none_or(|&byte| !(is_letter(byte) || byte.is_ascii_digit()));
    ends && start.eq_ignore_ascii_case(name)
}

/// What Google's parser keeps of a value: it stops at the first byte outside `[A-Za-z_-]`.
fn google(value: &[u8]) -> &[u8] {
    let end = value.iter().position(|&byte| !is_letter(byte));
    &value[..end.unwrap_or(value.len())]
}

/// Whether a name, in lower case, is anywhere in a value.
fn contains(value: &[u8], name: &[u8]) -> bool {
    // Beyond this a proper search is cheaper than to try every place, and takes linear time.
    const FEW_COMPARISONS: usize = 1 << 12;
    let Some(first) = name.first() else {
        return false;
    };
    if value.len() * name.len() > FEW_COMPARISONS {
        return memchr::memmem::find(&value.to_ascii_lowercase(), name).is_some();
    }
    let is_name =
        |window: &[u8]| window[0].eq_ignore_ascii_case(first) && window.eq_ignore_ascii_case(name);
    value.windows(name.len()).any(is_name)
}

fn without_version(name: &[u8]) -> &[u8] {
    let end = name.iter().position(|&byte| byte == b'/');
    name[..end.unwrap_or(name.len())].trim_ascii_end()
}
