//! `Robots-Tag`: robots meta rules as an RFC 9651 list (draft-illyes-repext-03). Each member is a product token, or `*` for all
//! crawlers, with rules as its parameters. The rules of `*` and of the crawler's own token add up.

use std::borrow::Cow;

use jiff::Timestamp;
use sfv::{BareItem, FieldType as _, Item, List, ListEntry, Parser};
use wayleave_robots_txt::ProductToken;

use super::robots_meta::{MetaRule, is_known};

/// The longest value that is read, in bytes; the draft asks for at least 8 KiB. Only the members of a longer value that fit are
/// read.
pub(crate) const MAX_BYTES: usize = 8 * 1024;

/// A member's rules, and the member as it is cited.
pub(super) struct TaggedRules {
    pub(super) rules: Vec<MetaRule>,
    pub(super) member: String,
}

/// Returns the rules of the members that apply to a crawler. `value` is all lines of the field, joined by commas. A value that
/// is not a list states nothing (RFC 9651 section 4.2).
pub(super) fn rules(value: &str, tokens: &[ProductToken]) -> Vec<TaggedRules> {
    let Some(list) = read(value) else {
        return Vec::new();
    };
    let items = list.iter().filter_map(|entry| match entry {
        ListEntry::Item(item) => Some(item),
        ListEntry::InnerList(_) => None,
    });
    items
        .filter(|item| names_crawler(&item.bare_item, tokens))
        .map(|item| TaggedRules { rules: rules_of(item), member: item.serialize() })
        .collect()
}

/// Parses the part of a value within the limit; `None` if it is not a list.
pub(crate) fn read(value: &str) -> Option<List> {
    let value = lower_case(whole_members(value));
    Parser::new(&*value).parse::<List>().ok()
}

/// Returns the parameters of an item that are rules.
fn rules_of(item: &Item) -> Vec<MetaRule> {
    let rules = item.params.iter().filter_map(|(name, value)| {
        let value = rule_value(value)?;
        is_known(name.as_str()).then(|| MetaRule { name: name.as_str().to_owned(), value })
    });
    rules.collect()
}

/// Returns the value of a rule as `X-Robots-Tag` would write it; `None` for a rule that is switched off.
fn rule_value(value: &BareItem) -> Option<String> {
    Some(match value {
        BareItem::Boolean(false) => return None,
        BareItem::Boolean(true) => String::new(),
        BareItem::Integer(number) => number.to_string(),
        BareItem::Token(token) => token.as_str().to_owned(),
        BareItem::String(text) => text.as_str().to_owned(),
        BareItem::DisplayString(text) => text.clone(),
        BareItem::Date(at) => Timestamp::from_second(at.unix_seconds().into()).ok()?.to_string(),
        BareItem::Decimal(_) | BareItem::ByteSequence(_) => "?".to_owned(),
    })
}

/// Returns whether a member applies to every crawler, or to the one with these tokens. Some servers write the name as a String.
fn names_crawler(name: &BareItem, tokens: &[ProductToken]) -> bool {
    let name = match name {
        BareItem::Token(token) => token.as_str(),
        BareItem::String(text) => text.as_str(),
        _ => return false,
    };
    // A version is ignored.
    let product = name.split('/').next().unwrap_or_default();
    product == "*" || tokens.iter().any(|token| token.as_str().eq_ignore_ascii_case(product))
}

/// Returns a value up to the comma after its last member that is whole within the limit.
fn whole_members(value: &str) -> &str {
    if value.len() <= MAX_BYTES {
        return value;
    }
    let mut end = 0;
    let mut is_quoted = false;
    let mut is_escaped = false;
    let mut depth = 0_u32;
    for (at, byte) in value.bytes().enumerate().take(MAX_BYTES + 1) {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_quoted => is_escaped = true,
            b'"' => is_quoted = !is_quoted,
            b'(' if !is_quoted => depth += 1,
            b')' if !is_quoted => depth = depth.saturating_sub(1),
            b',' if !is_quoted && depth == 0 => end = at,
            _ => {}
        }
    }
    &value[..end]
}

/// Returns a value in lower case except for its strings: rules are written in any case, keys of RFC 9651 are not.
fn lower_case(value: &str) -> Cow<'_, str> {
    if !value.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return Cow::Borrowed(value);
    }
    let mut is_quoted = false;
    let mut is_escaped = false;
    let lowered = value.chars().map(|c| {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' if is_quoted => is_escaped = true,
            '"' => is_quoted = !is_quoted,
            _ if !is_quoted => return c.to_ascii_lowercase(),
            _ => {}
        }
        c
    });
    Cow::Owned(lowered.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_value_is_cut_after_its_last_whole_member() {
        let rest = "a".repeat(MAX_BYTES + 1);
        for members in [
            "",
            "*;noindex,",
            r#"*;a="x, \", y","#,
            "(a b, c);noindex,",
            r#"("a)" b, c);noindex,"#,
            r#"*;a="(",b,"#,
        ] {
            let value = format!("{members}{rest}");
            assert_eq!(whole_members(&value), members.trim_end_matches(','), "{members}");
        }
        let list_is_cut = format!(r#"*;noindex,("a)" b, {rest}"#);
        assert_eq!(whole_members(&list_is_cut), "*;noindex");
        assert_eq!(whole_members("a, b"), "a, b");
    }
}
