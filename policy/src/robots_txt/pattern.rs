//! Patterns: what a rule matches, and how specific it is.

use std::borrow::Cow;
use std::cell::OnceCell;

use memchr::memchr;

use super::octets::Octets;
use super::search::{Budget, find};
use crate::forms::{self, Form};
use crate::{Dialect, spelling};

/// A path in the form in which a dialect compares it.
#[derive(Debug)]
pub(crate) struct Path<'a> {
    octets: Cow<'a, [u8]>,
    /// The first eight octets, zeros where there are fewer.
    head: u64,
    held: OnceCell<Octets>,
}

impl<'a> Path<'a> {
    pub(crate) fn new(path: &'a str, dialect: Dialect) -> Self {
        let path = path.as_bytes();
        let octets = match dialect {
            Dialect::Google => Cow::Borrowed(path),
            Dialect::Rfc9309 | Dialect::Strictest => {
                rewritten(path, spelling::all_plain(path), &forms::LITERAL)
            }
            // "The path portion of the URL", says the draft of 1996 (§3.2.2): no query.
            Dialect::Koster1996 => {
                let path = &path[..memchr(b'?', path).unwrap_or(path.len())];
                rewritten(path, memchr(b'%', path).is_none(), &forms::DECODED)
            }
            Dialect::Selfhtml => rewritten(path, memchr(b'%', path).is_none(), &forms::DECODED),
        };
        Self::of(octets)
    }

    fn of(octets: Cow<'a, [u8]>) -> Self {
        Self {
            head: head(&octets),
            octets,
            held: OnceCell::new(),
        }
    }

    /// The path in RFC 9309's form, but with its cut escapes as they are written, if it has any: a rule that ends in one
    /// means them, and the escapes that begin so. `path` is what this is the form of.
    pub(crate) fn with_cut_escapes(&self, path: &str, dialect: Dialect) -> Option<Path<'static>> {
        // A path that is its own form has no `%` that was rewritten.
        if dialect != Dialect::Rfc9309 || matches!(self.octets, Cow::Borrowed(_)) {
            return None;
        }
        let octets = forms::literal_with_cut_escapes(path.as_bytes())?;
        Some(Path::of(Cow::Owned(octets)))
    }

    /// Whether two paths in one dialect's form are the same.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        self.octets == other.octets
    }

    pub(crate) fn octets(&self) -> &[u8] {
        &self.octets
    }

    pub(crate) fn head(&self) -> u64 {
        self.head
    }

    /// Which bytes and pairs it holds, found out when first asked.
    pub(super) fn held(&self) -> Octets {
        *self.held.get_or_init(|| Octets::of(&self.octets))
    }
}

/// So many octets are in a head.
pub(crate) const HEAD_OCTETS: usize = size_of::<u64>();

/// The first eight octets of a text as a number, filled up with zeros.
pub(crate) fn head(text: &[u8]) -> u64 {
    text.first_chunk().copied().map_or_else(
        || {
            text.iter()
                .rev()
                .fold(0, |head, &byte| head << 8 | u64::from(byte))
        },
        u64::from_le_bytes,
    )
}

/// Selects the first `octets` of a [`head`].
pub(crate) fn head_mask(octets: usize) -> u64 {
    static MASKS: [u64; 8] = {
        let mut masks = [0; 8];
        let mut octets = 1;
        while octets < 8 {
            masks[octets] = (1 << (8 * octets)) - 1;
            octets += 1;
        }
        masks
    };
    MASKS.get(octets).copied().unwrap_or(u64::MAX)
}

fn rewritten<'a>(text: &'a [u8], already: bool, by: &Form) -> Cow<'a, [u8]> {
    if already {
        return Cow::Borrowed(text);
    }
    let mut form = Vec::new();
    by.push(&mut form, text);
    Cow::Owned(form)
}

/// A rule's value, taken apart for one dialect.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pattern<'a> {
    /// The literal parts, between stars, one after the other.
    pub(crate) literals: &'a [u8],
    /// Where each part but the last ends.
    pub(crate) stars: &'a [u32],
    /// Whether the last part must be at the end of the path.
    pub(crate) anchored: bool,
}

impl<'a> Pattern<'a> {
    /// The literal parts in order; at least one.
    pub(crate) fn parts(self) -> impl DoubleEndedIterator<Item = &'a [u8]> {
        let end = |index: usize| {
            self.stars
                .get(index)
                .map_or(self.literals.len(), |&end| end as usize)
        };
        (0..=self.stars.len()).map(move |index| {
            let start = index.checked_sub(1).map_or(0, end);
            &self.literals[start..end(index)]
        })
    }

    /// How specific the pattern of a value is: the octets of that in the dialect's form.
    pub(crate) fn octets(self, body: Body<'_>, dialect: Dialect) -> usize {
        let written = self.literals.len() + self.stars.len() + usize::from(self.anchored);
        written - escaped_dollars(body, dialect)
    }

    /// The length of what a path must start with.
    pub(crate) fn prefix_length(self) -> usize {
        let end = self.stars.first().map(|&end| end as usize);
        end.unwrap_or(self.literals.len())
    }

    /// What the pattern matches, whatever its octets.
    pub(crate) fn language(self) -> Language {
        let mut stars = self.stars;
        if !self.anchored {
            // A star at an open end matches nothing more.
            while let [before @ .., last] = stars
                && *last as usize == self.literals.len()
            {
                stars = before;
            }
        }
        Language {
            literals: self.literals.into(),
            stars: stars.into(),
            anchored: self.anchored,
        }
    }

    /// Whether the pattern matches just what starts with its only part.
    pub(crate) fn is_prefix(self) -> bool {
        self.stars.is_empty() && !self.anchored
    }
}

