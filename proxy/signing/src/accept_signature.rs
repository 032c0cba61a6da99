//! Parses `Accept-Signature`, by which an origin requests a signature (RFC 9421 section 5).

use sfv::{Dictionary, FieldType as _, InnerList, Item, ListEntry, Parser};
use wayleave_http_wire::field_pairs::FieldPair;

use super::existing::joined_lines;
use super::settings::{ALGORITHM, TAG};

/// The field's name, in lower case.
const ACCEPT_SIGNATURE: &str = "accept-signature";

/// The limits of a request for a signature: the most components, and the most bytes of them, because it is kept for each origin.
const MAX_COMPONENTS: usize = 16;
const MAX_BYTES: usize = 2048;

/// A signature that an origin requests and that this profile can give.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SignatureRequest {
    pub(super) label: String,
    /// The components to cover in addition to those of the profile.
    pub(super) components: Vec<Item>,
    /// The nonce, valid for one signature.
    pub(super) nonce: Option<String>,
    pub(super) keyid: Option<String>,
}

impl SignatureRequest {
    /// Returns the first requested signature that matches this profile.
    pub fn from_fields(fields: &[FieldPair<'_>]) -> Option<Self> {
        let text = joined_lines(fields, ACCEPT_SIGNATURE)?;
        let members = Parser::new(&text).parse::<Dictionary>().ok()?;
        // The others may be for other tags or algorithms; one that is too long is skipped as well.
        members.iter().find_map(|(label, entry)| match entry {
            ListEntry::InnerList(list) => Self::parse(label.as_str(), list),
            ListEntry::Item(_) => None,
        })
    }

    fn parse(label: &str, list: &InnerList) -> Option<Self> {
        let parameter = |name: &str| {
            let value = list.params.get(name)?.as_string()?;
            Some(value.as_str().to_owned())
        };
        let is_or_absent = |name: &str, expected: &str| match list.params.get(name) {
            None => true,
            Some(value) => value.as_string().is_some_and(|value| value.as_str() == expected),
        };
        // A request that names neither leaves the choice to the signer.
        if !is_or_absent("tag", TAG) || !is_or_absent("alg", ALGORITHM) {
            return None;
        }
        let requested = Self {
            label: label.to_owned(),
            components: without_repetitions(&list.items)?,
            nonce: parameter("nonce"),
            keyid: parameter("keyid"),
        };
        (requested.stored_bytes() <= MAX_BYTES).then_some(requested)
    }

    /// Returns the size of its texts in bytes.
    fn stored_bytes(&self) -> usize {
        let components = self.components.iter().map(|item| item.serialize().len());
        let parameters = [&self.nonce, &self.keyid].into_iter().flatten();
        self.label.len() + components.sum::<usize>() + parameters.map(String::len).sum::<usize>()
    }

    /// Returns whether it has a nonce, so that even a request that was signed has to be signed again.
    pub fn has_nonce(&self) -> bool {
        self.nonce.is_some()
    }

    /// Returns the part that applies to later requests as well.
    pub(crate) fn without_nonce(self) -> Self {
        Self { nonce: None, ..self }
    }
}

/// Returns the components without repetitions, unless there are too many.
fn without_repetitions(items: &[Item]) -> Option<Vec<Item>> {
    let mut components: Vec<Item> = Vec::new();
    for item in items {
        // A signature covers a component only once (RFC 9421 section 2).
        if components.contains(item) {
            continue;
        }
        if components.len() == MAX_COMPONENTS {
            return None;
        }
        components.push(item.clone());
    }
    Some(components)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requested(value: &str) -> Option<SignatureRequest> {
        SignatureRequest::from_fields(&[(b"Accept-Signature", value.as_bytes())])
    }

    #[test]
    fn first_request_of_this_profile_counts() {
        let value = r#"a=("@method");tag="other", b=();alg="rsa-pss-sha512", c=1,
            d=("@authority" "accept");created;nonce="n";keyid="k";tag="web-bot-auth""#;
        let requested = requested(&value.replace('\n', "")).unwrap();
        assert_eq!(requested.label, "d");
        assert_eq!(requested.components.len(), 2);
        assert_eq!(requested.nonce.as_deref(), Some("n"));
        assert_eq!(requested.keyid.as_deref(), Some("k"));
        assert!(requested.has_nonce() && !requested.without_nonce().has_nonce());
    }

    #[test]
    fn components_are_kept_once_and_within_limits() {
        let list = |components: &[String]| format!("sig1=({})", components.join(" "));
        let named =
            |count: usize| -> Vec<String> { (0..count).map(|n| format!("\"x-{n}\"")).collect() };
        let repeated = requested(&list(&vec!["\"@authority\"".to_owned(); 60_000])).unwrap();
        assert_eq!(repeated.components.len(), 1);
        let most = requested(&list(&named(MAX_COMPONENTS))).unwrap();
        assert_eq!(most.components.len(), MAX_COMPONENTS);
        assert_eq!(requested(&list(&named(MAX_COMPONENTS + 1))), None);
        let long = "n".repeat(MAX_BYTES + 1);
        for value in [
            format!("sig1=();nonce=\"{long}\""),
            format!("sig1=();keyid=\"{long}\""),
            format!("sig1=(\"{long}\")"),
            format!("{long}=()"),
        ] {
            assert_eq!(requested(&value), None, "{}", &value[..10]);
        }
        let next = format!("a=();nonce=\"{long}\", b=()");
        assert_eq!(requested(&next).unwrap().label, "b", "the next may be given");
    }

    #[test]
    fn malformed_or_unsupported_requests_are_ignored() {
        for value in ["", "sig1", "sig1=1", "sig1=(", r#"sig1=();tag="other""#, "sig1=();tag=1"] {
            assert_eq!(requested(value), None, "{value}");
        }
        assert_eq!(SignatureRequest::from_fields(&[]), None);
    }
}
