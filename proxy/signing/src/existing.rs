//! The signatures that a client's request already has.

use sfv::{Dictionary, FieldType as _, InnerList, Item, ListEntry, Parser};
use wayleave_http_wire::field_pairs::{FieldPair, is_named, values};

use super::agent::SigningAgent;
use super::settings::{SIGNATURE, SIGNATURE_AGENT, SIGNATURE_INPUT, TAG};

/// The signatures in a request, and the agents that they name.
#[derive(Debug, Default)]
pub(super) struct ExistingSignatures {
    pub(super) agent: AgentField,
    inputs: Dictionary,
    signatures: Dictionary,
}

/// The field `Signature-Agent`.
#[derive(Debug, Default)]
pub(super) enum AgentField {
    #[default]
    None,
    /// One string for all signatures, as in earlier versions of the draft.
    Whole(Item),
    /// A dictionary with a member for each signature.
    Members(Dictionary),
}

/// Returns the client's three signature fields without signatures of agents other than `own`, and the number removed. `None` if
/// nothing had to be removed.
///
/// A client must not sign as another agent through this proxy. Fields that cannot be parsed could name any agent, so they are
/// removed.
pub fn without_foreign_signatures(
    fields: &[FieldPair<'_>],
    own: &SigningAgent,
) -> Option<([Option<String>; 3], u64)> {
    if !fields.iter().any(|(field, _)| is_named(field, SIGNATURE_AGENT)) {
        return None;
    }
    let Some(mut existing) = ExistingSignatures::parse(fields) else {
        return Some(([None, None, None], 1));
    };
    let removed = existing.remove_foreign(own);
    (removed > 0).then(|| (existing.fields(), removed))
}

impl ExistingSignatures {
    /// Parses the three fields. `None`: one is malformed, so that no receiver could parse anything added to it.
    pub(super) fn parse(fields: &[FieldPair<'_>]) -> Option<Self> {
        let dictionary = |name: &str| match joined_lines(fields, name) {
            Some(text) => Parser::new(&text).parse::<Dictionary>().ok(),
            None => Some(Dictionary::new()),
        };
        // A String begins with a quote, a Dictionary never does (RFC 9651).
        let agent = match joined_lines(fields, SIGNATURE_AGENT) {
            None => AgentField::None,
            Some(text) if text.starts_with('"') => {
                AgentField::Whole(Parser::new(&text).parse().ok()?)
            }
            Some(text) => AgentField::Members(Parser::new(&text).parse().ok()?),
        };
        Some(Self {
            agent,
            inputs: dictionary(SIGNATURE_INPUT)?,
            signatures: dictionary(SIGNATURE)?,
        })
    }

    /// Returns whether a signature has this label.
    pub(super) fn has_label(&self, label: &str) -> bool {
        let is_agents = match &self.agent {
            AgentField::Members(members) => members.contains_key(label),
            AgentField::Whole(_) | AgentField::None => false,
        };
        is_agents || self.inputs.contains_key(label) || self.signatures.contains_key(label)
    }

    /// Removes the signatures of other agents than `own`, and returns their number.
    fn remove_foreign(&mut self, own: &SigningAgent) -> u64 {
        let is_own = |item: &Item| {
            let uri = item.bare_item.as_string().map(sfv::StringRef::as_str);
            uri.is_some_and(|uri| own.is_named_by(uri))
        };
        let foreign: Vec<String> = match &mut self.agent {
            AgentField::None => return 0,
            AgentField::Whole(item) if is_own(item) => return 0,
            AgentField::Whole(_) => {
                self.agent = AgentField::None;
                Vec::new()
            }
            AgentField::Members(members) => {
                let is_own = |entry: &ListEntry| match entry {
                    ListEntry::Item(item) => is_own(item),
                    ListEntry::InnerList(_) => false,
                };
                let foreign: Vec<_> = members
                    .iter()
                    .filter(|(_, entry)| !is_own(entry))
                    .map(|(key, _)| key.as_str().to_owned())
                    .collect();
                if foreign.is_empty() {
                    return 0;
                }
                members.retain(|key, _| !foreign.iter().any(|name| name == key.as_str()));
                foreign
            }
        };
        let is_kept = |label: &sfv::Key, entry: &ListEntry| {
            let is_foreign = foreign.iter().any(|name| name == label.as_str());
            !is_foreign && !matches!(entry, ListEntry::InnerList(list) if claims(list, &foreign))
        };
        // One removed without a signature counts as well: it is a claim.
        let before = self.inputs.len();
        self.inputs.retain(|label, entry| is_kept(label, entry));
        let removed = before - self.inputs.len();
        let inputs = &self.inputs;
        self.signatures.retain(|label, _| inputs.contains_key(label));
        removed.max(foreign.len()).max(1) as u64
    }

    /// Returns the values of the three fields.
    fn fields(&self) -> [Option<String>; 3] {
        let agent = match &self.agent {
            AgentField::None => None,
            AgentField::Whole(item) => Some(item.serialize()),
            AgentField::Members(members) => members.serialize(),
        };
        [agent, self.inputs.serialize(), self.signatures.serialize()]
    }
}

/// Returns whether a signature claims a foreign agent: it covers its member or the whole field, or it is of this profile and
/// the whole field was foreign.
fn claims(list: &InnerList, foreign: &[String]) -> bool {
    let covers = |item: &Item| {
        let name = item.bare_item.as_string().map(sfv::StringRef::as_str);
        let key = item.params.get("key").and_then(|key| key.as_string());
        name == Some(SIGNATURE_AGENT)
            && key.is_none_or(|key| foreign.iter().any(|name| name == key.as_str()))
    };
    let is_of_profile = list
        .params
        .get("tag")
        .and_then(|tag| tag.as_string())
        .is_some_and(|tag| tag.as_str() == TAG);
    list.items.iter().any(covers) || foreign.is_empty() && is_of_profile
}

/// Returns all lines of a field as one value (RFC 9110 section 5.3).
pub(super) fn joined_lines(fields: &[FieldPair<'_>], name: &str) -> Option<String> {
    let lines: Vec<_> =
        values(fields, name).map(|value| String::from_utf8_lossy(value.trim_ascii())).collect();
    (!lines.is_empty()).then(|| lines.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::KeyDiscovery;

    fn bot(text: &str, discovery: KeyDiscovery) -> SigningAgent {
        let url = SigningAgent::parse_url(text, discovery).unwrap();
        SigningAgent::new(url, discovery, Vec::new())
    }

    #[test]
    fn another_agent_on_the_same_host_is_foreign() {
        let own = bot("https://bot.example/search", KeyDiscovery::Uri);
        let removed = |agent: &str| {
            let fields: [FieldPair<'_>; 1] = [(b"Signature-Agent", agent.as_bytes())];
            without_foreign_signatures(&fields, &own).map(|(_, removed)| removed)
        };
        assert_eq!(removed(r#"a="https://bot.example/search""#), None);
        assert_eq!(removed(r#"a="https://bot.example/train""#), Some(1));
        assert_eq!(removed(r#"a="https://bot.example""#), Some(1));
    }

    fn left(agent: &str, input: &str, signature: &str) -> Option<([Option<String>; 3], u64)> {
        let fields: [FieldPair<'_>; 3] = [
            (b"Signature-Agent", agent.as_bytes()),
            (b"Signature-Input", input.as_bytes()),
            (b"signature", signature.as_bytes()),
        ];
        without_foreign_signatures(&fields, &bot("https://bot.example", KeyDiscovery::Origin))
    }

    #[test]
    fn own_and_unclaimed_signatures_are_kept() {
        let input = r#"a=("@authority" "signature-agent";key="a");tag="web-bot-auth""#;
        for agent in [r#"a="https://bot.example""#, r#""https://BOT.example/""#] {
            assert_eq!(left(agent, input, "a=:AAAA:"), None, "{agent}");
        }
        let fields: [FieldPair<'_>; 1] = [(b"signature-input", b"a=()")];
        let own = bot("https://bot.example", KeyDiscovery::Origin);
        assert_eq!(without_foreign_signatures(&fields, &own), None);
    }

    #[test]
    fn a_foreign_member_goes_with_its_signature_alone() {
        let agent = r#"a="https://bot.example", b="https://other.example""#;
        let input =
            r#"a=("signature-agent";key="a"), x=("signature-agent";key="b"), c=("@method")"#;
        let (fields, removed) = left(agent, input, "a=:AAAA:, x=:BBBB:, c=:CCCC:").unwrap();
        assert_eq!(removed, 1);
        let [agent, input, signature] = fields.map(Option::unwrap);
        assert_eq!(agent, r#"a="https://bot.example""#);
        assert_eq!(input, r#"a=("signature-agent";key="a"), c=("@method")"#);
        assert_eq!(signature, "a=:AAAA:, c=:CCCC:");
    }

    #[test]
    fn a_foreign_string_goes_with_all_that_rest_on_it() {
        let input = r#"a=("signature-agent"), b=("@authority");tag="web-bot-auth", c=("@method")"#;
        let (fields, removed) =
            left(r#""https://other.example""#, input, "a=:AAAA:, b=:BBBB:, c=:CCCC:").unwrap();
        assert_eq!(removed, 2);
        let rest = [r#"c=("@method")"#, "c=:CCCC:"].map(|text| Some(text.to_owned()));
        assert_eq!(fields[0], None);
        assert_eq!(fields[1..], rest);
    }

    #[test]
    fn unreadable_signatures_are_removed() {
        let gone = Some(([None, None, None], 1));
        assert_eq!(left("a=\"https", "a=()", "a=:AAAA:"), gone);
        assert_eq!(left(r#"a="https://bot.example""#, "a=(", "a=:AAAA:"), gone);
        let (fields, removed) = left("a=token, b=(1)", "a=(), c=()", "a=:AAAA:, c=:AAAA:").unwrap();
        assert_eq!((removed, &fields[0]), (2, &None));
    }
}