/// The set of paths that a pattern matches: the same for `/a` and `/a*`. Two that differ may still hold the same paths.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Language {
    literals: Vec<u8>,
    stars: Vec<u32>,
    anchored: bool,
}

impl Language {
    /// Whether any path is in it. Every path begins with `/`.
    pub(crate) fn has_a_path(&self) -> bool {
        let first = self
            .stars
            .first()
            .map_or(self.literals.len(), |&end| end as usize);
        let is_empty_path = self.anchored && self.stars.is_empty() && first == 0;
        !is_empty_path
            && self.literals[..first]
                .first()
                .is_none_or(|&byte| byte == b'/')
    }

    /// Whether every path is in it.
    pub(crate) fn is_every_path(&self) -> bool {
        !self.anchored && self.stars.is_empty() && matches!(&*self.literals, b"" | b"/")
    }
}

/// Where patterns are taken apart; one after the other without asking for memory each time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Patterns {
    pub(crate) literals: Vec<u8>,
    pub(crate) stars: Vec<u32>,
}

impl Patterns {
    /// Takes a value apart behind all that were.
    pub(crate) fn push(&mut self, Body { text, anchored }: Body<'_>, dialect: Dialect) {
        let form = form(dialect);
        if !has_stars(dialect) {
            return form.push(&mut self.literals, text);
        }
        form.push_pattern(&mut self.literals, text, !anchored, |_, star| {
            let end = star.map(|star| u32::try_from(star).expect("shorter than a file"));
            self.stars.extend(end);
            true
        });
    }

    /// Takes one value apart, and forgets what was before.
    pub(crate) fn take_apart(&mut self, body: Body<'_>, dialect: Dialect) -> Pattern<'_> {
        self.literals.clear();
        self.stars.clear();
        self.push(body, dialect);
        Pattern {
            literals: &self.literals,
            stars: &self.stars,
            anchored: body.anchored,
        }
    }
}

/// Whether `*`, and `$` at the end, mean something to a dialect; to the draft of 1996 they are octets like others.
pub(crate) fn has_stars(dialect: Dialect) -> bool {
    dialect != Dialect::Koster1996
}

/// The form in which a dialect compares.
pub(crate) fn form(dialect: Dialect) -> &'static Form {
    match dialect {
        Dialect::Google => &forms::GOOGLE,
        Dialect::Koster1996 | Dialect::Selfhtml => &forms::DECODED,
        Dialect::Rfc9309 | Dialect::Strictest => &forms::LITERAL,
    }
}

/// How many octets a value was written with that do not count for how specific it is: a `$` in its midst is escaped
/// only to compare it with others.
pub(crate) fn escaped_dollars(body: Body<'_>, dialect: Dialect) -> usize {
    match dialect {
        Dialect::Rfc9309 | Dialect::Strictest => 2 * memchr::memchr_iter(b'$', body.text).count(),
        _ => 0,
    }
}

/// A value without the `$` at its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Body<'a> {
    pub(crate) text: &'a [u8],
    pub(crate) anchored: bool,
}

impl<'a> Body<'a> {
    pub(crate) fn of(value: &'a [u8], dialect: Dialect) -> Self {
        match value {
            [text @ .., b'$'] if has_stars(dialect) => Self {
                text,
                anchored: true,
            },
            text => Self {
                text,
                anchored: false,
            },
        }
    }

    /// For Google's parser an allow rule for `…/index.htm…` means `…/` too: that pattern.
    pub(crate) fn of_directory(value: &'a [u8]) -> Option<Self> {
        if !means_directory(value) {
            return None;
        }
        let slash = memchr::memrchr(b'/', value)?;
        Some(Self {
            text: &value[..=slash],
            anchored: true,
        })
    }
}

/// The literal parts of a value that is plain but for `*` and a last `$`.
pub(crate) fn wild_parts(body: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    body.split(|&byte| byte == b'*')
}

/// Whether parts, with anything between them, match a path: the first at its start, the last at its end if anchored, and
/// each of the others at its first place behind the one before. That is always good enough, since more of the path is left
/// for what follows.
pub(crate) fn matches<'a>(
    mut parts: impl DoubleEndedIterator<Item = &'a [u8]>,
    anchored: bool,
    path: &[u8],
    budget: &mut Budget,
) -> bool {
    let Some(mut rest) = path.strip_prefix(parts.next().unwrap_or_default()) else {
        return false;
    };
    if anchored {
        match parts.next_back() {
            None => return rest.is_empty(),
            Some(last) => match rest.strip_suffix(last) {
                Some(before) => rest = before,
                None => return false,
            },
        }
    }
    parts.all(|part| match find(rest, part, budget) {
        Some(at) => {
            rest = &rest[at + part.len()..];
            true
        }
        None => false,
    })
}

/// With this from its last slash on, an allow rule means a directory, too.
pub(crate) const DIRECTORY: &[u8] = b"/index.htm";

/// Whether Google's parser takes an allow rule to mean a directory too: `…/index.htm…`.
pub(crate) fn means_directory(value: &[u8]) -> bool {
    value.len() >= DIRECTORY.len()
        && memchr::memrchr(b'/', value).is_some_and(|slash| value[slash..].starts_with(DIRECTORY))
}
