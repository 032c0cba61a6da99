//! Percent-encoded bytes (escapes): `%` and two hexadecimal digits, and texts that only begin like one.

/// Returns the value of the two hexadecimal digits that `text` starts with.
#[inline]
pub(crate) fn hex_pair(text: &[u8]) -> Option<u8> {
    const NONE: u8 = u8::MAX;
    static VALUES: [u8; 256] = {
        let mut values = [NONE; 256];
        let mut value = 0;
        while value < 16 {
            values[b"0123456789abcdef"[value] as usize] = value as u8;
            values[b"0123456789ABCDEF"[value] as usize] = value as u8;
            value += 1;
        }
        values
    };
    let [high, low, ..] = *text else { return None };
    let high = VALUES[usize::from(high)];
    let low = VALUES[usize::from(low)];
    // Values are below 16 or `NONE`, so one comparison checks both.
    (high | low < NONE).then_some(high << 4 | low)
}

/// One byte of a text, with how it is written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum EncodedUnit {
    Raw(u8),
    Escaped(u8),
    /// A `%` that does not begin an escape.
    LonePercent,
}

/// An iterator over the bytes of a text, holding the bytes that are still to be read.
pub(super) struct EncodedUnits<'a>(pub(super) &'a [u8]);

impl Iterator for EncodedUnits<'_> {
    type Item = EncodedUnit;

    #[inline]
    fn next(&mut self) -> Option<EncodedUnit> {
        let (&byte, after) = self.0.split_first()?;
        self.0 = after;
        if byte != b'%' {
            return Some(EncodedUnit::Raw(byte));
        }
        let Some(value) = hex_pair(after) else {
            return Some(EncodedUnit::LonePercent);
        };
        self.0 = &after[2..];
        Some(EncodedUnit::Escaped(value))
    }
}

/// Returns whether a text contains a `%` that does not begin an escape.
pub(crate) fn has_lone_percent(text: &[u8]) -> bool {
    memchr::memchr_iter(b'%', text).any(|at| hex_pair(&text[at + 1..]).is_none())
}

/// Returns whether a lone `%` in a pattern is the beginning of an escape, given the text after it.
pub(super) fn begins_escape(rest: &[u8], is_open: bool) -> bool {
    let ends = |rest: &[u8]| rest.first().map_or(is_open, |&byte| byte == b'*');
    match rest {
        [digit, after @ ..] if digit.is_ascii_hexdigit() => ends(after),
        _ => ends(rest),
    }
}

/// Encodes the beginning of an escape, a lone `%` and the digit that may follow it, and returns the text after it.
pub(super) fn encode_begun_escape(rest: &[u8]) -> ([u8; 4], &[u8]) {
    match rest {
        [digit, after @ ..] if digit.is_ascii_hexdigit() => {
            ([b'%', digit.to_ascii_uppercase(), 0, 2], after)
        }
        _ => ([b'%', 0, 0, 1], rest),
    }
}

/// Returns the position of the `%` of each cut escape, one that has only the first of its two digits.
pub(super) fn cut_escapes(text: &[u8]) -> impl Iterator<Item = usize> + '_ {
    let is_cut = |at: &usize| match &text[at + 1..] {
        // A second digit that is itself escaped would otherwise read as the end of this escape.
        [digit, b'%', after @ ..] => {
            digit.is_ascii_hexdigit()
                && !hex_pair(after).is_some_and(|byte| byte.is_ascii_hexdigit())
        }
        [digit, after, ..] => digit.is_ascii_hexdigit() && !after.is_ascii_hexdigit(),
        [digit] => digit.is_ascii_hexdigit(),
        [] => false,
    };
    memchr::memchr_iter(b'%', text).filter(is_cut)
}
