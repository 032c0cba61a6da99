//! The files that a decision rests on, as they were when it was made: robots.txt, and the document that decided about use.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;
use wayleave_admission::preview::Reading;
use wayleave_decision::stated_delay;
use wayleave_decision_log::{DecisionRecord, UsePreference};
use wayleave_lifecycle::{FetchedBody, Resource};
use wayleave_record::Word;
use wayleave_robots_txt::{AccessResult, Dialect, Target};
use wayleave_usage_preferences::{
    CrawlerDeclaration, Preference, PreferenceDocument, PreferenceQuery, PreferenceSettings,
    PreferenceStage, PreferenceState, PurposeSet,
};

use super::access::TeamScope;
use super::decisions::{look_up, unknown_decision};
use super::marked_lines::{MarkedLine, MatchedLine, marked_lines};
use super::parameters::PathDecision;
use super::response::{ErrorBody, SafeJson, error_response};
use super::robots::{deciding_file, file_at, kept_file};
use super::robots_view::DecidingFile;
use super::state::AdminState;

/// The files that a decision is based on.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Grounds)]
struct DecisionBasis {
    robots_url: String,
    /// The file that decided; null if none did.
    #[serde(rename = "said")]
    file: Option<DecidingFile>,
    /// The names on the user-agent lines of the group used.
    group: Vec<String>,
    /// The lines of that group: its user-agent lines and rules.
    group_lines: Vec<u32>,
    /// The deciding rule's line.
    line: Option<u32>,
    /// The lines that count for the decision, and what each of them did.
    marks: Vec<MarkedLine>,
    /// Whether robots.txt was consulted. If not, because a `[[rule]]` decided, this is what the origin served then, as far as
    /// is known.
    is_consulted: bool,
    /// Whether the same copy gives the same verdict by the same line again.
    #[serde(rename = "is_same")]
    agrees: bool,
    /// The document other than robots.txt that decided, if the decision is about use and one did.
    document: Option<BasisDocument>,
}

/// A document other than robots.txt that decided.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = GroundDocument)]
struct BasisDocument {
    url: String,
    /// The copy that decided.
    #[serde(rename = "said")]
    file: DecidingFile,
    /// Whether the same copy gives the same preference by the same statement again.
    #[serde(rename = "is_same")]
    agrees: bool,
}

/// The robots.txt that a decision is based on, with the lines that count.
#[utoipa::path(
    get,
    path = "/v1/decisions/{id}/robots",
    tag = "decisions",
    params(("id" = String, Path, pattern = "^[0-9a-f]{32}$", description = "The `decision_id` of a refusal or of a log line")),
    responses(
        (status = 200, body = DecisionBasis),
        (status = 400, body = ErrorBody, description = "The id is malformed"),
        (status = 404, body = ErrorBody, description = "There is no such decision, or it is not based on robots.txt"),
    )
)]
pub(super) async fn grounds(
    State(admin): State<AdminState>,
    scope: TeamScope,
    PathDecision(id): PathDecision,
) -> Response {
    let Some(decision) = look_up(&admin, &scope, id).await else {
        return unknown_decision();
    };
    match grounds_of(&admin, &decision).await {
        Some(grounds) => SafeJson(grounds).into_response(),
        None => error_response(StatusCode::NOT_FOUND, "the decision is not based on robots.txt"),
    }
}

async fn grounds_of(admin: &AdminState, decision: &DecisionRecord) -> Option<DecisionBasis> {
    let Some(finding) = decision.finding.as_ref() else {
        return overridden_basis(admin, decision).await;
    };
    let target = decision.target().ok()?;
    let origin = target.origin();
    let (file, body) = deciding_file(admin.decider.robots.store(), decision).await.unzip();
    let is_cut = file.as_ref().is_some_and(DecidingFile::is_cut);
    let matched = finding.line.map(|line| MatchedLine { line, verdict: &finding.verdict });
    let mut basis = DecisionBasis {
        robots_url: origin.robots_txt_uri(),
        group: Vec::new(),
        group_lines: Vec::new(),
        line: finding.line,
        marks: marked_lines(decision, matched, None),
        is_consulted: true,
        // Replaced below if the copy is still stored.
        agrees: false,
        file,
        document: document_of(admin, decision, &target).await,
    };
    // Judged again rather than shown from the log, which has the deciding line but not the rest of its group.
    if let Some(bytes) = body.flatten() {
        let body = FetchedBody { bytes, is_cut, digest: None };
        let access = AccessResult::Successful(body.parse());
        let dialect = finding.dialect.known();
        if let Some(reading) =
            dialect.and_then(|dialect| read_robots_txt(decision, dialect, &access))
        {
            basis.agrees = reading.agrees_with(finding);
            basis.marks = marked_lines(decision, matched, delay_line(decision, dialect, &access));
            basis.group = reading.group;
            basis.group_lines = reading.group_lines;
        }
    }
    Some(basis)
}

