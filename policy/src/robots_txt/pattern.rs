//! Patterns: what a rule matches, and how specific it is.

use std::borrow::Cow;

use memchr::{memchr, memmem};

use crate::{Dialect, spelling};

/// A path in the form in which a dialect compares it.
#[derive(Debug)]
pub(crate) struct Path<'a> {
    octets: Cow<'a, [u8]>,
    /// The first eight octets, zeros where there are fewer.
    head: u64,
}

impl<'a> Path<'a> {
    pub(crate) fn new(path: &'a str, dialect: Dialect) -> Self {
        let path = path.as_bytes();
        let octets = match dialect {
            Dialect::Google => Cow::Borrowed(path),
            Dialect::Rfc9309 | Dialect::Strictest => {
                rewritten(path, spelling::all_plain(path), spelling::push_literal)
            }
            // "The path portion of the URL", says the draft of 1996 (§3.2.2): no query.
            Dialect::Koster1996 => {
                let path = &path[..memchr(b'?', path).unwrap_or(path.len())];
                rewritten(path, memchr(b'%', path).is_none(), spelling::push_decoded)
            }
            Dialect::Selfhtml => {
                rewritten(path, memchr(b'%', path).is_none(), spelling::push_decoded)
            }
        };
        Self {
            head: head(&octets),
            octets,
        }
    }

    pub(crate) fn octets(&self) -> &[u8] {
        &self.octets
    }

    pub(crate) fn head(&self) -> u64 {
        self.head
    }
}

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

type Rewrite = fn(&mut Vec<u8>, &[u8]);

fn rewritten(text: &[u8], already: bool, push: Rewrite) -> Cow<'_, [u8]> {
    if already {
        return Cow::Borrowed(text);
    }
    let mut form = Vec::with_capacity(text.len() + 16);
    push(&mut form, text);
    Cow::Owned(form)
}

/// A rule's value, taken apart for one dialect.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    /// The literal parts, between stars, one after the other.
    literals: Vec<u8>,
    /// Where each part but the last ends.
    stars: Vec<u32>,
    anchored: bool,
    octets: usize,
}

impl Pattern {
    pub(crate) fn new(value: &[u8], dialect: Dialect) -> Self {
        let wild = dialect != Dialect::Koster1996;
        let (body, anchored) = match value {
            [body @ .., b'$'] if wild => (body, true),
            body => (body, false),
        };
        let last = body.iter().filter(|&&byte| wild && byte == b'*').count();
        let mut literals = Vec::with_capacity(value.len());
        let mut stars = Vec::with_capacity(last);
        let mut octets = last + usize::from(anchored);
        for (index, part) in body.split(|&byte| wild && byte == b'*').enumerate() {
            if index > 0 {
                stars.push(u32::try_from(literals.len()).expect("shorter than a file"));
            }
            let is_open = index < last || !anchored;
            let (push, count): (Rewrite, Rewrite) = match dialect {
                Dialect::Google => (spelling::push_google, spelling::push_google),
                Dialect::Koster1996 | Dialect::Selfhtml => {
                    (spelling::push_decoded, spelling::push_decoded)
                }
                _ if is_open => (spelling::push_open_literal, spelling::push_open_normalised),
                _ => (spelling::push_literal, spelling::push_normalised),
            };
            push(&mut literals, part);
            octets += octets_of(part, count);
        }
        let takes_first = matches!(dialect, Dialect::Koster1996 | Dialect::Selfhtml);
        let octets = if takes_first { 0 } else { octets };
        Self {
            literals,
            stars,
            anchored,
            octets,
        }
    }

    /// For Google's parser an allow rule for `…/index.htm…` means `…/` too.
    pub(crate) fn of_directory(value: &[u8]) -> Option<Self> {
        let slash = memchr::memrchr(b'/', value).filter(|_| means_directory(value))?;
        Some(Self::new(
            &[&value[..=slash], b"$"].concat(),
            Dialect::Google,
        ))
    }

    /// How specific the pattern is: its octets in the dialect's form. Zero where the order of
    /// rules decides instead.
    pub(crate) fn octets(&self) -> usize {
        self.octets
    }

    /// What the pattern matches, whatever its octets.
    pub(crate) fn language(&self) -> Language {
        let mut stars = self.stars.clone();
        if !self.anchored {
            // A star at an open end matches nothing more.
            while stars
                .last()
                .is_some_and(|&star| star as usize == self.literals.len())
            {
                stars.pop();
            }
        }
        Language {
            literals: self.literals.clone(),
            stars,
            anchored: self.anchored,
        }
    }

    /// Whether the pattern matches just what starts with its only part.
    pub(crate) fn is_prefix(&self) -> bool {
        self.stars.is_empty() && !self.anchored
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.literals.capacity() + self.stars.capacity() * size_of::<u32>()
    }

    /// The literal parts in order.
    pub(crate) fn parts(&self) -> impl Iterator<Item = &[u8]> {
        let ends = self
            .stars
            .iter()
            .map(|&end| end as usize)
            .chain([self.literals.len()]);
        ends.scan(0, |start, end| {
            let part = &self.literals[*start..end];
            *start = end;
            Some(part)
        })
    }

    /// Whether the path's end is the pattern's, if it has one: told before anything is searched.
    pub(crate) fn may_end(&self, path: &Path<'_>) -> bool {
        let last = self.stars.last().map_or(0, |&start| start as usize);
        !self.anchored || path.octets().ends_with(&self.literals[last..])
    }

    pub(crate) fn matches(&self, path: &Path<'_>) -> bool {
        self.may_end(path) && matches(self.parts(), self.anchored, path.octets())
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

fn octets_of(part: &[u8], push: Rewrite) -> usize {
    if spelling::all_plain(part) {
        return part.len();
    }
    let mut form = Vec::with_capacity(part.len() + 16);
    push(&mut form, part);
    form.len()
}

/// Whether a value that is plain but for `*` and a last `$` matches.
pub(crate) fn matches_wild(value: &[u8], path: &[u8]) -> bool {
    let (body, anchored) = match value {
        [body @ .., b'$'] => (body, true),
        body => (body, false),
    };
    matches(body.split(|&byte| byte == b'*'), anchored, path)
}

/// Matches parts between stars from left to right, each at its first place, the last one at the
/// end if anchored. The first place is always good enough, since more of the path is left for
/// what follows; so each octet of the path is passed once.
fn matches<'a>(mut parts: impl Iterator<Item = &'a [u8]>, anchored: bool, path: &[u8]) -> bool {
    let Some(mut rest) = path.strip_prefix(parts.next().unwrap_or_default()) else {
        return false;
    };
    let Some(mut part) = parts.next() else {
        return !anchored || rest.is_empty();
    };
    for next in parts {
        match find(rest, part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
        part = next;
    }
    if anchored {
        rest.ends_with(part)
    } else {
        find(rest, part).is_some()
    }
}

/// Where `part` first is. Preparing a proper searcher costs more than most searches here.
fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    const SHORT: usize = 256;
    let Some((&first, others)) = part.split_first() else {
        return Some(0);
    };
    if text.len() > SHORT && !others.is_empty() {
        return memmem::find(text, part);
    }
    let starts = text.get(..=text.len().checked_sub(part.len())?)?;
    memchr::memchr_iter(first, starts).find(|&at| text[at + 1..].starts_with(others))
}

/// Whether Google's parser takes an allow rule to mean a directory too: `…/index.htm…`.
pub(crate) fn means_directory(value: &[u8]) -> bool {
    memchr::memrchr(b'/', value).is_some_and(|slash| value[slash..].starts_with(b"/index.htm"))
}
