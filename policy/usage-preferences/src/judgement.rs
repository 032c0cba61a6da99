//! The combination of all statements for the declared purposes.

use super::{CrawlerDeclaration, PreferenceSource, PreferenceStage, PreferenceStatement, Purpose};

/// The combined meaning of statements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Preference {
    /// Some source allows the use, and none refuses it.
    Allow,
    /// Some source refuses it.
    Refuse,
    /// No source states anything about it.
    Unstated,
}

impl Preference {
    /// Returns `allow`, `refuse` or `unstated`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Refuse => "refuse",
            Self::Unstated => "unstated",
        }
    }
}

/// The preference for one purpose, and the statement that decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PurposePreference {
    /// The purpose.
    pub purpose: Purpose,
    /// The combined preference.
    pub preference: Preference,
    /// The deciding statement; `None` if nothing is stated.
    pub statement: Option<PreferenceStatement>,
}

/// The preferences for all purposes that a crawler declares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreferenceJudgement {
    /// The preference for all purposes together: one refusal refuses, and a permission needs all purposes to be
    /// allowed, since one fetch serves them all.
    pub preference: Preference,
    /// The purpose that decides: the one refused first, else the first.
    pub purpose: Option<Purpose>,
    /// The preference for each purpose.
    pub by_purpose: Vec<PurposePreference>,
    /// The earliest stage at which a refusal is known, else the latest stage reached.
    pub stage: PreferenceStage,
}

impl PreferenceJudgement {
    /// Combines statements. Across families any refusal refuses, else any permission allows.
    pub(super) fn of(
        statements: &[PreferenceStatement],
        declaration: &CrawlerDeclaration,
        latest_stage: PreferenceStage,
    ) -> Self {
        let by_purpose: Vec<PurposePreference> =
            declaration.purposes.iter().map(|purpose| judge_purpose(statements, purpose)).collect();
        let is = |preference| move |it: &&PurposePreference| it.preference == preference;
        // The earliest refusal decides, so that a later stage does not change the reason.
        let first = by_purpose
            .iter()
            .filter(is(Preference::Refuse))
            .min_by_key(|judged| judged.statement.as_ref().map(|statement| statement.stage));
        let unstated = by_purpose.iter().find(is(Preference::Unstated));
        // A refusal decides before a purpose without statements, and that before permissions.
        let deciding = first.or(unstated).or(by_purpose.first());
        let preference = match deciding.map_or(Preference::Unstated, |judged| judged.preference) {
            Preference::Unstated if declaration.refuse_unstated && unstated.is_some() => {
                Preference::Refuse
            }
            preference => preference,
        };
        let stage = first
            .and_then(|judged| judged.statement.as_ref())
            .map_or(latest_stage, |statement| statement.stage);
        Self { preference, purpose: deciding.map(|judged| judged.purpose), stage, by_purpose }
    }

    /// Returns the deciding statement; `None` if nothing is stated.
    #[must_use]
    pub fn statement(&self) -> Option<&PreferenceStatement> {
        self.by_purpose
            .iter()
            .find(|judged| Some(judged.purpose) == self.purpose)?
            .statement
            .as_ref()
    }
}

fn judge_purpose(statements: &[PreferenceStatement], purpose: Purpose) -> PurposePreference {
    let mut allowing = statements.iter().filter(|statement| statement.allows.contains(purpose));
    let refusing = statements
        .iter()
        .filter(|statement| statement.refuses.contains(purpose))
        .min_by_key(|statement| statement.stage);
    // A permission by the operator's own rule overrides all statements.
    let rule = allowing.clone().find(|statement| statement.source == PreferenceSource::Rule);
    let (preference, statement) = match (rule, refusing, allowing.next()) {
        (Some(rule), ..) => (Preference::Allow, Some(rule)),
        (None, Some(refusing), _) => (Preference::Refuse, Some(refusing)),
        (None, None, Some(allowing)) => (Preference::Allow, Some(allowing)),
        (None, None, None) => (Preference::Unstated, None),
    };
    PurposePreference {
        purpose,
        preference,
        statement: statement.map(PreferenceStatement::excerpt),
    }
}