/// Returns the decision of robots.txt, had no `[[rule]]` decided: of the file that the origin served then, as far as is
/// known. Returns `None` for other decisions without robots.txt.
async fn overridden_basis(admin: &AdminState, decision: &DecisionRecord) -> Option<DecisionBasis> {
    decision.policy.as_ref().filter(|_| decision.is_by_policy_rule())?;
    let origin = decision.target().ok()?.origin().clone();
    let (file, body) = file_at(admin.decider.robots.store(), &origin, decision.at).await?;
    let body = FetchedBody { bytes: body?, is_cut: file.is_cut(), digest: None };
    let access = AccessResult::Successful(body.parse());
    let crawlers = &admin.decider.settings().crawlers;
    let dialect =
        crawlers.named(&decision.crawler).map_or(crawlers.dialect, |crawler| crawler.dialect);
    let reading = read_robots_txt(decision, dialect, &access)?;
    let matched = reading.matched_line().map(|(line, verdict)| MatchedLine { line, verdict });
    Some(DecisionBasis {
        robots_url: origin.robots_txt_uri(),
        line: None,
        marks: marked_lines(decision, matched, None),
        is_consulted: false,
        agrees: true,
        group: reading.group,
        group_lines: reading.group_lines,
        file: Some(file),
        document: None,
    })
}

/// Returns the line of the longest delay that a copy of robots.txt states for the crawler of a decision.
fn delay_line(
    decision: &DecisionRecord,
    dialect: Option<Dialect>,
    access: &AccessResult,
) -> Option<u32> {
    let tokens = decision.product_tokens().ok()?;
    stated_delay(access, dialect?, &tokens).map(|(_, line)| line)
}

/// Judges the request of a decision again by a copy of robots.txt. Returns `None` if the log does not say enough of it.
fn read_robots_txt(
    decision: &DecisionRecord,
    dialect: Dialect,
    access: &AccessResult,
) -> Option<Reading> {
    let tokens = decision.product_tokens().ok()?;
    let resolved = decision.resolved().ok()?;
    Some(Reading::new(access, dialect, &tokens, &resolved))
}

/// Returns the document whose statement decided, and whether it still reads the same for the purpose it decided about.
async fn document_of(
    admin: &AdminState,
    decision: &DecisionRecord,
    target: &Target,
) -> Option<BasisDocument> {
    // A refused purpose decides, and otherwise the first with a document.
    let preference = decision
        .preferences
        .iter()
        .filter(|preference| preference.document.is_some())
        .min_by_key(|preference| preference.preference != Preference::Refuse)?;
    let document = preference.document.as_ref()?;
    let (digest, fetched_at) = document.sha256.zip(document.fetched_at)?;
    let resource = Resource::parse(&document.url).ok();
    let store = admin.decider.robots.store();
    let (file, body) = kept_file(store, resource, digest, fetched_at).await;
    let settings = &admin.decider.settings().preferences.reading;
    let again = body
        .and_then(|body| read_again(&body, file.is_cut(), preference, target, decision, settings));
    Some(BasisDocument {
        url: document.url.clone(),
        agrees: again.is_some_and(|again| {
            again.preference == preference.preference && again.statement == preference.statement
        }),
        file,
    })
}

/// Judges one purpose again by a copy of a document alone, with the settings in effect now. Returns `None` if the copy or the
/// log's entry about it cannot be read.
fn read_again(
    bytes: &[u8],
    is_cut: bool,
    preference: &UsePreference,
    target: &Target,
    decision: &DecisionRecord,
    settings: &PreferenceSettings,
) -> Option<UsePreference> {
    let url = &preference.document.as_ref()?.url;
    let purpose = preference.purpose.known()?;
    let declaration = CrawlerDeclaration {
        purposes: PurposeSet::of(&[purpose]),
        ..CrawlerDeclaration::default()
    };
    let tokens = decision.product_tokens().ok()?;
    let finding = decision.finding.as_ref();
    let query = PreferenceQuery {
        declaration: &declaration,
        settings,
        tokens: &tokens,
        dialect: finding.and_then(|finding| finding.dialect.known()).unwrap_or_default(),
        all_spellings: true,
        // A statement that depends on a date has to be judged as of then.
        now: decision.at,
    };
    // The proxy could not see the paths in a tunnel, so a statement about any path counted.
    let mut state = if decision.resolved().ok()?.is_blind() {
        PreferenceState::for_every_path(&target.to_string())
    } else {
        PreferenceState::new(query, &target.to_string(), target.path().as_str())
    };
    match Resource::parse(url).ok()?.kind().parse(bytes, is_cut)? {
        PreferenceDocument::Tdmrep(file) => state.add_tdmrep(query, &file),
        PreferenceDocument::Rsl(licence) => {
            state.add_named_licence(query, url, &licence, stage_of(preference));
        }
        _ => return None,
    }
    state.judge(query).by_purpose.first().map(UsePreference::from)
}

/// Returns the stage at which a licence was named: in robots.txt, in the response's head, or in the page itself.
fn stage_of(preference: &UsePreference) -> PreferenceStage {
    preference.stage.as_ref().and_then(Word::known).unwrap_or(PreferenceStage::Before)
}
