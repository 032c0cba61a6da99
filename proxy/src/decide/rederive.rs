//! Makes decisions again, years later, by what their lines in the log name: the same judges, without a proxy.

use wayleave_robots_txt::{
    AccessDecision as Judged, AccessResult, Dialect, MatchContext, Origin, ProductToken, Target,
    excerpt,
};
use wayleave_usage_preferences::{PreferenceDocument, PreferenceJudgement, PreferenceQuery};

use wayleave_decision::{
    DocumentResult, TargetScope, decide_in_dialect, decide_within, documents_to_fetch,
    robots_txt_state,
};

use crate::decision_log::{DecisionRecord, DocumentRecord, FindingRecord};

/// What a request was for.
///
/// # Errors
///
/// Returns an error if that cannot be read.
pub(crate) fn asked_for(decision: &DecisionRecord) -> Result<(Target, TargetScope), String> {
    let scope = match decision.scope.as_deref() {
        None => TargetScope::Path,
        Some(word) => {
            let mut all = TargetScope::ALL.iter();
            let found = all.find(|(known, _)| *known == word);
            found.map(|(_, scope)| *scope).ok_or_else(|| unknown("scope", word))?
        }
    };
    let target = match (scope, &decision.origin) {
        (TargetScope::EveryPath | TargetScope::Bypass, Some(origin)) => {
            let origin = Origin::parse(origin).map_err(|error| format!("origin: {error}"))?;
            Target::new(origin, "/")
        }
        _ => Target::parse(&decision.url),
    };
    let target = target.map_err(|error| format!("url: {error}"))?;
    Ok((target, scope))
}

/// The product tokens that were looked for.
///
/// # Errors
///
/// Returns an error if one of them cannot be one.
pub(crate) fn tokens(decision: &DecisionRecord) -> Result<Vec<ProductToken>, String> {
    let tokens = decision.tokens.iter().map(|token| ProductToken::new(token));
    let tokens = tokens.collect::<Result<_, _>>();
    tokens.map_err(|error| format!("tokens: {error}"))
}

/// What robots.txt says of the request, if `access` came of fetching it.
///
/// # Errors
///
/// Returns what of the line cannot be read.
pub(crate) fn by_robots_txt<'a>(
    decision: &DecisionRecord,
    finding: &FindingRecord,
    access: &'a AccessResult,
    tokens: &'a [ProductToken],
) -> Result<Judged<'a>, String> {
    let dialect: Dialect =
        finding.dialect.parse().map_err(|_| unknown("dialect", &finding.dialect))?;
    let (target, scope) = asked_for(decision)?;
    Ok(decide_in_dialect(scope, access, dialect, tokens, target.path()))
}

/// What comes out differently than the line says, in its words.
///
/// # Errors
///
/// Returns that.
pub(crate) fn compare(judged: &Judged<'_>, finding: &FindingRecord) -> Result<(), String> {
    let same = |member: &str, derived: &str, said: &str| {
        if derived == said { Ok(()) } else { Err(format!("{member} is {derived:?}, not {said:?}")) }
    };
    let line = |line: Option<u32>| line.map_or("none".to_owned(), |line| line.to_string());
    same("verdict", judged.verdict().as_str(), &finding.verdict)?;
    same("basis", judged.reason().as_str(), &finding.basis)?;
    same("dialect", judged.dialect().as_str(), &finding.dialect)?;
    same("line", &line(judged.line()), &line(finding.line))?;
    same(
        "rule",
        &judged.rule().unwrap_or_default(),
        // Of a long rule earlier versions wrote all.
        &excerpt(finding.rule.as_deref().unwrap_or_default()),
    )
}

/// What robots.txt and the documents beside it say about use, where that is judged. `read` has the documents that the line names.
///
/// # Errors
///
/// Returns an error if one of these is missing.
pub(crate) fn by_preferences(
    asker: PreferenceQuery<'_>,
    decision: &DecisionRecord,
    access: &AccessResult,
    read: impl Fn(&DocumentRecord) -> Result<Option<PreferenceDocument>, String>,
) -> Result<Option<PreferenceJudgement>, String> {
    let (target, scope) = asked_for(decision)?;
    // As when it was decided, what the rules took is gone.
    let mut work = MatchContext::default();
    let (dialect, tokens) = (asker.dialect, asker.tokens);
    let _ = decide_within(scope, access, dialect, tokens, target.path(), &mut work);
    let Some(mut heard) = robots_txt_state(asker, access, &target, scope, work) else {
        return Ok(None);
    };
    if heard.is_already_refused(asker) {
        return Ok(Some(heard.judge(asker)));
    }
    for wanted in documents_to_fetch(asker, target.origin(), &heard) {
        let url = wanted.url();
        let seen = decision.documents.iter().find(|seen| seen.url == url);
        // One that is not there was not asked for.
        let document = seen.map_or(Ok(None), &read)?;
        let added = wanted.add_to(&mut heard, asker, &DocumentResult::Archived(document));
        added.map_err(|_| format!("{url} has not come"))?;
    }
    Ok(Some(heard.judge(asker)))
}

fn unknown(member: &str, word: &str) -> String {
    format!("{member} {word:?} is not known to this version")
}
