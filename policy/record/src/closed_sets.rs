//! The sets of words that a record's members are from.

use wayleave_decision::{
    CrawlerProof, EnforcementMode, Reason, RequestOutcome, RuleAction, SubresourceKind, TargetScope,
};
use wayleave_notation::{EdgeRefusal, Oddity};
use wayleave_robots_txt::{AccessReason, AccessVerdict, Dialect};
use wayleave_usage_preferences::{Preference, PreferenceSource, PreferenceStage, Purpose};

use super::word::ClosedSet;

/// A set whose type has the words already, with the list of its members.
macro_rules! closed_set {
    ($($set:ident: $all:expr;)+) => {
        $(impl ClosedSet for $set {
            const ALL: &'static [Self] = $all;

            fn word(self) -> &'static str {
                self.as_str()
            }
        })+
    };
    ($(#[$meta:meta])* $set:ident { $($(#[$doc:meta])* $member:ident = $word:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $set {
            $($(#[$doc])* $member,)+
        }

        impl ClosedSet for $set {
            const ALL: &'static [Self] = &[$(Self::$member),+];

            fn word(self) -> &'static str {
                match self {
                    $(Self::$member => $word,)+
                }
            }
        }
    };
}

closed_set! {
    RequestOutcome: Self::ALL;
    Reason: Self::ALL;
    EnforcementMode: &[Self::Enforce, Self::Observe];
    CrawlerProof: &[Self::Certificate, Self::Password, Self::Address];
    SubresourceKind: Self::ALL;
    // A refusal that the law demands is logged as one.
    RuleAction: &[Self::Refuse, Self::Allow];
    EdgeRefusal: &Self::ALL;
    Oddity: &Self::ALL;
    Dialect: Self::ALL;
    AccessVerdict: &[Self::Allow, Self::Disallow];
    Preference: &[Self::Allow, Self::Refuse, Self::Unstated];
    PreferenceStage: &[Self::Before, Self::Head, Self::Body];
    Purpose: &Self::ALL;
    PreferenceSource: &[
        Self::Rule,
        Self::Disallow,
        Self::ContentUsage,
        Self::ContentSignal,
        Self::AiTrainingRule,
        Self::PolicyToken,
        Self::Tdmrep,
        Self::Rsl,
        Self::RobotsMeta,
        Self::Payment,
    ];
    AccessReason: &[
        Self::Rule,
        Self::NoMatchingRule,
        Self::NoMatchingGroup,
        Self::RobotsTxtItself,
        Self::Unavailable,
        Self::RedirectLost,
        Self::Unreachable,
        Self::TooCostly,
    ];
}

impl ClosedSet for TargetScope {
    const ALL: &'static [Self] = &[Self::RobotsTxt, Self::Server, Self::EveryPath, Self::Bypass];

    /// Returns the scope's name in the log. A path has none, and its member is left out.
    fn word(self) -> &'static str {
        self.log_name().unwrap_or("path")
    }
}

closed_set! {
    /// Whether a crawler is configured.
    RecordedIdentity {
        /// The configuration has a `[[crawler]]` for the request.
        Known = "known",
        /// The client alone says who it is.
        Asserted = "asserted",
    }
}

closed_set! {
    /// The origin of an answer, other than the request's origin.
    AnswerSource {
        /// The copy of robots.txt that decides.
        Copy = "copy",
        /// The robots.txt that the configuration states for the origin.
        Pinned = "pinned",
    }
}

closed_set! {
    /// The way in which a request came to be decided, if not by the proxy itself.
    AskedVia {
        /// Another proxy asked about it, and sends it itself.
        Gateway = "gateway",
    }
}

closed_set! {
    /// The signature of a request of a crawler that has a key.
    RequestSignature {
        /// It was signed with that key.
        Signed = "signed",
        /// It could not be signed, because the tunnel is not intercepted.
        Tunnel = "tunnel",
    }
}

closed_set! {
    /// The way in which payment is asked for.
    PaymentScheme {
        /// Cloudflare's pay per crawl: `crawler-price`.
        Cloudflare = "cloudflare",
        /// x402: `PAYMENT-REQUIRED`, or in version 1 the body.
        X402 = "x402",
        /// A licence: `WWW-Authenticate: License` (RSL 1.0).
        Rsl = "rsl",
    }
}

closed_set! {
    /// The result of fetching robots.txt.
    RobotsAccess {
        /// There are rules.
        Successful = "successful",
        /// There are none (4xx).
        Unavailable = "unavailable",
        /// Redirects led nowhere.
        RedirectLost = "redirect-lost",
        /// It could not be fetched.
        Unreachable = "unreachable",
        /// It could not be fetched for a long time, and there never was a copy.
        LongUnreachable = "long-unreachable",
        /// It could not be fetched for so long that the copy no longer decides in most dialects.
        Lapsed = "lapsed",
        /// It could not be fetched for even longer.
        LongLapsed = "long-lapsed",
        /// It was not fetched: the configuration states the rules.
        Pinned = "pinned",
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use super::*;

    fn each_word_names_its_member<T: ClosedSet + Debug>() {
        assert!(!T::ALL.is_empty());
        for member in T::ALL {
            assert_eq!(T::named(member.word()), Some(*member));
        }
    }

    #[test]
    fn words_name_their_members() {
        each_word_names_its_member::<RequestOutcome>();
        each_word_names_its_member::<Reason>();
        each_word_names_its_member::<EnforcementMode>();
        each_word_names_its_member::<CrawlerProof>();
        each_word_names_its_member::<SubresourceKind>();
        each_word_names_its_member::<RuleAction>();
        each_word_names_its_member::<EdgeRefusal>();
        each_word_names_its_member::<Oddity>();
        each_word_names_its_member::<Dialect>();
        each_word_names_its_member::<AccessVerdict>();
        each_word_names_its_member::<AccessReason>();
        each_word_names_its_member::<Preference>();
        each_word_names_its_member::<PreferenceStage>();
        each_word_names_its_member::<PreferenceSource>();
        each_word_names_its_member::<Purpose>();
        each_word_names_its_member::<TargetScope>();
        each_word_names_its_member::<RobotsAccess>();
        each_word_names_its_member::<PaymentScheme>();
        each_word_names_its_member::<AskedVia>();
    }
}
