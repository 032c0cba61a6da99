//! The filter of decisions, which the list, the live stream and the download have in common.

use serde::Deserialize;
use utoipa::ToSchema;
use wayleave_decision::RequestOutcome;
use wayleave_record::AskedVia;

/// The outcome of a request.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
// An enum rather than text, so that the description of the API lists the words and an error names them.
pub(super) enum OutcomeWord {
    Forwarded,
    Observed,
    Refused,
    Failed,
    Tunnelled,
}

impl OutcomeWord {
    fn outcome(self) -> RequestOutcome {
        match self {
            Self::Forwarded => RequestOutcome::Forwarded,
            Self::Observed => RequestOutcome::Observed,
            Self::Refused => RequestOutcome::Refused,
            Self::Failed => RequestOutcome::Failed,
            Self::Tunnelled => RequestOutcome::Tunnelled,
        }
    }

    pub(super) fn outcomes(words: &[Self]) -> Vec<RequestOutcome> {
        words.iter().map(|word| word.outcome()).collect()
    }
}

/// The way in which a request came to be decided.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum ViaWord {
    Gateway,
}

impl ViaWord {
    pub(super) fn asked(self) -> AskedVia {
        match self {
            Self::Gateway => AskedVia::Gateway,
        }
    }
}

/// Declares the parameters of an endpoint: the filter of decisions, with the endpoint's own before and after it. A macro,
/// because with `serde(flatten)` a structure cannot refuse unknown parameters.
macro_rules! decision_parameters {
    ($name:ident { $($before:tt)* } { $($after:tt)* }) => {
        #[derive(Debug, Deserialize, IntoParams)]
        #[serde(deny_unknown_fields)]
        #[into_params(parameter_in = Query)]
        pub(super) struct $name {
            $($before)*
            /// The crawler's configured name; `unnamed`, or `asserted`: of clients that match none.
            #[param(value_type = Option<String>)]
            crawler: Option<ChosenCrawler>,
            /// Their outcome; repeated, one of several.
            #[serde(default)]
            #[param(inline, required = false)]
            outcome: Vec<OutcomeWord>,
            /// Their reason, a word of docs/metrics.md.
            reason: Option<String>,
            /// The host of their origin, without a port.
            host: Option<String>,
            /// The rule that decided, by its name in `/v1/overview`, or a reason; repeated, one of several.
            #[serde(default)]
            #[param(required = false)]
            rule: Vec<String>,
            /// Text that the URL, the rule, the reason, the details, the ID, the client or a token contains, ignoring case.
            q: Option<String>,
            /// `gateway`: only requests about which another proxy asked.
            #[param(inline)]
            via: Option<ViaWord>,
            $($after)*
        }

        impl $name {
            /// Returns the filter, confined to the team of the request's token.
            fn query(&self, scope: &TeamScope) -> DecisionQuery {
                DecisionQuery {
                    crawler: self.crawler.clone(),
                    owner: scope.team().map(str::to_owned),
                    outcomes: OutcomeWord::outcomes(&self.outcome),
                    reason: self.reason.clone(),
                    host: self.host.clone(),
                    rules: self.rule.clone(),
                    text: self.q.clone(),
                    via: self.via.map(ViaWord::asked),
                    ..DecisionQuery::default()
                }
            }
        }
    };
}

pub(super) use decision_parameters;
