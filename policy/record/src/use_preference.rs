//! Usage preferences as they appear in the log, the API and refusals.

use std::time::SystemTime;

use wayleave_decision::{DocumentSeen, StatedPreference};
use wayleave_notation::{Sha256Digest, rfc3339};
use wayleave_robots_txt::excerpt;
use wayleave_usage_preferences::{
    Preference, PreferenceSource, PreferenceStage, Purpose, PurposePreference,
};

use super::word::Word;

record! {
    /// The site's preference about one of the crawler's purposes.
    #[derive(Clone, Debug)]
    pub struct UsePreference {
        /// `search`, `ai-input`, `train-ai`, `archive`, `tdm` or `other`.
        #[schema(value_type = String)]
        purpose: Word<Purpose>,
        /// `allow`, `refuse` or `unstated`.
        #[schema(value_type = String)]
        preference: Word<Preference>,
        /// The family of the statement that decides, such as `content-usage`.
        #[schema(value_type = Option<String>)]
        source?: Option<Word<PreferenceSource>>,
        /// The place of the statement, such as `robots.txt:17`.
        carrier?: Option<String>,
        /// The statement as written; its beginning with an ellipsis if it is long.
        statement?: Option<String>,
        /// The clause of the specification that it is read by.
        clause?: Option<String>,
        /// The policy or licence that it refers to.
        policy?: Option<String>,
        /// The stage at which it is known: `before` the request is sent, or with the `head` or the beginning of the `body` of the
        /// response.
        #[schema(value_type = Option<String>)]
        stage?: Option<Word<PreferenceStage>>,
        /// The document that contains the statement, unless that is the origin's robots.txt.
        document?: Option<Box<DocumentRecord>>,
    }
}

record! {
    /// A document other than robots.txt, as it was when it decided.
    #[derive(Clone, Debug, PartialEq, Eq, Hash)]
    #[schema(as = DocumentSeen)]
    pub struct DocumentRecord {
        /// The URL that was fetched.
        url: String,
        /// Its SHA-256, if it could be fetched.
        #[schema(value_type = Option<String>)]
        sha256?: Option<Sha256Digest>,
        /// The time at which it was fetched or last revalidated.
        #[serde(serialize_with = "rfc3339::serialize_some", deserialize_with = "rfc3339::deserialize_some")]
        #[schema(value_type = Option<String>, format = DateTime)]
        fetched_at?: Option<SystemTime>,
        /// Present if it is longer than what is read of it.
        #[schema(required = false)]
        cut?: bool,
    }
}

impl UsePreference {
    /// Returns whether this preference, derived from archived documents, is the recorded one: for the same purpose, by the same
    /// statement.
    pub fn agrees_with(&self, recorded: &Self) -> bool {
        self.purpose == recorded.purpose
            && self.preference == recorded.preference
            && self.source == recorded.source
            && self.carrier == recorded.carrier
            && self.states_the_same_as(recorded)
    }

    /// Returns whether the statements are the same. Why a licence could not be had is recorded, but not archived.
    fn states_the_same_as(&self, recorded: &Self) -> bool {
        let (Some(derived), Some(statement)) = (&self.statement, &recorded.statement) else {
            return self.statement == recorded.statement;
        };
        let is_missing =
            recorded.document.as_ref().is_none_or(|document| document.sha256.is_none());
        let is_licence = self.source == Some(PreferenceSource::Rsl.into());
        match statement.strip_prefix(derived.as_str()) {
            Some(cause) if is_licence && is_missing => cause.is_empty() || cause.starts_with(" ("),
            rest => rest == Some(""),
        }
    }
}

impl From<&PurposePreference> for UsePreference {
    fn from(preference: &PurposePreference) -> Self {
        let statement = preference.statement.as_ref();
        Self {
            purpose: preference.purpose.into(),
            preference: preference.preference.into(),
            source: statement.map(|statement| statement.source.into()),
            carrier: statement.map(|statement| statement.carrier.to_string()),
            statement: statement.map(|statement| statement.text.clone()),
            clause: statement.map(|statement| statement.clause.to_owned()),
            // Cut like the statement: sites choose how long it is.
            policy: statement
                .and_then(|statement| statement.policy.as_deref())
                .map(|policy| excerpt(policy).into_owned()),
            stage: statement.map(|statement| statement.stage.into()),
            document: None,
        }
    }
}

impl From<&StatedPreference> for UsePreference {
    fn from(stated: &StatedPreference) -> Self {
        let record = Self::from(&stated.preference);
        Self {
            stage: stated.stage.map(Into::into).or(record.stage),
            document: stated.document.as_deref().map(|document| Box::new(document.into())),
            ..record
        }
    }
}

impl From<&DocumentSeen> for DocumentRecord {
    fn from(document: &DocumentSeen) -> Self {
        Self {
            url: document.url.clone(),
            sha256: document.sha256.map(Sha256Digest),
            fetched_at: document.fetched_at,
            cut: document.is_cut,
        }
    }
}
