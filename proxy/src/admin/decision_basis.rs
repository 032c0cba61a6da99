//! The robots.txt that a decision rests on, as it was when the decision was made.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;
use wayleave_lifecycle::{FetchedBody, Resource};
use wayleave_robots_txt::{AccessResult, ProductToken, Target};
use wayleave_usage_preferences::{
    CrawlerDeclaration, PreferenceDocument, PreferenceQuery, PreferenceSettings, PreferenceStage,
    PreferenceState, Purpose, PurposeSet,
};

use super::parameters::PathDecision;
use super::response::{ErrorBody, SafeJson, error_response};
use super::robots::{deciding_file, kept_file};
use super::robots_view::DecidingFile;
use super::state::AdminState;
use crate::decide::rederive;
use crate::decision_log::{DecisionRecord, UsePreference};

/// What a decision rests on.
#[derive(Debug, Serialize, ToSchema)]
struct Grounds {
    robots_url: String,
    /// The file that decided; null if none did.
    said: Option<DecidingFile>,
    /// The names on the user-agent lines of the group used.
    group: Vec<String>,
    /// The lines of that group: its user-agent lines and rules.
    group_lines: Vec<u32>,
    /// The deciding rule's line.
    line: Option<u32>,
    /// Whether reading that copy again gives the same verdict by the same line.
    is_same: bool,
    /// The document beside robots.txt that decided, if the decision is about use and rests on one.
    document: Option<GroundDocument>,
}

/// A document beside robots.txt that decided.
#[derive(Debug, Serialize, ToSchema)]
struct GroundDocument {
    url: String,
    /// What was decided by.
    said: DecidingFile,
    /// Whether reading that copy again gives the same preference by the same statement.
    is_same: bool,
}

/// The robots.txt that a decision rests on, with the lines that count.
#[utoipa::path(
    get,
    path = "/v1/decisions/{id}/robots",
    tag = "decisions",
    params(("id" = String, Path, pattern = "^[0-9a-f]{32}$", description = "The `decision_id` of a refusal or of a log line")),
    responses(
        (status = 200, body = Grounds),
        (status = 400, body = ErrorBody, description = "The id is malformed"),
        (status = 404, body = ErrorBody, description = "There is no such decision, or it does not rest on robots.txt"),
    )
)]
pub(super) async fn grounds(
    State(admin): State<AdminState>,
    PathDecision(id): PathDecision,
) -> Response {
    let Some(decision) = admin.decisions.look_up(id).await else {
        return error_response(
            StatusCode::NOT_FOUND,
            "there is no such decision, or it is no longer kept",
        );
    };
    match grounds_of(&admin, &decision).await {
        Some(grounds) => SafeJson(grounds).into_response(),
        None => {
            let message = "the decision does not rest on robots.txt";
            error_response(StatusCode::NOT_FOUND, message)
        }
    }
}

async fn grounds_of(admin: &AdminState, decision: &DecisionRecord) -> Option<Grounds> {
    let finding = decision.finding.as_ref()?;
    let target = Target::parse(&decision.url).ok()?;
    let origin = target.origin();
    let store = admin.decider.robots.store();
    let (said, body) = deciding_file(store, decision).await.unzip();
    let is_cut = said.as_ref().is_some_and(DecidingFile::is_cut);
    let mut grounds = Grounds {
        robots_url: origin.robots_txt_uri(),
        group: Vec::new(),
        group_lines: Vec::new(),
        line: finding.line,
        is_same: false,
        said,
        document: document_of(admin, decision, &target).await,
    };
    if let Some(bytes) = body.flatten() {
        let body = FetchedBody { bytes, is_cut, digest: None };
        let access = AccessResult::Successful(body.parse());
        if let Ok(tokens) = rederive::tokens(decision)
            && let Ok(judged) = rederive::by_robots_txt(decision, finding, &access, &tokens)
        {
            grounds.group = judged.group();
            grounds.group_lines = judged.group_lines();
            grounds.is_same = rederive::compare(&judged, finding).is_ok();
        }
    }
    Some(grounds)
}

/// The document whose statement decided, read again for the purpose it decided about.
async fn document_of(
    admin: &AdminState,
    decision: &DecisionRecord,
    target: &Target,
) -> Option<GroundDocument> {
    let by_document = |it: &&UsePreference| it.document.is_some();
    let mut all = decision.preferences.iter().filter(by_document);
    let refused = all.clone().find(|it| it.preference == "refuse");
    let preference = refused.or_else(|| all.next())?;
    let document = preference.document.as_ref()?;
    let (digest, fetched_at) = document.sha256.zip(document.fetched_at)?;
    let store = admin.decider.robots.store();
    let resource = Resource::parse(&document.url).ok();
    let (said, body) = kept_file(store, resource, digest, fetched_at).await;
    let reading = &admin.decider.settings().preferences.reading;
    let again =
        body.map(|body| read_again(&body, said.is_cut(), preference, target, (decision, reading)));
    Some(GroundDocument {
        url: document.url.clone(),
        is_same: again.flatten().is_some_and(|again| {
            again.preference == preference.preference && again.statement == preference.statement
        }),
        said,
    })
}

/// What a copy of a document says to a purpose by itself, by the settings that hold now.
fn read_again(
    bytes: &[u8],
    is_cut: bool,
    preference: &UsePreference,
    target: &Target,
    (decision, reading): (&DecisionRecord, &PreferenceSettings),
) -> Option<UsePreference> {
    let url = &preference.document.as_ref()?.url;
    let purpose: Purpose = preference.purpose.parse().ok()?;
    let declaration = CrawlerDeclaration {
        purposes: PurposeSet::of(&[purpose]),
        ..CrawlerDeclaration::default()
    };
    let tokens = decision.tokens.iter().map(|token| ProductToken::new(token));
    let tokens: Vec<_> = tokens.filter_map(Result::ok).collect();
    let finding = decision.finding.as_ref();
    let dialect = finding.and_then(|it| it.dialect.parse().ok());
    let asker = PreferenceQuery {
        declaration: &declaration,
        settings: reading,
        tokens: &tokens,
        dialect: dialect.unwrap_or_default(),
        all_spellings: true,
        now: decision.at,
    };
    let mut heard = match decision.outcome == "tunnelled" || decision.method == "CONNECT" {
        true => PreferenceState::for_every_path(&target.to_string()),
        false => PreferenceState::new(asker, &target.to_string(), target.path().as_str()),
    };
    match Resource::parse(url).ok()?.kind().parse(bytes, is_cut)? {
        PreferenceDocument::Tdmrep(file) => heard.add_tdmrep(asker, &file),
        PreferenceDocument::AiTxt(file) => heard.add_ai_txt(asker, &file),
        PreferenceDocument::Rsl(licence) => {
            let stage = stage_of(preference);
            heard.add_named_licence(asker, url, &licence, stage);
        }
        _ => return None,
    }
    let judgement = heard.judge(asker);
    judgement.by_purpose.first().map(UsePreference::from)
}

/// When what was said was known; a page names its licences itself.
fn stage_of(preference: &UsePreference) -> PreferenceStage {
    let stages = [PreferenceStage::Head, PreferenceStage::Body].into_iter();
    let said = preference.stage.as_deref();
    let mut said = stages.filter(|stage| Some(stage.as_str()) == said);
    said.next().unwrap_or(PreferenceStage::Before)
}
