//! The combination of all statements for the declared purposes.

use super::{Declaration, Purpose, Source, Stage, Statement};

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
    /// `allow`, `refuse` or `unstated`.
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
pub struct Say {
    /// The purpose.
    pub purpose: Purpose,
    /// The combined preference.
    pub preference: Preference,
    /// The deciding statement; `None` if nothing is stated.
    pub statement: Option<Statement>,
}

/// The preferences for all purposes that a crawler declares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// The preference for all purposes together: one refusal refuses, and a permission needs all purposes to be
    /// allowed, since one fetch serves them all.
    pub preference: Preference,
    /// The purpose that decides: the one refused first, else the first.
    pub purpose: Option<Purpose>,
    /// The preference for each purpose.
    pub each: Vec<Say>,
    /// The earliest stage at which a refusal is known, else the latest stage reached.
    pub stage: Stage,
}

impl Judgement {
    /// Combines statements. Across families any refusal refuses, else any permission allows.
    pub(super) fn of(statements: &[Statement], declaration: &Declaration, heard: Stage) -> Self {
        let purposes = declaration.purposes.iter();
        let each: Vec<Say> = purposes.map(|purpose| say(statements, purpose)).collect();
        let is = |preference| move |it: &&Say| it.preference == preference;
        let refused = each.iter().filter(is(Preference::Refuse));
        let first = refused.min_by_key(|it| it.statement.as_ref().map(|it| it.stage));
        let unstated = each.iter().find(is(Preference::Unstated));
        // A refusal decides before a purpose without statements, and that before permissions.
        let deciding = first.or(unstated).or(each.first());
        let preference = match deciding.map_or(Preference::Unstated, |it| it.preference) {
            Preference::Unstated if declaration.refuse_unstated && unstated.is_some() => {
                Preference::Refuse
            }
            preference => preference,
        };
        let stage = first
            .and_then(|it| it.statement.as_ref())
            .map_or(heard, |it| it.stage);
        Self {
            preference,
            purpose: deciding.map(|it| it.purpose),
            stage,
            each,
        }
    }

    /// Returns the deciding statement; `None` if nothing is stated.
    #[must_use]
    pub fn statement(&self) -> Option<&Statement> {
        let deciding = self.each.iter().find(|it| Some(it.purpose) == self.purpose);
        deciding?.statement.as_ref()
    }
}

fn say(statements: &[Statement], purpose: Purpose) -> Say {
    let refusing = statements.iter().filter(|it| it.refuses.contains(purpose));
    let refusing = refusing.min_by_key(|it| it.stage);
    // A permission by the operator's own rule overrides all statements.
    let own = statements
        .iter()
        .find(|it| it.source == Source::Rule && it.allows.contains(purpose));
    let allowing = || statements.iter().find(|it| it.allows.contains(purpose));
    let (preference, statement) = match (own, refusing) {
        (Some(own), _) => (Preference::Allow, Some(own)),
        (None, Some(refusing)) => (Preference::Refuse, Some(refusing)),
        (None, None) => match allowing() {
            Some(allowing) => (Preference::Allow, Some(allowing)),
            None => (Preference::Unstated, None),
        },
    };
    Say {
        purpose,
        preference,
        statement: statement.map(Statement::excerpt),
    }
}
