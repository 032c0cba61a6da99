//! Usage preferences as they appear in the log, the API and refusals.

use std::borrow::Cow;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use wayleave_decision::{DocumentSeen, StatedPreference};
use wayleave_evidence::{Sha256Digest, rfc3339};
use wayleave_robots_txt::excerpt;
use wayleave_usage_preferences::{PreferenceSource, PurposePreference};

/// The site's preference about one of the crawler's purposes.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct UsePreference {
    /// `search`, `ai-input`, `train-ai`, `archive`, `tdm` or `other`.
    #[schema(value_type = String)]
    pub purpose: Cow<'static, str>,
    /// `allow`, `refuse` or `unstated`.
    #[schema(value_type = String)]
    pub preference: Cow<'static, str>,
    /// The family of the statement that decides, such as `content-usage`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub source: Option<Cow<'static, str>>,
    /// The place of the statement, such as `robots.txt:17`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub carrier: Option<String>,
    /// The statement as written; its beginning with an ellipsis if it is long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub statement: Option<String>,
    /// The clause of the specification that it is read by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clause: Option<String>,
    /// The policy or licence that it refers to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// The stage at which it is known: `before` the request is sent, or with the `head` or the beginning of the `body` of the
    /// response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub stage: Option<Cow<'static, str>>,
    /// The document that contains the statement, unless that is the origin's robots.txt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub document: Option<Box<DocumentRecord>>,
}

/// A document other than robots.txt, as it was when it decided.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[schema(as = DocumentSeen)]
pub struct DocumentRecord {
    /// The URL that was fetched.
    pub url: String,
    /// Its SHA-256, if it could be fetched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub sha256: Option<Sha256Digest>,
    /// The time at which it was fetched or last revalidated.
    #[serde(
        default,
        serialize_with = "rfc3339::serialize_some",
        deserialize_with = "rfc3339::deserialize_some",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub fetched_at: Option<SystemTime>,
    /// Present if it is longer than what is read of it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    pub cut: bool,
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
        let is_missing = recorded.document.as_ref().is_none_or(|it| it.sha256.is_none());
        let is_licence = self.source.as_deref() == Some(PreferenceSource::Rsl.as_str());
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
            purpose: preference.purpose.as_str().into(),
            preference: preference.preference.as_str().into(),
            source: statement.map(|it| it.source.as_str().into()),
            carrier: statement.map(|it| it.carrier.to_string()),
            statement: statement.map(|it| it.text.clone()),
            clause: statement.map(|it| it.clause.to_owned()),
            // Cut like the statement: sites choose how long it is.
            policy: statement
                .and_then(|it| it.policy.as_deref())
                .map(|policy| excerpt(policy).into_owned()),
            stage: statement.map(|it| it.stage.as_str().into()),
            document: None,
        }
    }
}

impl From<&StatedPreference> for UsePreference {
    fn from(stated: &StatedPreference) -> Self {
        let record = Self::from(&stated.preference);
        Self {
            stage: stated.stage.map(|stage| stage.as_str().into()).or(record.stage),
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
